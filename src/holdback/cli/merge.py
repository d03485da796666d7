"""`holdback merge`: several reports become one."""

from __future__ import annotations

import argparse
import sys
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.cli.report import write_report
from holdback.errors import EvidenceError
from holdback.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdback.cli.types import Subcommands
    from holdback.statistics import Summary
    from holdback.trials.merge import Merged

__all__ = ["add"]

_EXAMPLES = """\
examples:
  holdback merge all shard-1 shard-2 shard-3     three machines made the shards 1/3, 2/3 and 3/3 of a run
  holdback merge all monday tuesday              two runs of the same experiments, each with its own seed
  holdback merge --wait=3600 --exit-code all /evidence/shard-1 /evidence/shard-2
                                                 other machines are still writing them; for CI
"""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "merge",
        help="join the reports of shards or machines",
        description="Joins reports of the same experiments and variants that were made with different seeds. Every "
        "trial is counted once; what does not belong together is refused, and which shards of a run are missing is "
        "told. The sources, and their logs, stay.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="the directory to make")
    parser.add_argument("reports", type=Path, nargs="+", metavar="DIR", help="the reports to join")
    parser.add_argument(
        "--wait",
        type=seconds,
        metavar="SECONDS",
        help="wait so long for reports that are not finished; what is not finished then is told, and counts as far as "
        "it is there (0: do not wait)",
    )
    parser.add_argument(
        "--exit-code",
        action="store_true",
        help="end with 1 unless every verdict is FIXED, no shard is missing, and all reports are finished",
    )
    parser.set_defaults(run=_run)


def seconds(word: str) -> float:
    """A time to wait; argparse puts this function's name into its complaint about a `ValueError`."""
    value = float(word)
    if not 0 <= value < inf:
        raise ValueError(word)
    return value


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console  # noqa: PLC0415  not for `holdback --help`

    from holdback.binaries.progress import Progress  # noqa: PLC0415  likewise
    from holdback.report.terminal import print_summary  # noqa: PLC0415  likewise
    from holdback.trials.merge import merge  # noqa: PLC0415  likewise

    reports = arguments.reports if arguments.wait is None else _await(arguments.reports, arguments.wait)
    with Progress().task("merge") as task:

        def note(done: int, of: int) -> None:
            task.note = f"{done} of {counted(of, 'trial')}"

        merged = merge(arguments.out, reports, progress=note)
    for damage in merged.damages:
        sys.stdout.write(f"A damaged line was skipped: {damage}\n")
    for shard in merged.missing:
        sys.stdout.write(f"Missing: {shard}\n")
    summary = _keep_summary(merged, reports, whole=len(reports) == len(arguments.reports))
    print_summary(summary, Console(highlight=False))
    code = write_report(arguments.out)
    return 1 if arguments.exit_code and (summary.interrupted or not summary.fixed) else code


def _await(reports: Sequence[Path], within: float) -> list[Path]:
    """The reports that have something to merge; those that are not finished after so many seconds are told."""
    from holdback.binaries.progress import Progress  # noqa: PLC0415  not for `holdback --help`
    from holdback.history.store import Store  # noqa: PLC0415  likewise
    from holdback.trials.shards import await_finished  # noqa: PLC0415  likewise

    with Progress().task("merge") as task:

        def note(left: Sequence[Path]) -> None:
            task.note = f"waiting for {len(left)} of {len(reports)} reports, {left[0]} the first of them"

        late = await_finished(reports, within=within, waiting=note)
    there = [each for each in reports if each not in late or Store(each).trials_path.exists()]
    for each in late:
        sys.stdout.write(f"Not finished: {each}{'' if each in there else ', which has no judged trial'}\n")
    if not there:
        raise EvidenceError("no report has a judged trial", remedy="see the logs of what should have made them")
    return there


def _keep_summary(merged: Merged, sources: Sequence[Path], *, whole: bool) -> Summary:
    """The summary of all; it was interrupted if one of its parts was, or is not there."""
    from holdback.report.evidence import load  # noqa: PLC0415  not for `holdback --help`
    from holdback.statistics import summarise  # noqa: PLC0415  likewise
    from holdback.statistics.design import design_of  # noqa: PLC0415  likewise

    interrupted = not whole or bool(merged.missing) or any(load(source).summary.interrupted for source in sources)
    summary = summarise(merged.rows, design_of(merged.store.run()), interrupted=interrupted)
    merged.store.summarise({**summary.to_json(), "run": merged.store.run()["id"]})
    return summary
