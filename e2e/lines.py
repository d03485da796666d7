"""What another process is writing, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["whole_lines"]


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of JSON that are whole by now, for the last one may be half written; none before there is the file."""
    if not path.exists():
        return []
    *whole, _ = path.read_text().split("\n")
    return [json.loads(line) for line in whole]
