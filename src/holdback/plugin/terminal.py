"""What the terminal tells at the end."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdback.plugin.collecting import CHOSEN
from holdback.plugin.ending import ENDING, exposures_of
from holdback.plugin.settings import SETTINGS
from holdback.trials.outcome import Outcome, Row, likeness
from holdback.wording import counted

if TYPE_CHECKING:
    from holdback.statistics import Summary

_KINDS, _LAST_LINES, _LONGEST_LINE = 10, 4, 200
"""How much the terminal tells of trials that did not count; their rows have all of it."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the verdicts, and why trials did not count."""
    ending = config.stash.get(ENDING, None)
    if ending is None or config.stash.get(CHOSEN, False):
        return
    settings = config.stash[SETTINGS]
    terminalreporter.section("holdback")
    terminalreporter.write(_render(ending.summary, colour=terminalreporter.hasmarkup))
    for line in (*_exposed(ending.rows), *_uncounted(ending.rows), *map(str, ending.damages)):
        terminalreporter.write_line(line)
    if ending.unjudged:
        terminalreporter.write_line(f"{counted(ending.unjudged, 'trial was', 'trials were')} begun and not judged.")
    if settings.shard is not None:
        terminalreporter.write_line(f"This is {settings.shard}: `holdback merge` gives the verdict of all its shards.")
    for page in _write_report(settings.report) if ending.rows else ():
        terminalreporter.write_line(f"Report: {os.path.relpath(page, config.invocation_params.dir)}")
    report = os.path.relpath(settings.report, config.invocation_params.dir)
    terminalreporter.write_line(f"Evidence: {report}   repeat with the same options and {settings.repeat}")


def _write_report(directory: Path) -> list[Path]:
    """Write the report; its page, if there is one. What could not be written has been said, and fails no run."""
    from holdback.report import write_all  # noqa: PLC0415  not for sessions without experiments

    return [path for path in write_all(directory) if path.suffix == ".html"]


def _render(summary: Summary, *, colour: bool) -> str:
    from rich.console import Console  # noqa: PLC0415  not for sessions without experiments

    from holdback.report.terminal import print_summary  # noqa: PLC0415  likewise

    # In the terminal's own encoding: where that is ASCII, rich draws its lines in it, and nothing has to be escaped.
    encoding = sys.stdout.encoding or "utf-8"
    text = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace", newline="\n", write_through=True)
    width = min(100, shutil.get_terminal_size().columns)
    print_summary(summary, Console(file=text, width=width, force_terminal=colour, no_color=not colour))
    text.seek(0)
    return text.read()


def _exposed(rows: Sequence[Row]) -> list[str]:
    from holdback.report.exposure import exposure_lines, reaction_line  # noqa: PLC0415  likewise
    from holdback.statistics.exposure import reaction  # noqa: PLC0415  likewise

    reacted = reaction(rows)
    return [*exposure_lines(exposures_of(rows)), *([reaction_line(reacted)] if reacted else [])]


def _uncounted(rows: Sequence[Row]) -> list[str]:
    """Why trials did not count: each kind of reason once, in the words of the first trial that had it."""
    kinds: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.outcome in {Outcome.UNKNOWN, Outcome.INVALID}:
            kinds.setdefault((row.outcome.name, row.arm, likeness(row.reason)), []).append(row)
    most = sorted(kinds.items(), key=lambda kind: -len(kind[1]))[:_KINDS]
    return [
        line
        for (outcome, arm, _), alike in most
        for line in _excerpt(f"{len(alike)} {arm} {outcome}: {alike[0].reason}")
    ]


def _excerpt(text: str) -> list[str]:
    """The first line says what happened; the last ones are the end of a log, and what to do."""
    first, *rest = text.splitlines()
    return [_shortened(first), *(f"    {_shortened(line.strip())}" for line in rest[-_LAST_LINES:])]


def _shortened(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."
