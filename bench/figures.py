"""Measured figures beside the promised ones, for people and for programs."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

__all__ = ["Figure", "machine", "table", "write"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure.

    `promised` is the value that it must reach, None where nothing is promised; `better` says whether less or more is
    good. `detail` is what it is made of.
    """

    name: str
    value: float
    unit: str
    promised: float | None = None
    better: Literal["less", "more"] = "less"
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> bool | None:
        """Whether the promise is kept; None where there is none."""
        if self.promised is None:
            return None
        return self.value <= self.promised if self.better == "less" else self.value >= self.promised


def machine() -> dict[str, Any]:
    """What the figures depend on: processors, and how busy they are with other work."""
    return {"system": platform.platform(), "processors": os.cpu_count(), "load": os.getloadavg()}


def table(figures: Sequence[Figure], about: Mapping[str, Any]) -> Table:
    """All of them in one table."""
    busy = ", ".join(f"{load:.1f}" for load in about["load"])
    made = Table(title="holdback's figures", caption=f"{about['processors']} processors, load {busy} at the begin")
    for heading in ("figure", "measured", "promised", "", "of it"):
        numbers = heading in {"measured", "promised"}
        # A long name must not take the room of what was measured.
        made.add_column(heading, justify="right" if numbers else "left", no_wrap=heading not in {"figure", "of it"})
    for each in figures:
        word = {"less": "at most", "more": "at least"}[each.better]
        promised = "" if each.promised is None else f"{word} {each.promised:g}"
        kept = {None: Text(""), True: Text("kept", style="green"), False: Text("missed", style="bold red")}[each.kept]
        parts = "\n".join(f"{name}: {_short(value)}" for name, value in each.detail.items())
        made.add_row(each.name, f"{_short(each.value)} {each.unit}", promised, kept, parts)
    return made


def write(figures: Sequence[Figure], about: Mapping[str, Any], path: Path) -> None:
    """Keep them as JSON; an earlier file is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [{**asdict(each), "kept": each.kept} for each in figures]
    path.write_text(json.dumps({"written": time.time(), "machine": about, "figures": found}, indent=2) + "\n")


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
