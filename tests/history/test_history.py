"""Questions to a history."""

from __future__ import annotations

import pytest

from holdback.errors import EvidenceError
from holdback.history.events import FaultChange, Note, ObjectChange, Request, Step, decode, encode
from holdback.history.history import History


def change(at: float, view: str = "truth", cluster: str = "manager", name: str = "a", client: str = "") -> ObjectChange:
    return ObjectChange(at, view, cluster, "jobs", "ADDED", {"metadata": {"name": name, "namespace": "ns"}}, client)  # type: ignore[arg-type]


HISTORY = History(
    (
        Step(1, "submit"),
        change(2),
        change(3, view="shadow", client="kueue"),
        change(4, cluster="worker1", name="b"),
        Request(5, "kueue", "manager", "GET", "/", 200, 0.1),
        Request(6, "other", "worker1", "GET", "/", 200, 0.1),
        FaultChange(7, "hold", "started", blocks=True),
        Note(8, "world", "odd"),
        Step(9, "end"),
    ),
    scope={"clients": ["kueue"]},
)


def test_events_come_with_their_index() -> None:
    """The index of what a query gives is its place in the history."""
    assert [index for index, _ in HISTORY.steps()] == [0, 8]
    assert HISTORY.steps("end") == ((8, HISTORY.events[8]),)
    assert HISTORY.faults() == ((6, HISTORY.events[6]),)
    assert HISTORY.notes() == ((7, HISTORY.events[7]),)


def test_objects_are_told_apart_by_every_criterion() -> None:
    """View, cluster, resource, namespace, name and client each narrow."""
    assert [index for index, _ in HISTORY.objects()] == [1, 3]
    assert [index for index, _ in HISTORY.objects(view="shadow", client="kueue")] == [2]
    assert [index for index, _ in HISTORY.objects(cluster="worker1")] == [3]
    assert [index for index, _ in HISTORY.objects(name="a", namespace="ns", resource="jobs")] == [1]
    assert HISTORY.objects(namespace="elsewhere") == ()


def test_only_requests_of_the_controllers_under_test_are_given() -> None:
    """The other arm's controller talks to the same workers and is not judged."""
    assert [index for index, _ in HISTORY.requests()] == [4]
    assert [index for index, _ in HISTORY.requests(client="other")] == [5]
    assert [index for index, _ in History(HISTORY.events).requests()] == [4, 5]


@pytest.mark.parametrize("event", HISTORY.events, ids=lambda event: str(event.kind))
def test_an_event_survives_encoding(event: Step) -> None:
    """Decoding undoes encoding."""
    assert decode(encode(event)) == event


@pytest.mark.parametrize("data", [{}, {"kind": "step"}, {"kind": "step", "at": 1, "name": "a", "more": 1}])
def test_what_is_no_event_is_refused(data: dict[str, object]) -> None:
    """Unknown kinds, missing and unknown fields are errors of the evidence."""
    with pytest.raises(EvidenceError):
        decode(data)
