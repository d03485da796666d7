"""No endless rejection, on histories written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdback.history.events import Event, FaultChange, ObjectChange, Request, Step
from holdback.history.history import History
from holdback.oracles import Judgement, no_endless_rejection

PATH = "/apis/kueue.x-k8s.io/v1beta1/namespaces/ns/workloads/w/status"
BACKOFF = [0.005 * 2**n for n in range(10)]
"""Seconds between the tries of client-go's workqueue."""


def workload(at: float, cluster: str = "manager", version: int = 1, name: str = "w", **status: Any) -> ObjectChange:
    found = {
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version), "uid": "u"},
        "spec": {"active": True},
        "status": status,
    }
    return ObjectChange(at, "truth", cluster, "workloads", "MODIFIED", found)


def refused(at: float, status: int = 403, path: str = PATH, method: str = "PATCH", client: str = "kueue") -> Request:
    return Request(at, client, "manager", method, path, status, 0.01)


def retries(start: float, count: int, **more: Any) -> list[Event]:
    """That many refusals with growing backoff; the n-th comes after the sum of the pauses before it."""
    return [refused(start + sum(BACKOFF[:n]) + 0.01 * n, **more) for n in range(count)]


def judged(events: Sequence[Event], **scope: Any) -> Judgement:
    ordered = tuple(sorted(events, key=lambda event: event.at))
    return no_endless_rejection(History(ordered, closed=False, scope=scope)).judgement


def test_a_stuck_controller_is_found() -> None:
    """The same refused write, nine times over more than a second with nothing new, is endless; its events are cited."""
    history = History((workload(0, state="Pending"), *retries(1, 10)), closed=False)
    finding = no_endless_rejection(history)
    assert finding.judgement is Judgement.VIOLATED
    assert finding.events == tuple(range(1, 10))
    assert all(isinstance(history.events[index], Request) for index in finding.events)
    assert (
        "PATCH /apis/kueue.x-k8s.io/v1beta1/namespaces/ns/workloads/w/status on manager was refused with 403 9 times"
        in finding.reason
    )


def test_the_judgement_does_not_change_once_made() -> None:
    """VIOLATED is final: whatever comes after it, the longer history is violated as well."""
    stuck = [workload(0), *retries(1, 10)]
    healed = [*stuck, workload(9, state="Ready"), refused(9.1, status=200)]
    assert judged(stuck) == judged(healed) == Judgement.VIOLATED


def test_writes_that_change_nothing_do_not_hide_it() -> None:
    """Other controllers may go on writing the same status: resource versions and timestamps are no news."""
    beats = [
        workload(
            1 + n / 10, version=n, conditions=[{"type": "Ready", "lastTransitionTime": f"2026-11-30T10:00:{n:02d}Z"}]
        )
        for n in range(20)
    ]
    assert judged([*beats, *retries(1.05, 10)]) is Judgement.VIOLATED


def test_other_writes_of_the_object_that_succeed_do_not_hide_it() -> None:
    """A successful write that leaves the content as it was ends no streak."""
    successes = [refused(1 + n / 10, status=200) for n in range(20)]
    assert judged([workload(0), *successes, *retries(1.05, 10)]) is Judgement.VIOLATED


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(retries(1, 4), id="a few refusals"),
        pytest.param([refused(1 + n / 50) for n in range(30)], id="a burst within a second"),
        pytest.param([refused(1 + n) for n in range(5)], id="rare refusals"),
        pytest.param(
            [e for n in range(5) for e in (*retries(1 + n, 4), workload(1.9 + n, step=n))],
            id="refusals with changes between",
        ),
        pytest.param(
            [e for n in range(5) for e in (*retries(1 + n, 4), workload(1.9 + n, "worker1", step=n))],
            id="a copy changes",
        ),
        pytest.param(retries(1, 10, status=409), id="conflicts"),
        pytest.param(retries(1, 10, status=404, method="DELETE"), id="already gone"),
        pytest.param(retries(1, 10, status=429), id="throttled"),
        pytest.param(retries(1, 10, status=500), id="the server's own fault"),
        pytest.param(retries(1, 10, method="GET"), id="a read"),
        pytest.param(
            [refused(1 + n / 4, path=PATH.replace("/w/", f"/w{n}/")) for n in range(20)], id="different objects"
        ),
        pytest.param(
            [refused(1 + n / 4, method="POST", path=PATH.rpartition("/w/")[0]) for n in range(20)], id="creations"
        ),
        pytest.param(
            [refused(1 + n / 4, path=PATH.replace("/w/", "/unseen/")) for n in range(20)], id="an object nobody watches"
        ),
    ],
)
def test_healthy_noise_does_not_trip_it(noise: list[Event]) -> None:
    """What healthy controllers do is no endless rejection."""
    seen: list[Event] = [workload(0), *(workload(0, name=f"w{n}") for n in range(20))]
    assert judged([*seen, *noise]) is Judgement.HOLDS


def test_the_other_arms_controller_is_not_judged() -> None:
    """Only clients under test are judged when the world names them."""
    events = [workload(0), *retries(1, 10, client="kueue-control")]
    assert judged(events, clients=["kueue-treatment"]) is Judgement.HOLDS
    assert judged(events, clients=["kueue-control"]) is Judgement.VIOLATED


def test_a_delay_asks_for_more_patience() -> None:
    """Behind a delay refusals must go on for longer, for the news is later: at 1 s of delay, three more seconds."""
    delay = FaultChange(0.5, "delay 1000 ms on a>b", "started", ("a>b/reads",), 1000.0)
    assert judged([workload(0), delay, *(refused(1 + n / 2) for n in range(8))]) is Judgement.HOLDS
    assert judged([workload(0), delay, *(refused(1 + n / 2) for n in range(9))]) is Judgement.VIOLATED


def test_a_delay_of_nothing_asks_for_none() -> None:
    """The dose 0 is judged like no fault."""
    delay = FaultChange(0.5, "delay 0 ms on a>b", "started", ("a>b/reads",), 0.0)
    assert judged([workload(0), delay, *retries(1, 10)]) is Judgement.VIOLATED


@pytest.mark.parametrize("end", [None, 20.0])
def test_nothing_is_judged_while_the_news_is_held(end: float | None) -> None:
    """A controller whose watch is held cannot know better; it is judged anew once it can."""
    hold: list[Event] = [FaultChange(0.5, "hold a>b", "started", blocks=True)]
    if end is not None:
        hold.append(FaultChange(end, "hold a>b", "ended", blocks=True))
    assert judged([workload(0), *hold, *retries(1, 10)]) is Judgement.HOLDS
    after = judged([workload(0), *hold, *retries(1, 10), *retries(21, 10)])
    assert after is (Judgement.VIOLATED if end is not None else Judgement.HOLDS)


def test_a_closed_history_without_requests_is_unknown() -> None:
    """When the access log was not recorded at all nothing can be said."""
    assert no_endless_rejection(History((Step(1, "submit"),))).judgement is Judgement.UNKNOWN
