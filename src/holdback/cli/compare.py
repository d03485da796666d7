"""`holdback compare`: last night against tonight."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdback.cli.types import Subcommands

__all__ = ["add"]


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "compare",
        help="tell whether two runs differ",
        description="For each experiment and arm: how often it was violated in each run, the difference, and an exact "
        "test of whether it is more than chance; says as well what else differs. Exit code 0 whatever it finds.",
    )
    parser.add_argument("before", type=Path, metavar="DIR1", help="the earlier run's report")
    parser.add_argument("after", type=Path, metavar="DIR2", help="the later run's report")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console  # noqa: PLC0415  not for `holdback --help`

    from holdback.report.compare import compare, print_comparison  # noqa: PLC0415  likewise
    from holdback.report.evidence import load  # noqa: PLC0415  likewise

    before, after = load(arguments.before), load(arguments.after)
    for damage in (*before.damages, *after.damages):
        sys.stdout.write(f"A damaged line was skipped: {damage}\n")
    print_comparison(compare(before, after), Console(highlight=False))
    return 0
