"""Reads docs/schema.md."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["TEXT", "documented"]

TEXT = (Path(__file__).parents[1] / "docs" / "schema.md").read_text()


def documented(heading: str) -> list[str]:
    """The fields that the table below a heading names, in order."""
    section = TEXT.split(f"\n## {heading}\n")[1].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]
