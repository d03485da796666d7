"""The moments of a MultiKueue trial, to write histories by hand; times are seconds from its begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from holdback.history.events import Event, ObjectChange, Step
from holdback.history.history import History

__all__ = ["MANAGER", "WORKLOAD", "cleaned", "copy", "delete", "evict", "manager", "settle", "submit", "trial"]

MANAGER, WORKLOAD = "manager-control", "job-a"
Change = Literal["ADDED", "MODIFIED", "DELETED"]


def trial(*events: Event, closed: bool = True) -> History:
    """These events in the order of their times, as a recorder gives them."""
    return History(tuple(sorted(events, key=lambda event: event.at)), closed=closed)


def manager(
    at: float, *conditions: str, on: str = "", nominated: Sequence[str] = (), change: Change = "MODIFIED"
) -> ObjectChange:
    """The manager's Workload; `conditions` are those that are True, `on` is its clusterName."""
    status: dict[str, Any] = {"conditions": [{"type": kind, "status": "True"} for kind in conditions]}
    if on:
        status["clusterName"] = on
    if nominated:
        status["nominatedClusterNames"] = list(nominated)
    return _workload(at, MANAGER, change, status)


def copy(at: float, worker: str, *conditions: str, change: Change = "ADDED") -> ObjectChange:
    """The copy on a worker."""
    return _workload(at, worker, change, {"conditions": [{"type": kind, "status": "True"} for kind in conditions]})


def submit(at: float, workload: str = WORKLOAD) -> Step:
    workers = ["worker1", "worker2"]
    return Step(at, "submit", {"workload": workload, "manager": MANAGER, "workers": workers})


def evict(at: float, on: str = "worker1") -> Step:
    return Step(at, "evict", {"workload": WORKLOAD, "on": on, "by": "drain"})


def settle(at: float, deadline: float) -> Step:
    return Step(at, "settle", {"deadline": deadline})


def delete(at: float) -> Step:
    return Step(at, "delete", {"jobs": ["a"]})


def cleaned(at: float, *left: str) -> Step:
    return Step(at, "cleaned", {"left": list(left)})


def _workload(at: float, cluster: str, change: Change, status: dict[str, Any]) -> ObjectChange:
    metadata = {"name": WORKLOAD, "namespace": "control", "uid": cluster}
    return ObjectChange(at, "truth", cluster, "workloads", change, {"metadata": metadata, "status": status})
