"""One measurement: a new cluster with a Kueue of one arm, a load, and what it cost."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.scale.load import Counts, Load
from bench.scale.usage import Counted, Usage, ask, counted, watch_usage
from holdback import process
from holdback.binaries import Binaries
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.local import LocalCluster, local_clusters
from holdback.clusters.nodes import nodes
from holdback.controllers.kueue import objects
from holdback.controllers.kueue.hosting import Settings
from holdback.controllers.kueue.kinds import CLUSTER_QUEUES
from holdback.controllers.kueue.manifests import NAMESPACE
from holdback.controllers.kueue.outside import Outside
from holdback.controllers.kueue.source import KueueBuild
from holdback.controllers.kueue.starting import await_active, wanted_kueues

__all__ = ["Measured", "Wanted", "measure"]

_QUEUES = "scale"
_READER = "metrics-reader"
_NODES = 10
_PODS_RUN = 1.0
"""Seconds that a pod runs."""
_STUCK_AFTER = 300.0
_UNTHROTTLED = 1_000_000
"""Requests a second that no Kueue reaches."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is measured: how many pods, with how many requests a second for Kueue (None: as many as it likes).

    `others` says whether another controller adds a finalizer to each pod that has finished.
    """

    pods: int
    qps: int | None
    others: bool

    @property
    def throttle(self) -> str:
        """In words."""
        return "unthrottled" if self.qps is None else f"{self.qps} requests a second"


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out. `seconds` is the whole time, `complete` says that the load was not interrupted.

    `waits` are the seconds from a pod's end to the end of Kueue's finalizer: median and 99th percentile; None where no
    pod has come so far. `own` is holdback's own use.
    """

    arm: str
    round: int
    wanted: Wanted
    complete: bool
    seconds: float
    counts: Counts
    counted: Counted
    usage: Mapping[str, Usage]
    wait_median: float | None
    wait_p99: float | None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def measure(
    run: process.Run,
    binaries: Binaries,
    build: KueueBuild,
    wanted: Wanted,
    *,
    arm: str,
    round_: int,
    pid: int,
    tell: Callable[[str, Counts], None],
    stop: threading.Event,
) -> Measured | None:
    """Start a cluster, let the pods come and go, and tell what it cost; None if it was stopped before they came.

    Args:
        run: owns the processes.
        binaries: where the executables come from.
        build: the Kueue.
        wanted: the load.
        arm: its name, for the record.
        round_: its number, for the record.
        pid: of this process.
        tell: told what is being done, and how far the load is.
        stop: ends it early; what was measured until then is told.

    Raises:
        HoldbackError: something did not start or got stuck.
    """

    def starting(what: str) -> None:
        if stop.is_set():
            raise _Stopped
        tell(f"starting {what}", Counts())

    with suppress(_Stopped), ExitStack() as stack:
        name = f"{arm}-{round_}"
        cluster, kueue, read = stack.enter_context(_world(run, binaries, build, wanted, name=name, starting=starting))
        server, etcd = cluster.children
        pids = {"Kueue": kueue.pid, "API server": server.pid, "etcd": etcd.pid, "holdback": pid}
        load = Load(cluster.api, _QUEUES, pods=wanted.pods, nodes=_NODES, others=wanted.others)
        usages = stack.enter_context(watch_usage(pids))
        before = read()
        complete = load.run(lambda counts: tell("running", counts), within=_STUCK_AFTER, stop=stop)
        waits = sorted(load.waits)
        return Measured(
            arm=arm,
            round=round_,
            wanted=wanted,
            complete=complete,
            seconds=load.seconds,
            counts=load.counts,
            counted=read().since(before),
            usage=usages.read(),
            wait_median=_quantile(waits, 0.5),
            wait_p99=_quantile(waits, 0.99),
        )
    return None


class _Stopped(Exception):
    """Nothing of the load has begun."""


def _quantile(ordered: list[float], share: float) -> float | None:
    """The value below which that share of them lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


@contextmanager
def _world(
    run: process.Run,
    binaries: Binaries,
    build: KueueBuild,
    wanted: Wanted,
    *,
    name: str,
    starting: Callable[[str], None],
) -> Iterator[tuple[LocalCluster, process.Program, Callable[[], Counted]]]:
    """A cluster with nodes and queues, its Kueue, and what reads their metrics; `starting` is told each part.

    No router and no lanes: they would be measured along.
    """
    port = run.port()
    qps = _UNTHROTTLED if wanted.qps is None else wanted.qps
    configuration = {
        "metrics": {"bindAddress": f"127.0.0.1:{port}"},
        "clientConnection": {"qps": qps, "burst": 2 * qps},
    }
    settings = Settings(frameworks=("pod",), configuration=configuration)
    with ExitStack() as stack:
        starting("a control plane")
        cluster = stack.enter_context(local_clusters(run, binaries, [name]))[name]
        starting("Kueue")
        ours = wanted_kueues({name: (build, settings)})[name]

        def directly(token: str) -> Access:
            return replace(cluster.access, token=token)

        kueue = stack.enter_context(Outside(run).running(cluster, ours, reach=directly))
        starting("nodes")
        stack.enter_context(nodes(run, binaries, cluster, _NODES, seconds=_PODS_RUN))
        for wanted_object in objects.pod_queues(_QUEUES):
            cluster.api.apply(wanted_object)
        await_active(cluster.api, CLUSTER_QUEUES, [_QUEUES])
        yield cluster, kueue, _reading(cluster, port)


def _reading(cluster: LocalCluster, port: int) -> Callable[[], Counted]:
    """What reads the metrics of the API server and of the Kueue that serves its own on that port."""
    token, access = _reader(cluster.api), cluster.access
    trust = ssl.create_default_context(cadata=access.ca)

    def read() -> Counted:
        return counted(
            ask(f"{access.server}/metrics", access.token, trust=trust),
            # Its certificate is signed by itself and new at each start; the token may read metrics and nothing else.
            ask(f"https://127.0.0.1:{port}/metrics", token, trust=False),
        )

    return read


def _reader(api: Api) -> str:
    """The token of an account that may read metrics and nothing else."""
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": _READER}
    subject = {"kind": "ServiceAccount", "name": _READER, "namespace": NAMESPACE}
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    about = {"metadata": {"name": _READER}}
    for body in (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _READER, "namespace": NAMESPACE}},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", **about, "rules": rules},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", **about, "roleRef": role, "subjects": [subject]},
    ):
        api.apply(body)
    return api.token(_READER, NAMESPACE)
