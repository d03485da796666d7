"""A report directory, read back: what every page, file and command about a run begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from holdback.errors import EvidenceError
from holdback.history.store import Damage, Store
from holdback.statistics import Summary, summarise
from holdback.statistics.design import design_of
from holdback.trials.outcome import Row, read_rows

__all__ = ["Evidence", "load"]


@dataclass(frozen=True)
class Evidence:
    """All of a run but its histories, which are read one by one.

    `unfinished` are the ids of planned trials that were never judged, `damages` the lines that could not be read.
    """

    store: Store
    run: Mapping[str, Any]
    rows: tuple[Row, ...]
    unfinished: tuple[str, ...]
    damages: tuple[Damage, ...]

    @cached_property
    def summary(self) -> Summary:
        """Computed from the rows, never read; only whether it was interrupted comes from `summary.json`.

        A run that was killed left no such file, and counts as interrupted.
        """
        interrupted = bool(self.store.summary().get("interrupted", True))
        return summarise(self.rows, design_of(self.run), interrupted=interrupted)


def load(directory: Path) -> Evidence:
    """The evidence in a report directory.

    Raises:
        EvidenceError: there is none, or it cannot be read.
    """
    store = Store(directory)
    if not (store.trials_path.exists() or store.planned_path.exists()):
        raise EvidenceError(
            f"there is no evidence in {directory}",
            remedy="name the directory that a run wrote, by default holdback-report",
        )
    rows, damages = read_rows(store)
    planned, more = store.planned()
    judged = {row.id for row in rows}
    unfinished = tuple(str(line["id"]) for _, line in planned if "id" in line and line["id"] not in judged)
    return Evidence(store, store.run(), rows, unfinished, (*damages, *more))
