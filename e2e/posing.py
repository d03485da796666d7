"""Local clusters that pose as ones which somebody has: with the controllers of any cluster, and a kubeconfig."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import yaml

from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters import Access, LocalCluster, local_clusters
from holdback.clusters.existing.resources import kinds
from holdback.clusters.kinds import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS, Kind
from holdback.errors import ClusterError
from holdback.process import Run, await_ready, child, open_run

__all__ = ["Posing", "await_furnished", "posing"]

MANAGERS = ("red", "blue")
WORKERS = ("east", "west")
_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)
_PASSING = {"Event", "Lease"}
"""What comes and goes in any cluster."""
_ALWAYS = {"default", "kube-node-lease", "kube-public", "kube-system"}
"""The namespaces of any cluster."""


@dataclass(frozen=True, slots=True)
class Posing:
    """The clusters, by the names of their contexts, and the kubeconfig that has these."""

    clusters: Mapping[str, LocalCluster]
    kubeconfig: Path
    logs: Path

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that finds the kubeconfig."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def options(self) -> list[str]:
        """Those by which pytest uses all of the clusters."""
        return [
            "--clusters=existing",
            *(f"--manager-context={name}" for name in MANAGERS),
            *(f"--worker-context={name}" for name in WORKERS),
            *(f"--allow-context={name}" for name in self.clusters),
        ]

    def inventory(self) -> dict[str, set[str]]:
        """Everything that is in each cluster, of every kind, by another way than the product's own check."""
        return {name: set(_objects(cluster)) for name, cluster in self.clusters.items()}


def _objects(cluster: LocalCluster) -> Iterator[str]:
    for kind in kinds(cluster.api):
        if kind.kind not in _PASSING:
            for found in _listed(cluster, kind):
                metadata = found["metadata"]
                yield f"{kind.kind} {metadata.get('namespace', '')}/{metadata['name']} {metadata['uid']}"


def _listed(cluster: LocalCluster, kind: Kind) -> list[dict[str, Any]]:
    try:
        return cluster.api.list(kind)
    except ClusterError as error:
        if error.status != httpx.codes.NOT_FOUND:  # a kind that goes is told of for a moment longer
            raise
        return []


@contextmanager
def posing(names: Sequence[str] = (*MANAGERS, *WORKERS)) -> Iterator[Posing]:
    """Start them; they are as a new cluster is."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory()))
        run = stack.enter_context(open_run(logs=home / "logs"))
        binaries = Binaries()
        manager = binaries.get("kube-controller-manager")["kube-controller-manager"]
        clusters = stack.enter_context(local_clusters(run, binaries, names))
        for cluster in clusters.values():
            stack.enter_context(_controllers(run, cluster, manager))
        for cluster in clusters.values():
            await_furnished(cluster)
        kubeconfig = home / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig({name: each.access for name, each in clusters.items()})))
        yield Posing(clusters, kubeconfig, run.logs)


@contextmanager
def _controllers(run: Run, cluster: LocalCluster, executable: Path) -> Iterator[None]:
    """What empties namespaces, collects garbage and so on."""
    name, port = f"{cluster.name}-controllers", run.port()
    home = run.folder(name)
    argv: list[str | Path] = [
        executable,
        f"--kubeconfig={cluster.access.write(home / 'kubeconfig')}",
        f"--controllers={','.join(_CONTROLLERS)}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={home}",
    ]
    with child(run, name, argv) as process:

        def healthy() -> bool:
            try:
                return httpx.get(f"https://127.0.0.1:{port}/healthz", verify=False, trust_env=False).is_success
            except httpx.HTTPError:
                return False

        await_ready(process, healthy, within=180, what="its controllers")
        yield


def await_furnished(cluster: LocalCluster) -> None:
    """Wait until each namespace has what the controllers put into new ones, and the API server has its own objects.

    Only then does what is in the cluster stay as it is: all of that comes after the server is ready.
    """

    def furnished() -> bool:
        namespaces = {found["metadata"]["name"] for found in cluster.api.list(NAMESPACES)}
        accounts, roots = (
            {found["metadata"]["namespace"] for found in cluster.api.list(kind) if found["metadata"]["name"] == name}
            for kind, name in ((SERVICE_ACCOUNTS, "default"), (CONFIG_MAPS, "kube-root-ca.crt"))
        )
        return namespaces >= _ALWAYS and namespaces == accounts == roots and bool(_own_service(cluster))

    assert poll(furnished, within=120), f"the controllers of {cluster.name} do not do their work"


def _own_service(cluster: LocalCluster) -> dict[str, Any] | None:
    """The service by which the API server is reached from within its cluster."""
    return cluster.api.get(Kind("", "v1", "Service", "services"), "kubernetes", "default")


def _kubeconfig(accesses: Mapping[str, Access]) -> dict[str, Any]:
    """One file with a context for each, whose current one is a cluster that nobody allowed."""
    parts = {name: yaml.safe_load(access.kubeconfig()) for name, access in accesses.items()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": each["clusters"][0]["cluster"]} for name, each in parts.items()],
        "users": [{"name": name, "user": each["users"][0]["user"]} for name, each in parts.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in parts],
        "current-context": next(iter(parts)),
    }
