"""`holdback report`: the page and the summaries of a run, written again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdback.cli.arguments import add_report
from holdback.errors import EvidenceError

if TYPE_CHECKING:
    from pathlib import Path

    from holdback.cli.types import Subcommands

__all__ = ["add", "write_report"]


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "report",
        help="write a run's page and summaries again",
        description="Writes index.html, junit.xml and summary.md beside the evidence from which they are made, and "
        "appends the summary to the file that GITHUB_STEP_SUMMARY names. A run does the same at its end.",
    )
    add_report(parser)
    parser.set_defaults(run=lambda arguments: write_report(arguments.report))


def write_report(directory: Path) -> int:
    """Write the files of a report and say where they are; 0.

    Raises:
        EvidenceError: one could not be written; the others were.
    """
    from holdback.report.files import write_all  # noqa: PLC0415  not for `holdback --help`

    complaints: list[str] = []
    for path in write_all(directory, complain=complaints.append):
        sys.stdout.write(f"{path}\n")
    if complaints:
        raise EvidenceError("; ".join(complaints), remedy="name a directory that a run wrote, on a disk with room")
    return 0
