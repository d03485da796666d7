import json
from dataclasses import replace
from typing import Any

import pytest

from holdback.history.exposure import Exposure
from holdback.oracles import Finding, Judgement
from holdback.report.figures import Material, Section, dose_response, durations, exposures, reactions
from holdback.report.timings import timings
from holdback.trials.outcome import Outcome, Row
from tests.report.sample import history, row


def traces(section: Section | None) -> dict[str, dict[str, Any]]:
    assert section is not None
    return {trace["name"]: trace for trace in json.loads(section.figure)["data"]}


def at_dose(arm: str, dose: float, violated: int, of: int) -> list[Row]:
    outcomes = [Outcome.VIOLATED] * violated + [Outcome.HOLDS] * (of - violated)
    return [row(arm, index, outcome, dose_milliseconds=dose) for index, outcome in enumerate(outcomes)]


def test_one_dose_is_no_curve() -> None:
    """Where all trials had the same dose there is nothing to show."""
    assert dose_response(Material(at_dose("control", 100, 5, 10), [])) is None


def test_each_dose_has_its_rate_and_interval() -> None:
    """The points of an arm are its rates by rising dose, the bars the exact interval: 5 of 10 is 18.7% to 81.3%."""
    rows = [*at_dose("control", 100, 10, 10), *at_dose("control", 0, 5, 10), *at_dose("treatment", 0, 0, 10)]
    control = traces(dose_response(Material(rows, [])))["control"]
    assert (control["x"], control["y"]) == ([0, 100], [0.5, 1.0])
    assert control["error_y"]["array"][0] == pytest.approx(0.313, abs=1e-3)
    assert control["error_y"]["arrayminus"][0] == pytest.approx(0.313, abs=1e-3)
    assert control["text"] == ["5 of 10", "10 of 10"]


def test_the_curve_and_its_band_are_drawn() -> None:
    """Each arm has a fitted line that rises with its rates and lies in its band; the words tell where half fail."""
    rows = [
        each
        for dose, violated in ((0, 0), (10, 1), (50, 9), (100, 10))
        for each in at_dose("control", dose, violated, 10)
    ]
    rows += [each for dose in (0, 10, 50, 100) for each in at_dose("treatment", dose, 0, 10)]
    section = dose_response(Material(rows, []))
    drawn = traces(section)
    line, band = drawn["control, fitted"], drawn["control, band"]
    assert list(line["y"]) == sorted(line["y"])
    half = len(line["y"])
    lows, highs = band["y"][:half], band["y"][half:][::-1]
    assert all(low <= rate <= high for low, rate, high in zip(lows, line["y"], highs, strict=True))
    assert max(drawn["treatment, fitted"]["y"]) < 0.02
    assert section is not None
    assert "Half of the control trials fail at 2" in section.words
    assert "exact 95% interval" in section.words
    adaptive = dose_response(Material(rows, [], adaptive=True))
    assert adaptive is not None
    assert "that holds at every look" in adaptive.words


def test_the_dose_that_was_asked_for_counts() -> None:
    """Where doses were asked for a trial belongs to its own, whatever delay came into force."""
    rows = [row("control", index, Outcome.VIOLATED, dose=7 * index, dose_milliseconds=0.0) for index in (1, 2)]
    assert traces(dose_response(Material(rows, [])))["control"]["x"] == [7, 14]


def test_trials_that_decide_nothing_make_no_point() -> None:
    """A dose at which every trial was invalid has no rate."""
    rows = [*at_dose("control", 0, 5, 10), row("control", 0, Outcome.INVALID, dose_milliseconds=500.0)]
    assert traces(dose_response(Material(rows, [])))["control"]["x"] == [0]


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
    """Each arm has its own box; the words say from when on, and how many trials never came that far."""
    rows = [row("treatment", 0, Outcome.HOLDS), row("control", 0, Outcome.VIOLATED)]
    found = [timing for each in rows for timing in timings(each, history(each, events=0))]
    section = durations(Material(rows, found))
    assert {arm: len(box["x"]) for arm, box in traces(section).items()} == {"treatment": 1}
    assert section is not None
    assert "until readmitted held" in section.words
    assert "control: 1" in section.words


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
    """Each triggered fault of a trial counts; trials without a trigger leave no section."""
    rows = [row("control", 0, Outcome.VIOLATED, reactions=(0.004, 0.006)), row("treatment", 0, Outcome.HOLDS)]
    assert {arm: box["x"] for arm, box in traces(reactions(Material(rows, []))).items()} == {"control": [0.004, 0.006]}
    assert reactions(Material(rows[1:], [])) is None
