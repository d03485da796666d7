"""`holdback show`: one trial's timeline."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from holdback.cli.arguments import add_trial

if TYPE_CHECKING:
    from holdback.cli.types import Subcommands

__all__ = ["add"]

_EXAMPLES = """\
examples:
  holdback show an-evicted-workload-is-admitted-again-control-001
  holdback show control-001 --requests      a part of an id is enough where only one has it
"""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "show",
        help="show a trial's timeline",
        description="Tells a trial from its evidence: what the scenario did, which faults were in force, how each "
        "cluster's objects changed, and which of the controller's writes were refused.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_trial(parser)
    parser.add_argument("--shadow", action="store_true", help="also what the controller's own watches were told")
    parser.add_argument("--requests", action="store_true", help="all of the controller's requests")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console  # noqa: PLC0415  not for `holdback --help`

    from holdback.history.store import Store  # noqa: PLC0415  likewise
    from holdback.report.show import print_trial  # noqa: PLC0415  likewise

    store = Store(arguments.report)
    console = Console(highlight=False)
    print_trial(store, arguments.trial, console, shadow=arguments.shadow, requests=arguments.requests)
    return 0
