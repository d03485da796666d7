"""The world of the finalizer experiments: a cluster for each arm, with a Kueue that manages plain pods.

There is no node and no kubelet: a pod is an API object, and whoever drives the world sets its phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from holdback.clusters.kinds import PODS
from holdback.clusters.protocols import Cluster
from holdback.controllers.kueue import objects
from holdback.controllers.kueue.hosting import Settings, Site
from holdback.controllers.kueue.kinds import CLUSTER_QUEUES, WORKLOADS
from holdback.controllers.kueue.manifests import SERVICE_ACCOUNT
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

__all__ = ["PodsWorld", "pods_world"]

_WATCHED = ("pods", "workloads")
_WRITTEN = ("pods",)


@dataclass(frozen=True, slots=True)
class PodsWorld:
    """Everything that trials of both arms need; made by `pods_world`. `clusters` and `links` are by arm."""

    network: Network
    recorder: Recorder
    clusters: Mapping[str, Cluster]
    links: Mapping[str, Link]
    kueues: Mapping[str, Running]

    def check(self) -> None:
        """Prove that all of it still works; raises as `check_all` does."""
        check_all((*self.clusters.values(), *self.kueues.values(), self.network, self.recorder))


@contextmanager
def pods_world(
    site: Site,
    builds: Mapping[str, KueueBuild],
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[PodsWorld]:
    """Start the world; it is ready when every arm's queue is active.

    Args:
        site: where it is.
        builds: the Kueue of each arm.
        say: told what is being waited for.

    Raises:
        HoldbackError: any part did not start; what had started is stopped.
    """
    names = {arm: f"pods-{arm}" for arm in builds}
    links = {arm: Link(client_of(name), name, _WATCHED, _WRITTEN) for arm, name in names.items()}
    with ExitStack() as stack:
        say(f"starting {len(names)} control planes")
        clusters = stack.enter_context(site.provider.clusters(list(names.values())))
        settings = Settings(frameworks=("pod",), namespaces=tuple(builds))
        wanted = wanted_kueues({names[arm]: (build, settings) for arm, build in builds.items()})
        made = {name: [*objects.pod_queues(arm), objects.pod("any", arm)] for arm, name in names.items()}
        announce(site.host, clusters, wanted, made)
        accesses = {link: clusters[link.cluster].access for link in links.values()}
        traffic = stack.enter_context(network(site.run, site.binaries, accesses, address=site.provider.address))
        say(f"starting {len(names)} Kueues")
        own = {link.cluster: link for link in links.values()}
        kueues = start_kueues(stack, site.host, clusters, traffic, links=own, wanted=wanted)

        def prepare(arm: str) -> None:
            api = clusters[names[arm]].api
            for each_object in objects.pod_queues(arm):
                api.apply(each_object)
            await_active(api, CLUSTER_QUEUES, [arm])

        each(prepare, list(names))
        recorder = stack.enter_context(recording(clusters, traffic, [PODS, WORKLOADS]))
        accounts = dict.fromkeys(links.values(), SERVICE_ACCOUNT)
        shadow(stack, recorder, clusters, traffic, accounts=accounts, kinds=[PODS])
        yield PodsWorld(
            network=traffic,
            recorder=recorder,
            clusters={arm: clusters[name] for arm, name in names.items()},
            links=links,
            kueues=kueues,
        )
