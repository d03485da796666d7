"""The trial that is made again: its evidence, and where its experiment is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdback.errors import EvidenceError
from holdback.faults.plan import FaultPlan, read_plan
from holdback.history.events import FaultChange
from holdback.history.store import Damage, Store
from holdback.report.evidence import load
from holdback.report.project import find_root, origin, parts_of
from holdback.report.show import find_trial
from holdback.report.words import repeat_command
from holdback.trials.outcome import Row
from holdback.wording import counted

__all__ = ["Original", "find_original"]


@dataclass(frozen=True, slots=True)
class Original:
    """A judged trial of a report.

    `run` is the run.json of the run that made it (of a merged report: of one of its runs), `plan` has the faults that
    it put in force, None if its scenario asked for none. `root` is the root directory of its project as it is now,
    `damages` are the lines of the report that could not be read.
    """

    store: Store
    row: Row
    run: Mapping[str, Any]
    plan: FaultPlan | None
    root: Path
    damages: tuple[Damage, ...]

    @property
    def node(self) -> str:
        """What pytest is to collect: the function, with all of its parameters."""
        file, function = parts_of(self.row.experiment)
        return f"{self.root / file}::{function}"

    @property
    def directory(self) -> Path:
        """Where its run was started, to which the arms' paths are relative; the root where that is another one now."""
        recorded = Path(str(self.run.get("directory", "")))
        return recorded if recorded.is_dir() and self.run.get("root") == str(self.root) else self.root

    @property
    def seed(self) -> int | None:
        """Its run's, from which the seeds of all trials come."""
        known = self.plan.seed if self.plan and self.plan.seed is not None else self.run.get("seed")
        return known if isinstance(known, int) else None

    @property
    def command(self) -> str:
        """How its run was started."""
        return repeat_command(self.run) or "pytest"

    def lasted(self) -> tuple[float, ...]:
        """For each injection of its plan the most seconds that a fault of it was in force; 0 where none is recorded.

        Faults that are described alike are taken as they came.
        """
        if self.plan is None or not self.store.history_path(self.row.id).exists():
            return tuple(0.0 for _ in self.plan.injections) if self.plan else ()
        history, _ = self.store.history(self.row.id)
        spans = _spans([event for event in history.events if isinstance(event, FaultChange)])
        return tuple(
            max((_taken(spans, fault.described(self.row.arm)) for fault in injection.faults), default=0.0)
            for injection in self.plan.injections
        )


def find_original(report: Path, name: str, root: Path | None = None) -> Original:
    """The trial whose id is `name` or has it as a part, and all that is needed to make it again.

    Args:
        report: the directory of its report.
        name: its id or a part of it that no other trial has.
        root: the root directory of its project; None for what is recorded.

    Raises:
        EvidenceError: no report, no such trial or several, one that was not judged, or its plan is gone.
        ConfigurationError: its experiment's file is not where it was, or its plan is damaged.
    """
    evidence = load(report.absolute())  # pytest runs elsewhere
    rows = {row.id: row for row in evidence.rows}
    found = _found([*rows, *evidence.unfinished], name, evidence.damages)
    run = origin(evidence.run)
    if found not in rows:
        raise EvidenceError(
            f"trial {found} was interrupted before it was judged: there is no outcome to compare with",
            remedy=f"repeat its run: {repeat_command(run) or 'pytest'}",
        )
    row = rows[found]
    return Original(
        evidence.store, row, run, _plan(evidence.store, row), find_root(run, row.experiment, root), evidence.damages
    )


def _found(ids: Sequence[str], name: str, damages: Sequence[Damage]) -> str:
    try:
        return find_trial(ids, name)
    except EvidenceError as error:
        if not damages:
            raise
        lost = (
            f"{error.message}; {counted(len(damages), 'damaged line')} of the report skipped, the first is {damages[0]}"
        )
        raise EvidenceError(lost, remedy=error.remedy) from error


def _plan(store: Store, row: Row) -> FaultPlan | None:
    path = store.plan_path(row.id)
    if path.exists():
        return read_plan(path)
    if row.faults:
        raise EvidenceError(
            f"trial {row.id} had faults in force, and its plan {path} is not there",
            remedy="give the file back, or take another trial",
        )
    return None


def _spans(changes: list[FaultChange]) -> dict[str, list[float]]:
    """Seconds from each start of a fault to its end, by the fault's description, as they began."""
    begun: dict[str, list[float]] = {}
    spans: dict[str, list[float]] = {}
    for change in changes:
        if change.phase == "started":
            begun.setdefault(change.fault, []).append(change.at)
        elif begun.get(change.fault):
            spans.setdefault(change.fault, []).append(round(change.at - begun[change.fault].pop(0), 3))
    return spans


def _taken(spans: dict[str, list[float]], fault: str) -> float:
    return spans[fault].pop(0) if spans.get(fault) else 0.0
