"""The files that a run leaves beside its evidence: a page for people, and summaries for machines and reviewers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from holdback.binaries.progress import Progress
from holdback.errors import HoldbackError
from holdback.report.evidence import Evidence, load
from holdback.report.junit import junit
from holdback.report.markdown import markdown

__all__ = ["write_all"]


def write_all(directory: Path, *, complain: Callable[[str], None] | None = None) -> list[Path]:
    """Write `index.html`, `junit.xml` and `summary.md` from the evidence in a report directory.

    The Markdown is also appended to the file that `GITHUB_STEP_SUMMARY` names, except that of a shard, whose counts
    alone would read as a verdict. A run's result must not hang on its
    report: what cannot be written is told to `complain` in one line (by default on stderr), and the rest is written.

    Returns:
        The files that were written.
    """
    complain = complain or _say
    try:
        evidence = load(directory)
    except HoldbackError as error:
        complain(f"no report of {directory}: {error.message}")
        return []
    made: dict[str, Callable[[Evidence], str]] = {"index.html": _page, "junit.xml": junit, "summary.md": markdown}
    written = [_write(directory / name, evidence, make, complain) for name, make in made.items()]
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary and written[-1] and not evidence.run.get("shard"):
        _write(Path(summary), evidence, markdown, complain, append=True)
    return [path for path in written if path]


def _page(evidence: Evidence) -> str:
    from holdback.report.page import page  # noqa: PLC0415  brings Plotly, which takes a second

    with Progress().task("report") as task:

        def note(done: int, of: int) -> None:
            task.note = f"read {done} of {of} histories"

        return page(evidence, progress=note)


def _write(
    path: Path,
    evidence: Evidence,
    make: Callable[[Evidence], str],
    complain: Callable[[str], None],
    *,
    append: bool = False,
) -> Path | None:
    try:
        text = make(evidence)
        if append:
            with path.open("a", encoding="utf-8") as file:
                file.write(text)
        else:
            _replace(path, text)
    except Exception as error:  # noqa: BLE001  whatever it is, the run and its verdict stand
        complain(f"{path} was not written: {type(error).__name__}: {' '.join(str(error).split())}")
        return None
    return path


def _replace(path: Path, text: str) -> None:
    """A full disk leaves the file of before, not half of this one."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _say(line: str) -> None:
    sys.stderr.write(f"holdback: {line}\n")
