from typing import Any

import pytest

from holdback.report.describing import describe_any
from holdback.report.kueue import describe_job, describe_pod, describe_workload
from holdback.report.states import state
from tests.report.stories import workload


def check(state: str, message: str = "") -> list[dict[str, str]]:
    return [{"name": "multikueue", "state": state, "message": message}]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        pytest.param(workload(), workload(), [], id="nothing"),
        pytest.param(
            workload(true=["Admitted"]), workload(false=["Admitted"]), ["Admitted=False (NotAdmitted)"], id="condition"
        ),
        pytest.param(workload(true=["Evicted"]), workload(), ["Evicted gone"], id="condition gone"),
        pytest.param(
            workload(admissionChecks=check("Ready", "on worker1")),
            workload(admissionChecks=check("Retry", "lost\n  it")),
            ["check multikueue: Ready -> Retry (lost it)"],
            id="check moves",
        ),
        pytest.param(
            workload(admissionChecks=check("Pending")),
            workload(admissionChecks=check("Pending", "waiting")),
            ["check multikueue: Pending (waiting)"],
            id="check says more",
        ),
        pytest.param(workload(admissionChecks=check("Ready")), workload(), ["check multikueue gone"], id="check gone"),
        pytest.param(
            workload(clusterName="worker1"), workload(clusterName="worker2"), ["clusterName = worker2"], id="cluster"
        ),
        pytest.param(
            workload(clusterName="worker1"), workload(), ["clusterName cleared (was worker1)"], id="cluster cleared"
        ),
        pytest.param(
            workload(nominatedClusterNames=["b", "a"]),
            workload(nominatedClusterNames=["a", "b"]),
            [],
            id="order of names",
        ),
        pytest.param(
            workload(nominatedClusterNames=["a"]), workload(), ["nomination cleared"], id="nomination cleared"
        ),
        pytest.param(workload(), workload(spec={"active": False}), ["deactivated"], id="deactivated"),
        pytest.param(workload(spec={"active": False}), workload(spec={"active": True}), ["activated"], id="activated"),
        pytest.param(
            workload(),
            workload(metadata={"deletionTimestamp": "now", "finalizers": ["x", "y"]}),
            ["being deleted, held by x, y"],
            id="deletion",
        ),
        pytest.param(
            workload(metadata={"deletionTimestamp": "now", "finalizers": ["x"]}),
            workload(metadata={"deletionTimestamp": "now"}),
            ["nothing holds it"],
            id="finalizer goes",
        ),
        pytest.param(
            None, workload(clusterName="a", spec={"active": False}), ["deactivated", "clusterName = a"], id="first"
        ),
    ],
)
def test_a_workloads_change_in_words(old: dict[str, Any] | None, new: dict[str, Any], said: list[str]) -> None:
    """Each difference that a reviewer would ask for becomes one phrase, and nothing else does."""
    assert describe_workload(old, new) == said


def test_a_jobs_change_in_words() -> None:
    """A Job is told by its suspension."""
    suspended, running = {"spec": {"suspend": True}}, {"spec": {"suspend": False}}
    assert describe_job(None, suspended) == ["suspended"]
    assert describe_job(suspended, running) == ["running"]
    assert describe_job(running, running) == []


def test_any_other_kind_is_told_by_its_parts() -> None:
    """Without a describer the changed parts are named, and conditions in full."""
    old = {"spec": {"a": 1}, "status": {"phase": "Pending"}, "metadata": {"resourceVersion": "1"}}
    new = {"spec": {"a": 2}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    assert describe_any(old, new) == ["Ready=True", "spec changed", "status changed"]
    assert describe_any(old, {**old, "metadata": {"resourceVersion": "2"}}) == []
    assert describe_any(None, old) == []


def test_a_pods_life_is_told_with_its_finalizers() -> None:
    """A pod is gated, admitted, finished; each finalizer that comes or goes is named, and what is the same is not."""
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    held = {"metadata": {"finalizers": ["kueue"]}}
    gated = {**held, "spec": gates, "status": {"phase": "Pending"}}
    admitted = {**held, "spec": {}, "status": {"phase": "Pending"}}
    finished = {"metadata": {"finalizers": ["ours"]}, "spec": {}, "status": {"phase": "Succeeded"}}
    assert describe_pod(None, gated) == ["gated", "Pending", "finalizer kueue added"]
    assert describe_pod(gated, admitted) == ["admitted"]
    assert describe_pod(admitted, finished) == ["Succeeded", "finalizer ours added", "finalizer kueue GONE"]
    assert describe_pod(finished, finished) == []
    states = [
        state("pods", found) for found in (gated, admitted, {**admitted, "status": {"phase": "Running"}}, finished)
    ]
    assert states == ["pending", "admitted", "running", "finished"]
