"""Reports on disk, as runs leave them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from holdback.history.history import History
from holdback.history.store import Store
from holdback.oracles import Finding, Judgement
from holdback.trials.outcome import Outcome, Row

ROW = Row(
    id="readmission-control-0",
    experiment="test_x.py::test_x",
    arm="control",
    variant="v0.17.0",
    index=0,
    block=0,
    seed=7,
    started=1_764_500_000.0,
    seconds=6.0,
    outcome=Outcome.VIOLATED,
    reason="never",
    findings=(Finding("readmitted", Judgement.VIOLATED, "never", (8,)),),
    faults=("delay 100 ms on kueue>worker1",),
    dose_milliseconds=100,
)


def stored(directory: Path, history: History | None, *rows: Row) -> Store:
    """A report with these rows, each with that history unless it is None."""
    store = Store(directory)
    store.begin({"id": "run", "started": ROW.started})
    for row in rows or (ROW,):
        store.plan({"id": row.id})
        if history is not None:
            store.record(row.id, history)
        store.judged(row.to_json())
    return store


def treatment(row: Row, outcome: Outcome) -> Row:
    return replace(row, id=row.id.replace("control", "treatment"), arm="treatment", outcome=outcome, findings=())
