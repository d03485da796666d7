"""Nodes without machines: kwok plays their kubelets, so that pods run and finish as on real ones.

There is no scheduler: whoever makes a pod binds it to a node. Pods need no images and do nothing; they run for as
long as the nodes are told, and then have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from holdback.binaries import Binaries
from holdback.clusters.kinds import NODES
from holdback.clusters.local import LocalCluster
from holdback.process import Child, Run, await_ready, child

__all__ = ["nodes"]

_READY_WITHIN = 60.0
_ALIVE = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}


@contextmanager
def nodes(
    run: Run, binaries: Binaries, cluster: LocalCluster, count: int, *, seconds: float, at_once: int = 16
) -> Iterator[Child]:
    """Nodes `node-0` to `node-(count - 1)` in the cluster, for as long as the context lasts.

    Args:
        run: owns the process.
        binaries: has kwok.
        cluster: where the nodes are.
        count: how many.
        seconds: how long each pod runs.
        at_once: how many pods kwok works on at the same time.

    Raises:
        BinaryError: kwok cannot be had.
        ProcessExited, NotReady: it did not come up, or a node did not.
    """
    executable = binaries.get("kwok")["kwok"]
    name, port = f"{cluster.name}-kwok", run.port()
    kubeconfig = cluster.access.write(run.directory / f"{name}.kubeconfig")
    config = _write(run.directory / f"{name}.yaml", seconds, at_once)
    argv: list[str | Path] = [
        executable,
        f"--kubeconfig={kubeconfig}",
        f"--config={config}",
        f"--server-address=127.0.0.1:{port}",
        "--manage-all-nodes",
        "--node-lease-duration-seconds=0",
    ]
    for number in range(count):
        cluster.api.create(NODES, {"metadata": {"name": f"node-{number}"}})
    with child(run, name, argv) as kwok:
        await_ready(kwok, lambda: _healthy(port), within=_READY_WITHIN, what="kwok")
        await_ready(kwok, lambda: _all_ready(cluster, count), within=_READY_WITHIN, what="its nodes")
        yield kwok


def _write(path: Path, seconds: float, at_once: int) -> Path:
    stages = [
        _stage("pod-runs", {"phase": "Running"}, ".status.phase", "Pending"),
        _stage("pod-succeeds", {"phase": "Succeeded"}, ".status.phase", "Running", milliseconds=int(seconds * 1000)),
    ]
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {"podPlayStageParallelism": at_once},
    }
    path.write_text(yaml.safe_dump_all([options, *stages]))
    return path


def _stage(name: str, status: Mapping[str, Any], key: str, value: str, *, milliseconds: int = 0) -> dict[str, Any]:
    """What kwok makes of a pod on a node in that state."""
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": [_ALIVE, {"key": key, "operator": "In", "values": [value]}]},
            "delay": {"durationMilliseconds": milliseconds},
            "next": {"statusTemplate": yaml.safe_dump(dict(status))},
        },
    }


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=1, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _all_ready(cluster: LocalCluster, count: int) -> bool:
    ready = [
        node["metadata"]["name"]
        for node in cluster.api.list(NODES)
        for condition in node.get("status", {}).get("conditions") or ()
        if (condition["type"], condition["status"]) == ("Ready", "True")
    ]
    return len(ready) == count
