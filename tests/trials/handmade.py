"""A world made by hand, for trials that need no cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any

from holdback.clusters.kinds import Kind
from holdback.errors import FaultError, HoldbackError
from holdback.history.history import History
from holdback.history.recorder import Recorder
from holdback.oracles import Finding, Judgement
from holdback.traffic.lanes import Lane, Link
from holdback.trials.trial import Plan

LINK = Link("kueue", "worker1")
WORKLOADS = Kind("example.com", "v1", "Workload", "workloads")
PLAN = Plan("it-control-001", "test_it", "control", 0, 0, 7)


class Network:
    """Faults come and go at a word; `stuck` ones are still there afterwards."""

    def __init__(self) -> None:
        self.links = (LINK,)
        self.force: list[str] = []
        self.refuses_to_end = False

    @contextmanager
    def _fault(self, lanes: Sequence[Lane], *_: object, **__: object) -> Iterator[None]:
        self.force = [lane.name for lane in lanes]
        yield
        if self.refuses_to_end:
            raise FaultError("the delay is still there")
        self.force = []

    delay = hold = cut = slow = toxic = answer = unobserved = travel = _fault

    def residue(self) -> list[str]:
        return self.force


class Silent:
    """A cluster in which nothing happens; what does, tests record by hand."""

    def watch(self, kind: Kind, namespace: str = "", *, stop: Event) -> Iterator[tuple[str, dict[str, Any]]]:
        stop.wait()
        yield from ()


class World:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.network = Network()
        self.death: HoldbackError | None = None

    def check(self) -> None:
        if self.death:
            raise self.death


def done(history: History) -> Finding:
    """Holds once the scenario said `done`, is violated once it said `bad`, and is violated at the end otherwise."""
    if found := history.steps("bad"):
        return Finding("done", Judgement.VIOLATED, "bad", (found[0][0],))
    if found := history.steps("done"):
        return Finding("done", Judgement.HOLDS, "done", (found[0][0],))
    return Finding("done", Judgement.VIOLATED if history.closed else Judgement.UNKNOWN, "not done")
