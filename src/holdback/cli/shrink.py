"""`holdback shrink`: a smaller plan that still fails."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from holdback.cli.replay import add_original, find_trial

if TYPE_CHECKING:
    from holdback.cli.types import Subcommands

__all__ = ["add"]

_EPILOG = """\
examples:
  holdback shrink control-001                        a part of an id is enough where only one has it
  holdback shrink control-001 --repeats 3 --trials 30

A candidate counts as failing when it fails --repeats times in a row; 5 of 5 show a true rate above 55%. The first trial
that holds refuses it. INVALID and UNKNOWN trials do not count, and two of them refuse it as well. The result is tried
again at the end, and how sure it is rests on these trials alone. The best so far is always in shrunk.yaml, and Ctrl-C
keeps it.

exit codes: 0 there is a plan that still fails, perhaps the one that there was; 1 it does not fail reliably, or its
trials cannot be made; 2 the command line or a file it names is wrong; 130 interrupted
"""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "shrink",
        help="find a smaller plan with which a trial still fails",
        description="Leaves out faults, then makes doses smaller and holds shorter, as long as the trial of that arm "
        "still fails. Writes shrinks/TRIAL/shrunk.yaml in the report, for `pytest --plan`.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_original(parser)
    parser.add_argument(
        "--trials", type=int, default=60, metavar="N", help="the most trials to make (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=5,
        metavar="K",
        help="how many in a row must fail (default: %(default)s)",
    )
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from holdback.replay.shrink import shrink  # noqa: PLC0415  not for `holdback --help`

    original = find_trial(arguments)
    shrunk = shrink(
        original,
        repeats=arguments.repeats,
        budget=arguments.trials,
        out=sys.stdout,
        options=arguments.pytest_options,
    )
    sys.stdout.write(
        f"Plan: {shrunk.store.shrunk_path}\nTry it: pytest --plan={shrunk.store.shrunk_path} {original.node}\n"
    )
    return 0
