from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdback.errors import ConfigurationError, EvidenceError
from holdback.faults.plan import write_plan
from holdback.faults.triggers import Injection
from holdback.faults.values import Delay, Hold
from holdback.history.events import FaultChange, Step
from holdback.history.history import History
from holdback.history.store import Store
from holdback.replay.original import find_original
from holdback.traffic.lanes import Link
from holdback.trials.outcome import Outcome
from tests.report.reports import ROW, stored, treatment
from tests.report.stories import stuck

LINK = Link("kueue-control", "worker1")
DELAY, HOLD = Delay(LINK, 100), Hold(LINK.reads)


@pytest.fixture
def report(tmp_path: Path) -> Store:
    """A report of three trials, whose experiment's file is beside it."""
    (tmp_path / "test_x.py").write_text("")
    store = stored(
        tmp_path / "report", stuck(), ROW, treatment(ROW, Outcome.HOLDS), replace(ROW, id="plain", faults=())
    )
    told = {"root": str(tmp_path), "directory": str(tmp_path), "seed": 5, "control": "v1"}
    store.run_path.write_text(json.dumps({**store.run(), **told, "command": ["pytest", "--count=2"]}))
    keep_plan(store, Injection((DELAY,)))
    return store


def keep_plan(store: Store, *injections: Injection) -> None:
    store.keep_plan(ROW.id, write_plan(injections, arm="control", experiment=ROW.experiment, seed=11))


def test_a_trial_is_found_with_all_that_made_it(report: Store, tmp_path: Path) -> None:
    """Its row, its faults, its seed, its project and its run, by a part of its id."""
    found = find_original(report.directory, "control-0")
    assert found.row == ROW
    assert found.plan is not None
    assert [fault.described("control") for fault in found.plan.faults] == [str(DELAY)]
    assert (found.root, found.directory) == (tmp_path, tmp_path)
    assert found.seed == 11
    assert found.node == f"{tmp_path}/test_x.py::test_x"
    assert found.command == "pytest --count=2 --holdback-seed=5"


def test_a_trial_without_faults_has_no_plan(report: Store) -> None:
    """Its run's seed is its own then."""
    found = find_original(report.directory, "plain")
    assert found.plan is None
    assert found.seed == 5
    assert found.lasted() == ()


def test_how_long_faults_lasted_is_read_from_the_history(report: Store) -> None:
    """Each injection as long as its longest fault, those described alike as they came, 0 for what never began."""

    def change(at: float, fault: Delay | Hold, phase: str) -> FaultChange:
        return FaultChange(at, str(fault), "started" if phase == "started" else "ended")

    keep_plan(report, Injection((DELAY, HOLD)), Injection((DELAY,)), Injection((Hold(LINK.writes),)), Injection(()))
    events = (
        change(1, DELAY, "started"),
        change(2, HOLD, "started"),
        change(5, HOLD, "ended"),
        change(5.5, DELAY, "ended"),
        Step(6, "end"),
        change(7, DELAY, "started"),
        change(7.25, DELAY, "ended"),
    )
    report.record(ROW.id, History(events))
    assert find_original(report.directory, ROW.id).lasted() == (4.5, 0.25, 0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "no trial has 'nothing'"),
        ("readmission", "2 trials have 'readmission'"),
        ("cut-short", "cut-short was interrupted before it was judged(.|\n)*pytest --count=2"),
    ],
)
def test_a_trial_that_cannot_be_found_is_told(report: Store, name: str, words: str) -> None:
    """An unknown one, several, and one that was not judged."""
    report.plan({"id": "cut-short"})
    with pytest.raises(EvidenceError, match=words):
        find_original(report.directory, name)


def test_a_damaged_report_is_told_with_the_trial_that_is_missing(report: Store) -> None:
    """That a trial is not there may be because its line cannot be read."""
    with report.trials_path.open("a") as file:
        file.write("{torn\n")
    assert find_original(report.directory, "plain").damages
    with pytest.raises(EvidenceError, match=r"1 damaged line .* the first is .*trials.jsonl:4: no JSON"):
        find_original(report.directory, "nothing")


def test_evidence_that_is_gone_is_told(report: Store, tmp_path: Path) -> None:
    """No report, a plan that was removed or broken, an experiment that was moved."""
    with pytest.raises(EvidenceError, match="no evidence in"):
        find_original(tmp_path / "absent", ROW.id)
    report.plan_path(ROW.id).write_text("schema: 9\ninjections: []")
    with pytest.raises(ConfigurationError, match=r"yaml:1: schema 9"):
        find_original(report.directory, ROW.id)
    report.plan_path(ROW.id).unlink()
    with pytest.raises(EvidenceError, match=r"had faults in force, and its plan .* is not there"):
        find_original(report.directory, ROW.id)
    (tmp_path / "test_x.py").rename(tmp_path / "test_y.py")
    with pytest.raises(ConfigurationError, match=r"test_x\.py, which has the experiment"):
        find_original(report.directory, "plain")
