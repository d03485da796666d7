"""Outcomes and rows."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from holdback.errors import EvidenceError
from holdback.history.events import Note
from holdback.history.exposure import Exposure
from holdback.history.history import History
from holdback.history.store import Store
from holdback.oracles import Finding, Judgement
from holdback.trials.outcome import UNDECIDABLE, Outcome, Row, conclude, read_rows

ROW = Row(
    id="it-control-001",
    experiment="e2e/test_it.py::test_it",
    arm="control",
    variant="v0.17.0",
    index=0,
    block=0,
    seed=7,
    started=1000.5,
    seconds=2.5,
    outcome=Outcome.VIOLATED,
    reason="stuck",
    findings=(Finding("readmitted", Judgement.VIOLATED, "stuck", (1, 2)),),
    faults=("delay 100 ms on a>b",),
    dose_milliseconds=100.0,
    reactions=(0.012, 0.02),
    exposure=Exposure(9, 2, 0.31, 4, "a>b/watch:workloads"),
    error="none",
)


def finding(judgement: Judgement) -> Finding:
    return Finding(f"says-{judgement}", judgement, "because")


H, V, U = (finding(judgement) for judgement in (Judgement.HOLDS, Judgement.VIOLATED, Judgement.UNKNOWN))


@pytest.mark.parametrize(
    ("findings", "notes", "outcome"),
    [
        ([H, H], [], Outcome.HOLDS),
        ([H, U], [], Outcome.UNKNOWN),
        ([U, V, H], [], Outcome.VIOLATED),
        ([H, V], [Note(1, "world", "kueue died", fatal=True)], Outcome.INVALID),
        ([H, V], [Note(1, "kueue", "its log")], Outcome.VIOLATED),
        ([H], [Note(1, UNDECIDABLE, "odd")], Outcome.UNKNOWN),
        ([V], [Note(1, UNDECIDABLE, "odd")], Outcome.VIOLATED),
    ],
)
def test_the_gravest_word_decides(findings: list[Finding], notes: list[Note], outcome: Outcome) -> None:
    """INVALID beats VIOLATED beats UNKNOWN beats HOLDS; a note that is not fatal changes nothing."""
    assert conclude(History(tuple(notes)), findings)[0] is outcome


def test_a_dead_world_explains_more_than_what_came_of_it() -> None:
    """When the scenario and its clean-up failed and the world is dead, the reason is the world's."""
    notes = (
        Note(1, "scenario", "not admitted in 30 s", fatal=True),
        Note(2, "clean-up", "no answer", fatal=True),
        Note(3, "world", "kueue died", fatal=True),
    )
    assert conclude(History(notes), [H]) == (Outcome.INVALID, "world: kueue died")


def test_a_row_comes_back_as_it_was() -> None:
    """Every field survives, and a row has every field."""
    data = ROW.to_json()
    assert Row.from_json(data) == ROW
    assert set(data) == {field.name for field in fields(Row)}


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 99},
        {"schema": "1"},
        {"schema": ...},
        {"outcome": "splendid"},
        {"findings": [{}]},
        {"exposure": {"surplus": 1}},
        {"surplus": 1},
        {"findings": None},
        {"id": ...},
    ],
)
def test_what_is_no_row_is_refused(change: dict[str, Any]) -> None:
    """A newer schema, unknown words, missing and unknown fields are errors of the evidence."""
    data = {key: value for key, value in {**ROW.to_json(), **change}.items() if value is not ...}
    with pytest.raises(EvidenceError):
        Row.from_json(data)


def test_a_row_of_an_older_holdback_is_read() -> None:
    """A row of schema 1 has neither reactions nor exposure, and becomes one of today."""
    data = {key: value for key, value in ROW.to_json().items() if key not in {"reactions", "exposure"}}
    assert Row.from_json({**data, "schema": 1}) == replace(ROW, reactions=(), exposure=None)


def test_a_bad_row_costs_itself_alone(tmp_path: Path) -> None:
    """Reading a report gives the good rows, and the number of each bad line."""
    store = Store(tmp_path)
    store.begin({"id": "run", "started": 1.0})
    store.judged(ROW.to_json())
    store.judged({"schema": 99})
    store.judged(ROW.to_json())
    rows, damages = read_rows(store)
    assert rows == (ROW, ROW)
    assert [damage.line for damage in damages] == [2]


@pytest.mark.parametrize("wrong", [[], {}, True, object()], ids=["list", "mapping", "truth", "object"])
@pytest.mark.parametrize(
    "field",
    [
        "id",
        "experiment",
        "arm",
        "variant",
        "reason",
        "error",
        "index",
        "block",
        "seed",
        "started",
        "seconds",
        "dose",
        "dose_milliseconds",
    ],
)
def test_a_field_of_another_kind_makes_no_row(field: str, wrong: object) -> None:
    """What reads rows sorts, adds and names by their fields, so one of another kind is a damaged row."""
    with pytest.raises(EvidenceError, match=f"mistakes a field: {field} is"):
        Row.from_json({**ROW.to_json(), field: wrong})
