"""What people see: the summary in the terminal, a trial's timeline, and the files that a run leaves."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_all"]


def write_all(directory: Path) -> list[Path]:
    """Write the files of `holdback.report.files` from the evidence in a report directory; returns what was written.

    Never raises for what cannot be written: it says so on stderr.
    """
    from holdback.report import files  # noqa: PLC0415  brings scipy, and a timeline alone needs none

    return files.write_all(directory)
