"""How soon a real fault follows the event that triggers it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import httpx

from holdback.clock import poll
from holdback.clusters.kinds import PODS
from holdback.faults.injection import Phase, Record, inject
from holdback.faults.triggers import Injection, ObjectSeen, RequestSeen, Trigger
from holdback.faults.values import Delay, Fault
from holdback.history.events import ObjectChange
from holdback.history.recorder import Recorder
from holdback.traffic.lanes import Lane
from holdback.traffic.network import Network
from holdback.trials.scheduled import Cause, Scheduled
from tests.traffic.conftest import LINK
from tests.trials.handmade import Silent

TIMES = 15
SOON = 0.2
"""Seconds that the quickest takes at most: the others may have waited for whatever else the machine does.

On a free machine it takes a few milliseconds, and 20 at most is what is promised.
"""
SLOW = Delay(LINK.writes, 10)


def reactions(net: Network, recorder: Recorder, start: Trigger, happens: Callable[[], object]) -> list[float]:
    """Seconds from the event to the fault in force, sorted, of many times."""
    seconds: list[float] = []

    def changed(fault: Fault, phase: Phase, lanes: tuple[Lane, ...], cause: Cause) -> None:
        if phase == "started" and cause.due is not None:
            seconds.append(time.time() - cause.due)

    put: Callable[[Sequence[Fault], Record], AbstractContextManager[None]] = partial(inject, net)
    window = recorder.mark()
    for number in range(1, TIMES + 1):
        with Scheduled(Injection((SLOW,), start), put, recorder, window=window, changed=changed):
            happens()
            assert poll(lambda: len(seconds) == number, within=40, every=0.002)  # noqa: B023  within this round
    return sorted(seconds)


def test_a_fault_follows_an_object_at_once(net: Network) -> None:
    """From a change that a watch delivered to the delay in force on a real Toxiproxy nothing is waited for."""

    def shows() -> None:
        for state in ("No", "Yes"):
            found = {"metadata": {"name": "w"}, "status": {"state": state}}
            recorder.record(ObjectChange(time.time(), "truth", "worker1", "pods", "MODIFIED", found))

    with Recorder() as recorder:
        recorder.truth("worker1", Silent(), [PODS])
        seconds = reactions(net, recorder, ObjectSeen("pods", on="worker1", where={"status.state": "Yes"}), shows)
    assert seconds[0] < SOON


def test_a_fault_follows_a_request_at_once(net: Network, client: httpx.Client) -> None:
    """From the answer to a real request, by way of the router's log, nothing is waited for either."""
    with Recorder() as recorder:
        recorder.requests(net.access_log)
        seconds = reactions(net, recorder, RequestSeen("GET", "/api/v1/pods"), lambda: client.get("/api/v1/pods"))
    assert seconds[0] < SOON
