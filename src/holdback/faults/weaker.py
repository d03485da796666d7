"""Smaller plans made from a plan: without some of its faults, with smaller doses, with shorter holds. Pure.

What cannot be is None: a plan in which a trigger waits for the end of a fault that is not there any more, or one that
is no different from what it was made of.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdback.faults.plan import FaultPlan, PlannedFault, PlannedInjection
from holdback.faults.triggers import After, FaultEnded, Trigger
from holdback.faults.values import Answer, Delay, Restart, Slow

__all__ = ["Dose", "Hold", "Place", "doses", "faults_of", "holds", "keeping"]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where in a plan a fault is; both count from 0."""

    injection: int
    fault: int


def faults_of(plan: FaultPlan) -> dict[Place, PlannedFault]:
    """Every fault of a plan by its place."""
    return {
        Place(number, at): fault
        for number, injection in enumerate(plan.injections)
        for at, fault in enumerate(injection.faults)
    }


def keeping(plan: FaultPlan, places: Collection[Place]) -> FaultPlan | None:
    """The plan with these faults alone. An injection that loses all of its faults stays, for the scenario asks for it,
    but waits for nothing any more.
    """
    faults = faults_of(plan)
    kept = [
        tuple(fault for place, fault in faults.items() if place.injection == number and place in places)
        for number in range(len(plan))
    ]
    return _sound(
        plan,
        [
            replace(injection, faults=left) if left else PlannedInjection(())
            for injection, left in zip(plan.injections, kept, strict=True)
        ],
    )


@dataclass(frozen=True, slots=True)
class Dose:
    """How strong the faults at these places are, which can be turned down together."""

    places: tuple[Place, ...]

    def turned(self, plan: FaultPlan, strength: float) -> FaultPlan | None:
        """The plan with that part (above 0, up to 1) of the strength that it has."""
        renamed: dict[str, str] = {}
        faults = faults_of(plan)
        for place in self.places:
            old = faults[place]
            faults[place] = replace(old, settings=_weaker(old, strength))
            renamed[str(old)] = str(faults[place])
        return _sound(
            plan,
            [
                PlannedInjection(
                    tuple(fault for place, fault in faults.items() if place.injection == number),
                    start=_renamed(injection.start, renamed),
                    end=_renamed(injection.end, renamed),
                )
                for number, injection in enumerate(plan.injections)
            ],
        )

    def told(self, plan: FaultPlan) -> str:
        """What of the plan it is, in words."""
        faults = faults_of(plan)
        return " and ".join(str(faults[place]) for place in self.places)


@dataclass(frozen=True, slots=True)
class Hold:
    """How long the faults of an injection last; `seconds` is how long they do."""

    injection: int
    seconds: float

    def turned(self, plan: FaultPlan, strength: float) -> FaultPlan | None:
        """The plan with that part (above 0, up to 1) of the time."""
        injections = list(plan.injections)
        injection = injections[self.injection]
        seconds = round(self.seconds * strength, 3)
        end = injection.end
        shorter = After(seconds) if end is None or isinstance(end, After) else replace(end, later=seconds)
        injections[self.injection] = replace(injection, end=shorter)
        return _sound(plan, injections)

    def told(self, plan: FaultPlan) -> str:
        """What of the plan it is, in words."""
        injection = plan.injections[self.injection]
        after = injection.end is not None and not isinstance(injection.end, After)
        what = " and ".join(map(str, injection.faults))
        return f"{self.seconds:g} s {f'after {injection.end} ' if after else ''}of {what}"


def doses(plan: FaultPlan) -> tuple[Dose, ...]:
    """What of a plan's faults can be made weaker: first all together, if there are several, then each."""
    each = tuple(place for place, fault in faults_of(plan).items() if _weaker(fault, 0.5) != fault.settings)
    together = (Dose(each),) if len(each) > 1 else ()
    return (*together, *(Dose((place,)) for place in each))


def holds(plan: FaultPlan, lasted: Sequence[float]) -> tuple[Hold, ...]:
    """Which of a plan's injections can be made shorter.

    Args:
        plan: it.
        lasted: for each injection the seconds that its faults were seen to last, 0 where that is not known. It matters
            where nothing but the scenario's block ends them.
    """
    found = (Hold(number, _seconds(plan.injections[number], lasted[number])) for number in range(len(plan)))
    return tuple(hold for hold in found if hold.seconds)


def _seconds(injection: PlannedInjection, lasted: float) -> float:
    """Seconds that could be fewer; 0 where none could."""
    if all(fault.cls is Restart for fault in injection.faults):
        return 0.0  # nothing lasts: a restart is over when it is done
    match injection.end:
        case None:
            return lasted
        case After(seconds):
            return seconds
        case event:
            return event.later


def _weaker(fault: PlannedFault, strength: float) -> Mapping[str, Any]:
    """The settings of a fault at a part of its strength; the same where it has none, or it cannot be less."""
    given = fault.settings
    weaker: dict[str, float] = {}
    if fault.cls is Delay:
        delays = [name for name in ("milliseconds", "jitter_milliseconds") if name in given]
        weaker = {name: min(given[name], max(1, round(given[name] * strength))) for name in delays}
    elif fault.cls is Slow:
        weaker = {"kilobytes_per_second": math.ceil(given["kilobytes_per_second"] / strength)}
    elif fault.cls is Answer and given.get("times"):
        weaker = {"times": math.ceil(given["times"] * strength)}
    return {**given, **weaker}


def _renamed(trigger: Trigger | None, names: Mapping[str, str]) -> Trigger | None:
    if isinstance(trigger, FaultEnded):
        return replace(trigger, fault=names.get(str(trigger.fault), trigger.fault))
    return trigger


def _sound(plan: FaultPlan, injections: Sequence[PlannedInjection]) -> FaultPlan | None:
    """The plan with these injections, or None if it is the same or a trigger waits for the end of what is gone."""
    changed = replace(plan, injections=tuple(injections))
    gone = set(map(str, plan.faults)) - set(map(str, changed.faults))
    triggers = (trigger for injection in injections for trigger in injection.triggers)
    if any(isinstance(trigger, FaultEnded) and str(trigger.fault) in gone for trigger in triggers):
        return None
    return None if changed == plan else changed
