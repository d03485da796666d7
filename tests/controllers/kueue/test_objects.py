"""A MultiKueue set-up refers to itself without gaps, and to nothing else."""

from __future__ import annotations

import base64
from typing import Any

from holdback.controllers.kueue import objects
from holdback.controllers.kueue.manifests import NAMESPACE

WORKERS = [("worker1", "kubeconfig one"), ("worker2", "kubeconfig two")]


def by_kind(found: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    kinds: dict[str, dict[str, dict[str, Any]]] = {}
    for each in found:
        kinds.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
    return kinds


def quota(queue: dict[str, Any]) -> int:
    return int(queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"])


def test_the_manager_reaches_each_worker_by_its_own_secret() -> None:
    """Each worker has a MultiKueueCluster whose Secret holds that worker's kubeconfig, where Kueue looks for it."""
    kinds = by_kind(objects.connection(WORKERS))
    for name, kubeconfig in WORKERS:
        source = kinds["MultiKueueCluster"][name]["spec"]["clusterSource"]["kubeConfig"]
        secret = kinds["Secret"][source["location"]]
        assert secret["metadata"]["namespace"] == NAMESPACE
        assert base64.b64decode(secret["data"]["kubeconfig"]).decode() == kubeconfig


def test_the_managers_queue_leads_to_all_workers() -> None:
    """LocalQueue, ClusterQueue, AdmissionCheck and MultiKueueConfig name each other, down to every worker."""
    kinds = by_kind([*objects.connection(WORKERS), *objects.manager_queues("control", 2)])
    queue = kinds["ClusterQueue"][kinds["LocalQueue"][objects.QUEUE]["spec"]["clusterQueue"]]
    (check,) = queue["spec"]["admissionChecksStrategy"]["admissionChecks"]
    parameters = kinds["AdmissionCheck"][check["name"]]["spec"]["parameters"]
    assert kinds[parameters["kind"]][parameters["name"]]["spec"]["clusters"] == ["worker1", "worker2"]
    assert quota(queue) == 2 * objects.WORKER_CPU


def test_manager_and_worker_have_the_same_queue_names() -> None:
    """MultiKueue finds a copy's queue by namespace and name; on a worker no admission check sends it further."""
    on_manager = by_kind(objects.manager_queues("control", 2))
    on_worker = by_kind(objects.worker_objects("control"))
    for kinds in (on_manager, on_worker):
        assert kinds["LocalQueue"][objects.QUEUE]["metadata"]["namespace"] == "control"
        assert "control" in kinds["Namespace"]
        assert kinds["ResourceFlavor"].keys() == {"default"}
    worker_queue = on_worker["ClusterQueue"]["control"]
    assert "admissionChecksStrategy" not in worker_queue["spec"]
    assert quota(worker_queue) == objects.WORKER_CPU


def test_both_arms_share_a_worker_without_sharing_queues() -> None:
    """What both arms make on one worker is either the arm's own or the same in both."""
    control, treatment = (
        {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in made}
        for made in (objects.worker_objects("control"), objects.worker_objects("treatment"))
    )
    shared = control.keys() & treatment.keys()
    assert {kind for kind, _, _ in shared} == {"ResourceFlavor", "WorkloadPriorityClass"}
    assert all(control[key] == treatment[key] for key in shared)


def test_the_account_is_limited_to_what_multikueue_needs() -> None:
    """The account is bound to its own role, which has no wildcard and reads no Secret."""
    kinds = by_kind(objects.multikueue_account("multikueue-control"))
    binding = kinds["ClusterRoleBinding"]["multikueue-control"]
    assert binding["roleRef"]["name"] in kinds["ClusterRole"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "multikueue-control", "namespace": NAMESPACE}]
    rules = kinds["ClusterRole"]["multikueue-control"]["rules"]
    allowed = {word for rule in rules for key in ("apiGroups", "resources", "verbs") for word in rule[key]}
    assert not allowed & {"*", "secrets", "pods", "escalate", "bind", "impersonate"}


def test_a_preemptor_needs_its_whole_worker_and_outranks_the_job() -> None:
    """A managed Job is MultiKueue's and has no priority; an urgent one is the worker's own, by a class that exists."""
    managed = objects.job("a", "control", cpu=1, managed=True)
    urgent = objects.job("b", "control", cpu=objects.WORKER_CPU, priority=objects.HIGH_PRIORITY, managed=False)
    assert managed["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert "managedBy" not in urgent["spec"]
    assert managed["spec"]["suspend"] is True
    queue = {"kueue.x-k8s.io/queue-name": objects.QUEUE}
    assert managed["metadata"]["labels"] == queue
    assert urgent["metadata"]["labels"] == {**queue, "kueue.x-k8s.io/priority-class": objects.HIGH_PRIORITY}
    assert objects.HIGH_PRIORITY in by_kind(objects.worker_objects("control"))["WorkloadPriorityClass"]
    (container,) = urgent["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": str(objects.WORKER_CPU)}


def test_pods_are_left_to_whoever_drives_them() -> None:
    """No scheduler takes a pod, so that no kubelet of a real node sets its phase; what the caller says goes first."""
    assert objects.pod("a", "control")["spec"]["schedulerName"] not in {"", "default-scheduler"}
    assert objects.pod("a", "control", schedulerName="mine")["spec"]["schedulerName"] == "mine"
