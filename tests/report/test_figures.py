import json
from dataclasses import replace
from typing import Any

from holdback.history.exposure import Exposure
from holdback.oracles import Finding, Judgement
from holdback.report.figures import Material, durations, exposures, reactions
from holdback.report.plotting import Section
from holdback.report.timings import timings
from holdback.trials.outcome import Outcome
from tests.report.sample import history, row


def traces(section: Section | None) -> dict[str, dict[str, Any]]:
    assert section is not None
    return {trace["name"]: trace for trace in json.loads(section.figure)["data"]}


def test_a_timing_is_between_the_events_that_an_oracle_cites() -> None:
    """From the first to the last cited event, in seconds, for oracles that hold and cite two."""
    made = row("treatment", 0, Outcome.HOLDS)
    recorded = history(made, events=0)
    holds = Finding("readmitted", Judgement.HOLDS, "", (2, 9))
    others = (
        Finding("one_event", Judgement.HOLDS, "", (2,)),
        Finding("violated", Judgement.VIOLATED, "", (2, 9)),
        Finding("beyond_the_end", Judgement.HOLDS, "", (2, 999)),
    )
    (timing,) = timings(replace(made, findings=(holds, *others)), recorded)
    assert timing.oracle == "readmitted"
    assert timing.seconds == recorded.events[9].at - recorded.events[2].at


def test_timings_stand_by_arm() -> None:
    """Each arm has its own box; the words say from when on, and how many trials never came that far.

    A trial that another oracle found violated counts like any other.
    """
    late = replace(row("control", 0, Outcome.HOLDS), outcome=Outcome.VIOLATED)
    rows = [row("treatment", 0, Outcome.HOLDS), late, row("control", 1, Outcome.VIOLATED)]
    found = [timing for each in rows for timing in timings(each, history(each, events=0))]
    section = durations(Material(rows, found))
    assert {arm: len(box["x"]) for arm, box in traces(section).items()} == {"control": 1, "treatment": 1}
    assert section is not None
    assert "until readmitted held" in section.words
    assert "(control: 1)" in section.words


def test_without_timings_there_is_no_figure() -> None:
    """Oracles that cite nothing leave no section."""
    assert durations(Material([row("control", 0, Outcome.VIOLATED)], [])) is None


def test_exposure_stands_by_arm_and_outcome() -> None:
    """Trials that recorded how stale the controller was are shown, the others are not; control comes first."""
    exposed = Exposure(writes=30, behind=4, seconds=0.21, events=3, lane="kueue>worker1/watch:workloads")
    rows = [
        row("treatment", 0, Outcome.HOLDS, exposure=exposed),
        row("control", 0, Outcome.VIOLATED, exposure=exposed),
        row("control", 1, Outcome.HOLDS, exposure=Exposure(writes=30, behind=0)),
        row("control", 2, Outcome.VIOLATED),
    ]
    boxes = traces(exposures(Material(rows, [])))
    assert [(group, box["x"]) for group, box in boxes.items()] == [
        ("control, violated", [0.21]),
        ("control, holds", [0.0]),
        ("treatment, holds", [0.21]),
    ]
    assert "4 of 30 writes behind" in boxes["control, violated"]["text"][0]
    assert exposures(Material(rows[3:], [])) is None


def test_every_reaction_is_a_point() -> None:
    """Each triggered fault of a trial counts, in milliseconds; trials without a trigger leave no section."""
    rows = [row("control", 0, Outcome.VIOLATED, reactions=(0.004, 0.006)), row("treatment", 0, Outcome.HOLDS)]
    assert {arm: box["x"] for arm, box in traces(reactions(Material(rows, []))).items()} == {"control": [4, 6]}
    assert reactions(Material(rows[1:], [])) is None
