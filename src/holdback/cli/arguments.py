"""Arguments that several subcommands have: which report, which trial of it, where its project is."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_report", "add_root", "add_trial"]

_DEFAULT_REPORT = Path("holdback-report")
_HELP = "the report (default: %(default)s)"


def add_report(parser: argparse.ArgumentParser) -> None:
    """The report that all of a subcommand is about."""
    parser.add_argument("report", type=Path, nargs="?", default=_DEFAULT_REPORT, metavar="DIR", help=_HELP)


def add_trial(parser: argparse.ArgumentParser) -> None:
    """A trial, and the report that has it."""
    parser.add_argument("trial", metavar="TRIAL", help="the trial's id, or a part that no other has")
    parser.add_argument("--report", type=Path, default=_DEFAULT_REPORT, metavar="DIR", help=_HELP)


def add_root(parser: argparse.ArgumentParser) -> None:
    """The project with the report's experiments."""
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="the root of the experiments' project (default: as it ran, else here)"
    )
