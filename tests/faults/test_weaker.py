from __future__ import annotations

from pathlib import Path

import pytest

from holdback.faults.plan import FaultPlan, PlannedFault, PlannedInjection
from holdback.faults.triggers import After, FaultEnded, ObjectSeen
from holdback.faults.values import Answer, Delay, Hold, Restart, Slow
from holdback.faults.weaker import Dose, Place, doses, holds, keeping

FIRST, SECOND = "kueue-{arm}>worker1", "kueue-{arm}>worker2"
DELAY = PlannedFault(Delay, FIRST, {"milliseconds": 100, "jitter_milliseconds": 9})
OTHER = PlannedFault(Delay, SECOND, {"milliseconds": 40})
HOLD = PlannedFault(Hold, f"{FIRST}/watch:workloads", {})
SEEN = ObjectSeen("workloads", on="worker1", later=2.0)


def plan(*injections: PlannedInjection) -> FaultPlan:
    return FaultPlan(Path("plan.yaml"), "t.py::test_it", 7, injections)


def turned(fault: PlannedFault, strength: float) -> PlannedFault | None:
    found = Dose((Place(0, 0),)).turned(plan(PlannedInjection((fault,))), strength)
    return None if found is None else found.faults[0]


def test_faults_are_left_out_where_they_are() -> None:
    """Those that are kept stay in their injection; one without faults stays too, and waits for nothing."""
    whole = plan(PlannedInjection((DELAY, HOLD), start=SEEN), PlannedInjection((OTHER,), end=After(1)))
    assert keeping(whole, [Place(0, 1)]) == plan(PlannedInjection((HOLD,), start=SEEN), PlannedInjection(()))
    assert keeping(whole, [Place(1, 0)]) == plan(PlannedInjection(()), PlannedInjection((OTHER,), end=After(1)))


def test_what_nothing_could_end_is_no_plan() -> None:
    """A trigger that waits for the end of a fault keeps that fault from being left out, unless it goes as well."""
    waiting = PlannedInjection((OTHER,), start=FaultEnded(str(HOLD)))
    whole = plan(PlannedInjection((HOLD,)), waiting)
    assert keeping(whole, [Place(1, 0)]) is None
    assert keeping(whole, [Place(0, 0)]) is not None
    assert keeping(whole, [Place(0, 0), Place(1, 0)]) is None  # it is the same


def test_a_trigger_follows_the_fault_that_it_waits_for() -> None:
    """A weaker delay has another description, and what waits for its end waits for that."""
    whole = plan(PlannedInjection((OTHER,)), PlannedInjection((HOLD,), start=FaultEnded(str(OTHER))))
    found = Dose((Place(0, 0),)).turned(whole, 0.5)
    assert found is not None
    assert found.injections[1].start == FaultEnded("delay 20 ms on kueue-{arm}>worker2")


@pytest.mark.parametrize(
    ("fault", "settings"),
    [
        (DELAY, {"milliseconds": 25, "jitter_milliseconds": 2}),
        (PlannedFault(Slow, FIRST, {"kilobytes_per_second": 3}), {"kilobytes_per_second": 12}),
        (PlannedFault(Answer, FIRST, {"status": 500, "times": 6}), {"status": 500, "times": 2}),
    ],
)
def test_a_weaker_fault_does_less(fault: PlannedFault, settings: dict[str, float]) -> None:
    """A quarter of the strength: less delay, four times the throughput, fewer answers, in whole numbers."""
    found = turned(fault, 0.25)
    assert found is not None
    assert found.settings == settings


@pytest.mark.parametrize(
    "fault", [HOLD, PlannedFault(Answer, FIRST, {"status": 500}), PlannedFault(Delay, FIRST, {"milliseconds": 0.5})]
)
def test_what_cannot_be_weaker_has_no_dose(fault: PlannedFault) -> None:
    """A hold, an answer to everything and a delay below a millisecond are as they are."""
    assert turned(fault, 0.25) is None
    assert doses(plan(PlannedInjection((fault,)))) == ()


def test_doses_are_turned_together_first() -> None:
    """Several doses are one knob before each is one; a single dose is one."""
    whole = plan(PlannedInjection((DELAY, HOLD)), PlannedInjection((OTHER,)))
    assert doses(whole) == (
        Dose((Place(0, 0), Place(1, 0))),
        Dose((Place(0, 0),)),
        Dose((Place(1, 0),)),
    )
    assert doses(plan(PlannedInjection((HOLD, OTHER)))) == (Dose((Place(0, 1),)),)


def test_a_hold_is_as_long_as_its_end_says() -> None:
    """Its length is its own, what it waits after an event, or what it was seen to last; a restart has none."""
    restart = PlannedFault(Restart, "kueue-{arm}", {})
    whole = plan(
        PlannedInjection((HOLD,), end=After(4)),
        PlannedInjection((HOLD,), end=SEEN),
        PlannedInjection((HOLD,)),
        PlannedInjection((restart,)),
        PlannedInjection(()),
        PlannedInjection((HOLD,), end=ObjectSeen("workloads", on="worker1")),
    )
    knobs = holds(whole, [9, 9, 3, 9, 9, 9])
    assert [(knob.injection, knob.seconds) for knob in knobs] == [(0, 4), (1, 2.0), (2, 3)]
    halved = [knob.turned(whole, 0.5) for knob in knobs]
    ends = [found and found.injections[number].end for number, found in enumerate(halved)]
    assert ends == [After(2), ObjectSeen("workloads", on="worker1", later=1.0), After(1.5)]
