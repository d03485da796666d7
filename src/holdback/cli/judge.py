"""`holdback judge`: outcomes and verdict, computed again from disk."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING

from holdback.cli.arguments import add_report, add_root

if TYPE_CHECKING:
    from holdback.cli.types import Subcommands

__all__ = ["add"]


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "judge",
        help="compute outcomes and verdict again from stored histories",
        description="Judges every stored history by the oracles that the experiment's file names today, says which "
        "outcomes change, and prints the verdict. Writes nothing. Exit code 0: every experiment is FIXED.",
    )
    add_report(parser)
    add_root(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    from rich.console import Console  # noqa: PLC0415  not for `holdback --help`

    from holdback.report.evidence import load  # noqa: PLC0415  likewise
    from holdback.report.judging import judge_again, load_oracles, print_judgement  # noqa: PLC0415  likewise

    evidence = load(arguments.report)
    rejudged = judge_again(evidence.store, partial(load_oracles, run=evidence.run, root=arguments.root))
    return 0 if print_judgement(rejudged, Console(highlight=False)).fixed else 1
