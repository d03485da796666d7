"""`holdback replay`: one trial made again."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from holdback.cli.arguments import add_root, add_trial

if TYPE_CHECKING:
    from holdback.cli.types import Subcommands
    from holdback.replay.original import Original

__all__ = ["PASSED_ON", "add", "add_original", "find_trial"]

PASSED_ON = "pytest_options"
"""Where a command that runs pytest finds what follows `--`; `main` puts it there."""

_EPILOG = """\
examples:
  holdback replay control-001               a part of an id is enough where only one has it
  holdback replay treatment-017 -- -v       what follows `--` goes to pytest

exit codes: 0 the trial was made and judged, whatever its outcome; 1 it was not, or is INVALID or UNKNOWN;
2 the command line or a file it names is wrong; 130 interrupted
"""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "replay",
        help="make one trial again",
        description="Makes one trial again, with its arm, seed and faults, and tells whether it ends as it did. The "
        "evidence goes into replays/ of the report; what is there stays.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_original(parser)
    parser.set_defaults(run=_run)


def add_original(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which trial is made again and how."""
    add_trial(parser)
    add_root(parser)
    parser.usage = f"{parser.prog} [options] TRIAL [-- pytest's options]"
    parser.set_defaults(**{PASSED_ON: ()})


def find_trial(arguments: argparse.Namespace) -> Original:
    """The trial that these arguments name; says which lines of its report were damaged.

    Raises:
        HoldbackError: see `holdback.replay.original.find_original`.
    """
    from holdback.replay.original import find_original  # noqa: PLC0415  not for `holdback --help`

    original = find_original(arguments.report, arguments.trial, arguments.root)
    for damage in original.damages:
        sys.stdout.write(f"A damaged line was skipped: {damage}\n")
    return original


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console  # noqa: PLC0415  not for `holdback --help`

    from holdback.replay.again import print_replay, replay  # noqa: PLC0415  likewise

    replayed = replay(find_trial(arguments), arguments.pytest_options)
    print_replay(replayed, Console(highlight=False, soft_wrap=True))
    return 0 if replayed.judged else 1
