"""The world of the MultiKueue experiments: a manager for each arm and the workers that both arms share.

Sharing the workers puts both arms under the same noise. Each manager has its own `multiKueue.origin`, else one's
garbage collection would delete the other's copies; each arm its own namespace and ClusterQueues on the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from holdback import process
from holdback.binaries import Binaries
from holdback.clusters.api import Api
from holdback.clusters.kinds import JOBS
from holdback.clusters.local import LocalCluster, local_clusters
from holdback.controllers.kueue import objects
from holdback.controllers.kueue.controller import Settings
from holdback.controllers.kueue.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from holdback.controllers.kueue.manifests import NAMESPACE
from holdback.controllers.kueue.source import KueueBuild
from holdback.controllers.kueue.starting import await_active, client_of, each, recording, start_kueues
from holdback.history.recorder import Recorder
from holdback.traffic.lanes import Link
from holdback.traffic.network import Network, network

__all__ = ["WATCHED", "MultiKueueWorld", "multikueue_world"]

WATCHED = ("workloads", "jobs")
"""Resources whose watch has a lane of its own on every link."""


@dataclass(frozen=True, slots=True)
class MultiKueueWorld:
    """Everything that trials of both arms need; made by `multikueue_world`.

    `managers` maps an arm to its manager's cluster, `workers` are the shared clusters, by name.
    """

    network: Network
    recorder: Recorder
    managers: Mapping[str, LocalCluster]
    workers: Mapping[str, LocalCluster]
    kueues: Mapping[str, process.Program]

    def check(self) -> None:
        """Raise if anything of the world no longer works.

        Raises:
            ProcessExited: an API server, an etcd or a Kueue ended; with the end of its log.
            TrafficError: the router or Toxiproxy is gone.
        """
        for cluster in (*self.managers.values(), *self.workers.values()):
            cluster.check()
        for kueue in self.kueues.values():
            kueue.check()
        self.network.check()
        self.recorder.check()

    def links(self, arm: str) -> tuple[Link, ...]:
        """The links from an arm's manager to the workers."""
        client = client_of(_manager(arm))
        return tuple(link for link in self.network.links if link.client == client and link.cluster in self.workers)


def _manager(arm: str) -> str:
    return f"manager-{arm}"


@contextmanager
def multikueue_world(
    run: process.Run,
    binaries: Binaries,
    builds: Mapping[str, KueueBuild],
    worker_build: KueueBuild,
    *,
    workers: Sequence[str] = ("worker1", "worker2"),
    piped: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[MultiKueueWorld]:
    """Start the world; it is ready when every manager reports every worker active.

    Args:
        run: owns every process.
        binaries: where the executables come from.
        builds: the Kueue of each arm's manager.
        worker_build: the Kueue of the workers.
        workers: their names.
        piped: as for `start_kueues`: a webhook costs half a millisecond more, and can be delayed, held and cut.
        say: told what is being waited for.

    Raises:
        HoldbackError: any part did not start; what had started is stopped.
    """
    managers = {arm: _manager(arm) for arm in builds}
    names = [*managers.values(), *workers]
    build_of = dict.fromkeys(workers, worker_build) | {managers[arm]: build for arm, build in builds.items()}
    with ExitStack() as stack:
        say(f"starting {len(names)} control planes")
        clusters = stack.enter_context(local_clusters(run, binaries, names))
        links = _links(managers.values(), workers)
        traffic = stack.enter_context(network(run, binaries, {link: clusters[link.cluster].access for link in links}))
        say(f"starting {len(names)} Kueues")
        own = {name: Link(client_of(name), name, WATCHED) for name in names}
        wanted = {
            name: (build, Settings(configuration={"multiKueue": {"origin": name}})) for name, build in build_of.items()
        }
        kueues = start_kueues(stack, run, clusters, traffic, links=own, wanted=wanted, piped=piped)
        say("connecting managers and workers")
        _connect(managers, workers, clusters, traffic)
        recorder = stack.enter_context(recording(clusters, traffic, [WORKLOADS, JOBS]))
        clients = {client_of(manager) for manager in managers.values()}
        _shadow(stack, recorder, clusters, traffic, [link for link in links if link.client in clients])
        yield MultiKueueWorld(
            network=traffic,
            recorder=recorder,
            managers={arm: clusters[name] for arm, name in managers.items()},
            workers={name: clusters[name] for name in workers},
            kueues=kueues,
        )


def _shadow(
    stack: ExitStack,
    recorder: Recorder,
    clusters: Mapping[str, LocalCluster],
    traffic: Network,
    links: Iterable[Link],
) -> None:
    """Watch Workloads as the client of each link does: what a manager decides depends on them."""
    for link in links:
        shadow = stack.enter_context(closing(Api(traffic.access(link, clusters[link.cluster].access.token))))
        recorder.shadow(link.client, link.cluster, shadow, [WORKLOADS])


def _links(managers: Iterable[str], workers: Sequence[str]) -> list[Link]:
    own = [Link(client_of(name), name, WATCHED) for name in (*managers, *workers)]
    return own + [Link(client_of(manager), worker, WATCHED) for manager in managers for worker in workers]


def _connect(
    managers: Mapping[str, str], workers: Sequence[str], clusters: Mapping[str, LocalCluster], traffic: Network
) -> None:
    """Make each arm's queues on all clusters, and its manager's MultiKueue; wait until everything is active."""

    def prepare(worker: str) -> dict[str, str]:
        """The kubeconfigs by which each arm's manager reaches the worker."""
        api = clusters[worker].api
        kubeconfigs = {}
        for arm, manager in managers.items():
            account = f"multikueue-{arm}"
            for wanted in (*objects.worker_objects(arm), *objects.multikueue_account(account)):
                api.apply(wanted)
            access = traffic.access(Link(client_of(manager), worker, WATCHED), api.token(account, NAMESPACE))
            kubeconfigs[arm] = access.kubeconfig()
        return kubeconfigs

    prepared = each(prepare, workers)

    def connect(arm: str) -> None:
        api = clusters[managers[arm]].api
        for wanted in objects.connection([(worker, prepared[worker][arm]) for worker in workers]):
            api.apply(wanted)
        # A queue made before its check is active would learn of it only with Kueue's next batch, up to a second later.
        await_active(api, MULTIKUEUE_CLUSTERS, workers)
        await_active(api, ADMISSION_CHECKS, [objects.CHECK])
        for wanted in objects.manager_queues(arm, len(workers)):
            api.apply(wanted)
        for name in (managers[arm], *workers):
            await_active(clusters[name].api, CLUSTER_QUEUES, [arm])

    each(connect, list(managers))
