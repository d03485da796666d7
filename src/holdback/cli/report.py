"""What the subcommands that read a report share."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DEFAULT_REPORT"]

DEFAULT_REPORT = Path("holdback-report")
