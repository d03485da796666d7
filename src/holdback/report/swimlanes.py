"""One trial as swim lanes: which lanes there are, which states fill them, and where something happened.

Pure: a history in, plain values out. The page draws them, and lists the same entries below as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from holdback.history.events import Event, FaultChange, ObjectChange, Request
from holdback.history.history import History
from holdback.report.kueue import DESCRIBERS
from holdback.report.states import state
from holdback.report.timeline import Entry, timeline

__all__ = ["BLOCKED", "DELAYED", "Lane", "Mark", "Span", "Swimlanes", "swimlanes"]

Kind = Literal["scenario", "fault", "truth", "shadow", "requests"]
DELAYED, BLOCKED = "delayed", "blocked"
"""States of a fault's lane while the fault is in force."""
_PASSING = frozenset({404, 408, 409, 410, 429})
"""Answers to a write that say nothing against it: the object is gone, or changed meanwhile, or come again later."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A horizontal strip: the scenario and its notes, a fault, an object in one view, or a link's requests."""

    kind: Kind
    client: str = ""
    cluster: str = ""
    resource: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A state that lasted, in seconds since the trial began."""

    lane: Lane
    start: float
    end: float
    state: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment at which something happened; `entry` is the index of the entry that tells it."""

    lane: Lane
    seconds: float
    entry: int


@dataclass(frozen=True, slots=True)
class Swimlanes:
    """Everything that a trial's picture shows; `seconds` is how long its history is.

    `tones` are those of the entries, with the refused writes divided: `passing` are the conflicts and the like that
    every controller meets in its daily work.
    """

    seconds: float
    lanes: tuple[Lane, ...]
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]
    entries: tuple[Entry, ...]
    tones: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Compact JSON data for the page's script: lanes by their index, milliseconds kept."""
        place = {lane: index for index, lane in enumerate(self.lanes)}
        return {
            "seconds": round(self.seconds, 3),
            "lanes": [[_title(lane, self.lanes), lane.kind] for lane in self.lanes],
            "spans": [[place[each.lane], round(each.start, 3), round(each.end, 3), each.state] for each in self.spans],
            "marks": [[place[each.lane], round(each.seconds, 3), each.entry] for each in self.marks],
            "entries": [
                [round(each.seconds, 3), each.lane, tone, each.text]
                for each, tone in zip(self.entries, self.tones, strict=True)
            ],
        }


def swimlanes(history: History) -> Swimlanes:
    """The lanes of a trial from top to bottom, what fills them, and the entries of its timeline."""
    entries = timeline(history, DESCRIBERS, shadow=True, requests=True)
    spans = (*_faults(history), *_objects(history))
    marks = tuple(
        Mark(_lane(history.events[index]), _since(history, index), number)
        for number, entry in enumerate(entries)
        for index in entry.events
    )
    begun = sorted(
        [(span.start, span.lane) for span in spans] + [(mark.seconds, mark.lane) for mark in marks], key=itemgetter(0)
    )
    lanes = dict.fromkeys(lane for _, lane in begun)
    end = _since(history, len(history.events) - 1) if history.events else 0.0
    tones = tuple(_tone(entry, history) for entry in entries)
    return Swimlanes(end, _ordered(tuple(lanes)), spans, marks, entries, tones)


def _tone(entry: Entry, history: History) -> str:
    first = history.events[entry.events[0]]
    return (
        "passing" if isinstance(first, Request) and entry.tone == "refused" and first.status in _PASSING else entry.tone
    )


def _lane(event: Event) -> Lane:
    match event:
        case ObjectChange():
            return Lane(event.view, event.client, event.cluster, event.resource, event.name)
        case Request():
            return Lane("requests", event.client, event.cluster)
        case FaultChange():
            return Lane("fault", name=event.fault)
        case _:
            return Lane("scenario")


def _objects(history: History) -> Iterator[Span]:
    """The states of every object of the trial, each from the change that brought it to the one that ended it."""
    open_: dict[Lane, tuple[float, str]] = {}
    for index, event in enumerate(history.events):
        if not isinstance(event, ObjectChange) or not history.concerns(event):
            continue
        lane, now = _lane(event), _since(history, index)
        new = "" if event.change == "DELETED" else state(event.resource, event.object)
        start, old = open_.pop(lane, (now, new))
        if old and old != new:
            yield Span(lane, start, now, old)
        if new:
            open_[lane] = (start if old == new else now, new)
    yield from _until_the_end(history, open_)


def _faults(history: History) -> Iterator[Span]:
    open_: dict[Lane, tuple[float, str]] = {}
    for index, event in history.faults():
        lane, now = _lane(event), _since(history, index)
        if event.phase == "started":
            open_[lane] = (now, BLOCKED if event.blocks else DELAYED)
        elif lane in open_:
            start, what = open_.pop(lane)
            yield Span(lane, start, now, what)
    yield from _until_the_end(history, open_)


def _until_the_end(history: History, open_: dict[Lane, tuple[float, str]]) -> Iterator[Span]:
    for lane, (start, what) in open_.items():
        yield Span(lane, start, _since(history, len(history.events) - 1), what)


def _since(history: History, index: int) -> float:
    return history.events[index].at - history.events[0].at


def _ordered(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """Scenario, faults, then cluster by cluster each object with its shadows below, then requests.

    `lanes` come in the order of their first event, which stays the order among equals.
    """
    clusters = list(dict.fromkeys(lane.cluster for lane in lanes if lane.kind == "truth"))
    objects = list(dict.fromkeys((lane.cluster, lane.resource, lane.name) for lane in lanes))

    def place(lane: Lane) -> tuple[int, int, int, str, str]:
        rank = {"scenario": 0, "fault": 1, "truth": 2, "shadow": 2, "requests": 3}[lane.kind]
        cluster = clusters.index(lane.cluster) if lane.cluster in clusters else len(clusters)
        return rank, cluster, objects.index((lane.cluster, lane.resource, lane.name)), lane.client, lane.kind

    return tuple(sorted(lanes, key=place))


def _title(lane: Lane, among: Sequence[Lane]) -> str:
    match lane.kind:
        case "scenario":
            return "scenario"
        case "fault":
            return lane.name
        case "requests":
            return f"requests of {lane.client} to {lane.cluster}"
    same = [other for other in among if (other.kind, other.resource) == (lane.kind, lane.resource)]
    several = len({other.name for other in same}) > 1
    what = f"{lane.cluster} {lane.resource}" + (f" {lane.name}" if several else "")
    if lane.kind == "truth":
        return what
    alone = len({other.client for other in same}) == 1
    return f"{what}, as {'the controller' if alone else lane.client} was told"
