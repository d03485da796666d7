"""The world of the MultiKueue experiments: a manager for each arm and the workers that both arms share.

Sharing the workers puts both arms under the same noise. Each manager has its own `multiKueue.origin`, else one's
garbage collection would delete the other's copies; each arm its own namespace and ClusterQueues on the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from holdback.clusters.kinds import JOBS
from holdback.clusters.protocols import Cluster
from holdback.controllers.kueue import objects
from holdback.controllers.kueue.hosting import Settings, Site
from holdback.controllers.kueue.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS, WORKLOADS
from holdback.controllers.kueue.manifests import NAMESPACE, SERVICE_ACCOUNT
from holdback.controllers.kueue.source import KueueBuild
from holdback.controllers.kueue.starting import (
    announce,
    await_active,
    check_all,
    client_of,
    each,
    recording,
    shadow,
    start_kueues,
    wanted_kueues,
)
from holdback.history.recorder import Recorder
from holdback.process import Running
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
    managers: Mapping[str, Cluster]
    workers: Mapping[str, Cluster]
    kueues: Mapping[str, Running]

    def check(self) -> None:
        """Prove that all of it still works; raises as `check_all` does."""
        clusters = (*self.managers.values(), *self.workers.values())
        check_all((*clusters, *self.kueues.values(), self.network, self.recorder))

    def links(self, arm: str) -> tuple[Link, ...]:
        """The links from an arm's manager to the workers."""
        client = client_of(_manager(arm))
        return tuple(link for link in self.network.links if link.client == client and link.cluster in self.workers)


def _manager(arm: str) -> str:
    return f"manager-{arm}"


@contextmanager
def multikueue_world(
    site: Site,
    builds: Mapping[str, KueueBuild],
    worker_build: KueueBuild,
    *,
    workers: Sequence[str] = ("worker1", "worker2"),
    piped: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[MultiKueueWorld]:
    """Start the world; it is ready when every manager reports every worker active.

    Args:
        site: where it is.
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
    with ExitStack() as stack:
        say(f"starting {len(names)} control planes")
        clusters = stack.enter_context(site.provider.clusters(list(managers.values()), workers))
        wanted = wanted_kueues(_kueues(managers, workers, builds, worker_build))
        announce(site.host, clusters, wanted, _objects(managers, workers))
        links = _links(managers.values(), workers)
        accesses = {link: clusters[link.cluster].access for link in links}
        traffic = stack.enter_context(network(site.run, site.binaries, accesses, address=site.provider.address))
        say(f"starting {len(names)} Kueues")
        own = {name: Link(client_of(name), name, WATCHED) for name in names}
        kueues = start_kueues(stack, site.host, clusters, traffic, links=own, wanted=wanted, piped=piped)
        say("connecting managers and workers")
        _connect(managers, workers, clusters, traffic)
        recorder = stack.enter_context(recording(clusters, traffic, [WORKLOADS, JOBS]))
        deciding = _deciding(traffic.links, {client_of(manager): arm for arm, manager in managers.items()})
        shadow(stack, recorder, clusters, traffic, accounts=deciding, kinds=[WORKLOADS, JOBS])
        yield MultiKueueWorld(
            network=traffic,
            recorder=recorder,
            managers={arm: clusters[name] for arm, name in managers.items()},
            workers={name: clusters[name] for name in workers},
            kueues=kueues,
        )


def _kueues(
    managers: Mapping[str, str], workers: Sequence[str], builds: Mapping[str, KueueBuild], worker_build: KueueBuild
) -> dict[str, tuple[KueueBuild, Settings]]:
    build_of = dict.fromkeys(workers, worker_build) | {managers[arm]: build for arm, build in builds.items()}
    return {
        name: (build, Settings(configuration={"multiKueue": {"origin": name}}, namespaces=tuple(managers)))
        for name, build in build_of.items()
    }


def _objects(managers: Mapping[str, str], workers: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """What each cluster will have besides its Kueue: the queues, what connects them, and a Job like those of trials."""
    on_managers = {
        manager: [
            *objects.connection([(worker, "") for worker in workers]),
            *objects.manager_queues(arm, len(workers)),
            objects.job("any", arm, cpu=1, managed=True),
        ]
        for arm, manager in managers.items()
    }
    on_workers = [
        wanted
        for arm in managers
        for wanted in (
            *objects.worker_objects(arm),
            *objects.multikueue_account(_account(arm)),
            objects.job("any", arm, cpu=1, managed=False),
        )
    ]
    return {**on_managers, **dict.fromkeys(workers, on_workers)}


def _account(arm: str) -> str:
    """The service account by which an arm's manager reaches a worker."""
    return f"multikueue-{arm}"


def _deciding(links: Iterable[Link], arms: Mapping[str, str]) -> dict[Link, str]:
    """The links by which managers learn what they decide by, with the service account of each.

    `arms` are those of the managers, by the name of their client.
    """
    return {
        link: SERVICE_ACCOUNT if link.client == client_of(link.cluster) else _account(arms[link.client])
        for link in links
        if link.client in arms
    }


def _links(managers: Iterable[str], workers: Sequence[str]) -> list[Link]:
    own = [Link(client_of(name), name, WATCHED) for name in (*managers, *workers)]
    return own + [Link(client_of(manager), worker, WATCHED) for manager in managers for worker in workers]


def _connect(
    managers: Mapping[str, str], workers: Sequence[str], clusters: Mapping[str, Cluster], traffic: Network
) -> None:
    """Make each arm's queues on all clusters, and its manager's MultiKueue; wait until everything is active."""

    def prepare(worker: str) -> dict[str, str]:
        """The kubeconfigs by which each arm's manager reaches the worker."""
        api = clusters[worker].api
        kubeconfigs = {}
        for arm, manager in managers.items():
            account = _account(arm)
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
