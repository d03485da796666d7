"""A stuck re-admission as a history, written by hand in the order in which it really happens."""

from __future__ import annotations

from typing import Any

from holdback.history.events import Event, FaultChange, ObjectChange, Request, Step, View
from holdback.history.history import History

START = 1_764_500_000.0
CLIENT, MANAGER = "kueue-manager-control", "manager-control"
STATUS_PATH = "/apis/kueue.x-k8s.io/v1beta2/namespaces/control/workloads/job-a/status"


def workload(version: int = 1, **parts: Any) -> dict[str, Any]:
    """A Workload; `conditions` are names that are True, `conditions_false` names that are False."""
    conditions = [{"type": kind, "status": "True", "reason": f"Was{kind}"} for kind in parts.pop("true", ())]
    conditions += [{"type": kind, "status": "False", "reason": f"Not{kind}"} for kind in parts.pop("false", ())]
    metadata = {"name": "job-a", "namespace": "control", "uid": "u", "resourceVersion": str(version)}
    metadata |= parts.pop("metadata", {})
    spec = parts.pop("spec", {})
    return {"kind": "Workload", "metadata": metadata, "spec": spec, "status": {"conditions": conditions, **parts}}


def change(
    at: float, cluster: str, object_: dict[str, Any], word: str = "MODIFIED", *, view: View = "truth", client: str = ""
) -> ObjectChange:
    return ObjectChange(START + at, view, cluster, "workloads", word, object_, client)  # type: ignore[arg-type]


def refused(at: float) -> Request:
    return Request(START + at, CLIENT, MANAGER, "PATCH", STATUS_PATH, 403, 0.01)


def stuck() -> History:
    """Evicted on worker1 and never admitted again: the manager's Kueue is refused with growing backoff."""
    chosen = {"clusterName": "worker1", "nominatedClusterNames": None}
    admitted = workload(2, true=("QuotaReserved", "Admitted"), **chosen)
    events: list[Event] = [
        Step(START, "submit", {"workload": "job-a", "workers": ["worker1", "worker2"], "dose": 0.5}),
        change(0.1, MANAGER, workload(1, nominatedClusterNames=["worker1", "worker2"]), "ADDED"),
        change(0.5, MANAGER, admitted),
        FaultChange(START + 1, "delay 100 ms on kueue>worker1", "started", ("kueue>worker1/reads",), 100),
        change(1.2, MANAGER, workload(3, true=("Evicted",), false=("QuotaReserved", "Admitted"), **chosen)),
        change(1.3, MANAGER, admitted, view="shadow", client=CLIENT),
        change(1.5, "worker2", workload(1), "ADDED"),
        *(refused(2 + 0.005 * 2**n) for n in range(9)),
        Step(START + 4, "settle", {"deadline": START + 21.0}),
        change(4.5, "worker2", workload(1), "DELETED"),
        refused(5),
        FaultChange(START + 6, "delay 100 ms on kueue>worker1", "ended", ("kueue>worker1/reads",), 100),
    ]
    return History(tuple(events), scope={"clients": [CLIENT], "namespaces": ["control"]})
