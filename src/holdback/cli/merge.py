"""`holdback merge`: several reports become one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.cli.report import write_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdback.cli.types import Subcommands
    from holdback.statistics import Summary
    from holdback.trials.merge import Merged

__all__ = ["add"]

_EXAMPLES = """\
example:
  holdback merge all shard-1 shard-2 shard-3     three machines ran the same experiments, each with its own seed
"""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "merge",
        help="join the reports of shards or machines",
        description="Joins reports of the same experiments and variants that were made with different seeds. Every "
        "trial is counted once; what does not belong together is refused. The sources, and their logs, stay.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the directory to make")
    parser.add_argument("reports", type=Path, nargs="+", metavar="DIR", help="the reports to join, two or more")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console  # noqa: PLC0415  not for `holdback --help`

    from holdback.binaries.progress import Progress  # noqa: PLC0415  likewise
    from holdback.report.terminal import print_summary  # noqa: PLC0415  likewise
    from holdback.trials.merge import merge  # noqa: PLC0415  likewise

    with Progress().task("merge") as task:

        def note(done: int, of: int) -> None:
            task.note = f"{done} of {of} trials"

        merged = merge(arguments.out, arguments.reports, progress=note)
    for damage in merged.damages:
        sys.stdout.write(f"A damaged line was skipped: {damage}\n")
    print_summary(_keep_summary(merged, arguments.reports), Console(highlight=False))
    return write_report(arguments.out)


def _keep_summary(merged: Merged, sources: Sequence[Path]) -> Summary:
    """The summary of all; it was interrupted, or looked at while it ran, if one of its parts was."""
    from holdback.report.evidence import load  # noqa: PLC0415  not for `holdback --help`
    from holdback.statistics import summarise  # noqa: PLC0415  likewise

    parts = [load(source).summary for source in sources]
    summary = summarise(
        merged.rows,
        interrupted=any(part.interrupted for part in parts),
        sequential=any(part.sequential for part in parts),
    )
    merged.store.summarise(summary.to_json())
    return summary
