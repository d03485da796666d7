"""Triggers on hand-written events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import pytest

from holdback.faults.triggers import FaultEnded, ObjectSeen, RequestSeen
from holdback.faults.values import Hold
from holdback.history.events import Event, FaultChange, ObjectChange, Request, View
from holdback.history.matching import Observed, matcher, values_at
from holdback.traffic.lanes import Link


def change(
    status: Any = None,
    *,
    word: Literal["ADDED", "MODIFIED", "DELETED"] = "MODIFIED",
    view: View = "truth",
    cluster: str = "manager",
    resource: str = "workloads",
    name: str = "w",
    namespace: str = "ns",
) -> ObjectChange:
    found = {"metadata": {"name": name, "namespace": namespace}, "status": status or {}}
    return ObjectChange(0, view, cluster, resource, word, found)


def conditions(**states: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": state} for kind, state in states.items()]}


def request(**differing: Any) -> Request:
    given = {"client": "kueue", "cluster": "manager", "method": "PATCH", "path": "/apis/g/v1/namespaces/ns/workloads/w"}
    return Request(**{"at": 0, "status": 200, "seconds": 0, **given, **differing})


def fired(trigger: Observed, events: Iterable[Event]) -> list[int]:
    """At which of the events it fires."""
    fires = matcher(trigger, namespaces=["ns"], clients=["kueue"])
    return [index for index, event in enumerate(events) if fires(event)]


RESERVED = ObjectSeen("workloads", on="manager", where={"status.conditions[QuotaReserved].status": "True"})


def test_a_state_fires_each_time_it_comes_about() -> None:
    """It fires when the object comes to match, not while it goes on matching, and again after it had stopped."""
    states = ["False", "True", "True", "False", "True"]
    assert fired(RESERVED, [change(conditions(Other="True", QuotaReserved=state)) for state in states]) == [1, 4]


def test_objects_are_told_apart() -> None:
    """One object that matches already does not keep another from firing."""
    first, other = (change(conditions(QuotaReserved="True"), name=name) for name in "ab")
    assert fired(RESERVED, [first, other, first]) == [0, 1]


def test_a_pattern_names_several_clusters() -> None:
    """Each cluster's copy of an object comes to match by itself."""
    there = conditions(QuotaReserved="True")
    trigger = ObjectSeen("workloads", on="worker*", where=RESERVED.where)
    clusters = ["manager", "worker1", "worker2", "worker1"]
    assert fired(trigger, [change(there, cluster=cluster) for cluster in clusters]) == [1, 2]


def test_an_object_that_was_deleted_comes_about_anew() -> None:
    """A deletion is no coming about, and what comes after it is."""
    there = conditions(QuotaReserved="True")
    events = [change(there), change(there, word="DELETED"), change(there, word="ADDED")]
    assert fired(RESERVED, events) == [0, 2]


@pytest.mark.parametrize(
    "stranger",
    [{"view": "shadow"}, {"cluster": "worker1"}, {"resource": "jobs"}, {"namespace": "other"}],
)
def test_only_the_truth_of_the_trial_counts(stranger: dict[str, Any]) -> None:
    """Shadows, other clusters, other resources and other namespaces fire nothing and are not remembered."""
    there = conditions(QuotaReserved="True")
    assert fired(RESERVED, [change(there, **stranger), change(there)]) == [1]


def test_a_trigger_may_name_its_object() -> None:
    """With name and namespace it fires for that object alone, in whatever namespace it is."""
    trigger = ObjectSeen("workloads", on="manager", name="w", namespace="other")
    assert fired(trigger, [change(), change(namespace="other", name="x"), change(namespace="other")]) == [2]


def test_every_change_of_a_kind_fires() -> None:
    """With `change` it fires on each such change of an object that matches."""
    trigger = ObjectSeen("workloads", on="manager", change="DELETED", where={"status.clusterName": None})
    events = [change(word="ADDED"), change(word="DELETED"), change({"clusterName": "worker1"}, word="DELETED")]
    assert fired(trigger, events) == [1]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("status.checks[*].state", ["Retry", "Ready"]),
        ("status.checks[b].state", ["Ready"]),
        ("status.conditions[Ready].status", ["True"]),
        ("metadata.labels[a.b/c]", ["x"]),
        ("status.checks.state", []),
        ("status.missing[*].state", []),
        ("spec.active", [False]),
    ],
)
def test_paths_lead_to_values(path: str, values: list[Any]) -> None:
    """List entries are found by name or type, mapping entries by key, and a path into nothing is no error."""
    found = {
        "metadata": {"labels": {"a.b/c": "x"}},
        "spec": {"active": False},
        "status": {
            "checks": [{"name": "a", "state": "Retry"}, {"name": "b", "state": "Ready"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    assert values_at(found, path) == values


@pytest.mark.parametrize(("wanted", "fires"), [("3", True), (3, True), (4, False), (None, False), ("true", False)])
def test_values_are_compared_as_text(wanted: object, fires: bool) -> None:
    """A number in a plan equals the number in the object, and None means that nothing is there."""
    trigger = ObjectSeen("workloads", on="manager", where={"status.count": wanted})
    assert bool(fired(trigger, [change({"count": 3})])) is fires


def test_what_is_empty_is_not_there() -> None:
    """None matches a field that is missing or null."""
    trigger = ObjectSeen("workloads", on="manager", where={"status.clusterName": None})
    states: list[dict[str, Any]] = [{"clusterName": "w"}, {}, {"clusterName": "w"}, {"clusterName": None}]
    assert fired(trigger, [change(state) for state in states]) == [1, 3]


def test_requests_are_matched_by_all_that_is_said() -> None:
    """Client, cluster, method, path pattern and status must all fit; the controller under test is the default."""
    trigger = RequestSeen("PATCH", "*/workloads/*", 409, on="manager")
    fitting = request(status=409)
    events = [
        request(),
        request(status=409, client="other"),
        request(status=409, cluster="worker1"),
        request(status=409, method="PUT"),
        request(status=409, path="/api/v1/pods"),
        fitting,
        fitting,
    ]
    assert fired(trigger, events) == [5, 6]
    assert fired(RequestSeen(client="other"), events) == [1]


def test_the_end_of_a_fault_is_an_event() -> None:
    """Only the verified end of that very fault fires."""
    hold = Hold(Link("kueue", "worker1"))
    phases: tuple[Literal["started", "ended"], ...] = ("started", "ended")
    events = [FaultChange(0, fault, phase) for fault in (str(hold), "hold x") for phase in phases]
    assert fired(FaultEnded(hold), events) == [1]
    assert fired(FaultEnded("hold x"), events) == [3]
