"""The objects of a MultiKueue set-up and its Jobs, and of queues and their pods, as a user would write them. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any

from holdback.controllers.kueue.manifests import NAMESPACE

__all__ = [
    "CHECK",
    "HIGH_PRIORITY",
    "QUEUE",
    "WORKER_CPU",
    "connection",
    "job",
    "manager_queues",
    "multikueue_account",
    "pod",
    "pod_queues",
    "short_name",
    "worker_objects",
]

QUEUE = "main"
"""The name of every LocalQueue; MultiKueue wants the same name and namespace on manager and worker."""
WORKER_CPU = 4
"""Quota of each arm's ClusterQueue on each worker."""
CHECK = "multikueue"
"""The name of the AdmissionCheck, and of its MultiKueueConfig, on a manager."""
HIGH_PRIORITY = "urgent"
"""The WorkloadPriorityClass of a Job that preempts."""

_V = "kueue.x-k8s.io/v1beta2"
_FLAVOR = "default"
_PLENTY = 1_000_000
"""Quota, in CPUs, of a queue that always admits."""

# What MultiKueue does on a worker: create, watch and delete Jobs and Workloads, drop its finalizer from a Workload,
# write a Workload's status when the manager evicts it.
_RULES: list[dict[str, Any]] = [
    {
        "apiGroups": ["batch"],
        "resources": ["jobs"],
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    },
    {"apiGroups": ["batch"], "resources": ["jobs/status"], "verbs": ["get"]},
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["workloads"],
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    },
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads/status"], "verbs": ["get", "patch", "update"]},
]


def _object(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _queues(arm: str, cpu: int, **spec: Any) -> list[dict[str, Any]]:
    quota = {"name": _FLAVOR, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    group = {"coveredResources": ["cpu"], "flavors": [quota]}
    return [
        _object("v1", "Namespace", arm),
        _object(_V, "ResourceFlavor", _FLAVOR),
        _object(_V, "WorkloadPriorityClass", HIGH_PRIORITY, value=1000),
        _object(_V, "ClusterQueue", arm, spec={"namespaceSelector": {}, "resourceGroups": [group], **spec}),
        _object(_V, "LocalQueue", QUEUE, arm, spec={"clusterQueue": arm}),
    ]


def worker_objects(arm: str) -> list[dict[str, Any]]:
    """The queues of one arm on a worker; a Job of higher priority preempts there."""
    return _queues(arm, WORKER_CPU, preemption={"withinClusterQueue": "LowerPriority"})


def multikueue_account(name: str) -> list[dict[str, Any]]:
    """The service account by which one manager reaches a worker, limited to what MultiKueue needs."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        _object("v1", "ServiceAccount", name, NAMESPACE),
        _object(rbac, "ClusterRole", name, rules=_RULES),
        _object(rbac, "ClusterRoleBinding", name, roleRef=role, subjects=[subject]),
    ]


def connection(workers: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """What lets a manager reach its workers, down to the AdmissionCheck; `workers` are (name, kubeconfig) pairs."""
    objects: list[dict[str, Any]] = []
    for name, kubeconfig in workers:
        data = {"kubeconfig": base64.b64encode(kubeconfig.encode()).decode()}
        source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        objects += [
            _object("v1", "Secret", name, NAMESPACE, data=data),
            _object(_V, "MultiKueueCluster", name, spec={"clusterSource": source}),
        ]
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": CHECK}
    check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    return [
        *objects,
        _object(_V, "MultiKueueConfig", CHECK, spec={"clusters": [name for name, _ in workers]}),
        _object(_V, "AdmissionCheck", CHECK, spec=check),
    ]


def manager_queues(arm: str, workers: int) -> list[dict[str, Any]]:
    """The queues of one arm on its manager, with the quota of so many workers; the AdmissionCheck sends Jobs there."""
    return _queues(arm, WORKER_CPU * workers, admissionChecksStrategy={"admissionChecks": [{"name": CHECK}]})


def job(name: str, namespace: str, *, cpu: int, priority: str = "", managed: bool) -> dict[str, Any]:
    """A suspended batch/v1 Job in the arm's queue; `managed` hands it to MultiKueue."""
    labels = {"kueue.x-k8s.io/queue-name": QUEUE}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    template = {"spec": _pod_spec(cpu)}
    spec: dict[str, Any] = {"parallelism": 1, "completions": 1, "suspend": True, "template": template}
    if managed:
        spec["managedBy"] = "kueue.x-k8s.io/multikueue"
    made = _object("batch/v1", "Job", name, namespace, spec=spec)
    made["metadata"]["labels"] = labels
    return made


def pod_queues(namespace: str) -> list[dict[str, Any]]:
    """A namespace with a LocalQueue, and a ClusterQueue that admits everything."""
    return _queues(namespace, _PLENTY)


def pod(name: str, namespace: str, *, group: str = "", size: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod in the namespace's queue; one of `size` pods of that group, if it has one.

    Nobody schedules it: whoever drives it plays the kubelet, also in a cluster that has some.
    """
    made = _object("v1", "Pod", name, namespace, spec={**_pod_spec(1), "schedulerName": "holdback", **spec})
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": QUEUE}
    if group:
        made["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = group
        made["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(size)}
    return made


def _pod_spec(cpu: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": str(cpu)}},
    }
    return {"restartPolicy": "Never", "containers": [container]}


def short_name(trial: str, number: int) -> str:
    """The name of a trial's Job or pod, the same for the same trial.

    It is short because Kueue writes the Workload's name, which contains it, into a label of at most 63 characters;
    a longer one makes every dispatch fail with 422.
    """
    return f"t{hashlib.sha256(trial.encode()).hexdigest()[:8]}-{number}"
