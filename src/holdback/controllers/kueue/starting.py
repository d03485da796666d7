"""What the worlds with Kueues in them have in common: starting, awaiting, recording, checking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, TypeVar

from holdback.clock import poll
from holdback.clusters.api import Api
from holdback.clusters.kinds import Kind
from holdback.clusters.protocols import Borrowed, Cluster
from holdback.controllers.kueue.hosting import Host, Settings, Wanted
from holdback.controllers.kueue.manifests import NAMESPACE, Manifests
from holdback.controllers.kueue.servers import doubts
from holdback.controllers.kueue.source import KueueBuild
from holdback.errors import ClusterError
from holdback.history.recorder import Recorder
from holdback.process import Running
from holdback.traffic.lanes import Link, Pipe
from holdback.traffic.network import Network

__all__ = [
    "announce",
    "await_active",
    "check_all",
    "client_of",
    "each",
    "recording",
    "shadow",
    "start_kueues",
    "wanted_kueues",
    "webhooks_of",
]

_ACTIVE_WITHIN = 60.0
T = TypeVar("T")


def client_of(cluster: str) -> str:
    """What links and logs call the Kueue of a cluster."""
    return f"kueue-{cluster}"


def webhooks_of(cluster: str) -> Pipe:
    """How the API server of a cluster asks the webhooks of its Kueue, where `start_kueues` was told to have it so."""
    return Pipe(cluster, client_of(cluster), "webhooks")


def each(work: Callable[[str], T], names: Sequence[str]) -> dict[str, T]:
    """`work` on every name at once; the first failure is raised once all have ended.

    After Ctrl-C nobody is waited for: the work ends by itself when the clusters that it asks are gone.
    """
    pool = ThreadPoolExecutor(len(names))
    try:
        done = dict(zip(names, pool.map(work, names), strict=True))
    except BaseException as error:
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    pool.shutdown()
    return done


def wanted_kueues(kueues: Mapping[str, tuple[KueueBuild, Settings]]) -> dict[str, Wanted]:
    """For each cluster's name the Kueue that is wanted for it."""
    texts = {name: build.manifests.read_text(encoding="utf-8") for name, (build, _) in kueues.items()}
    parsed = {text: Manifests.parse(text) for text in set(texts.values())}  # a third of a second each, mostly the same
    return {
        name: Wanted(client_of(name), build, parsed[texts[name]], settings)
        for name, (build, settings) in kueues.items()
    }


def announce(
    host: Host,
    clusters: Mapping[str, Cluster],
    wanted: Mapping[str, Wanted],
    objects: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    """Tell the clusters that belong to somebody what they are going to have: a Kueue each, and these objects.

    Raises:
        ConfigurationError: one of them must not have that; nothing was changed in any.
    """
    for name, cluster in clusters.items():
        if isinstance(cluster, Borrowed):
            what = f"{wanted[name].build.variant.describe()}, which runs {host.name} of the cluster"
            if doubt := doubts(cluster.api.read("/version")["gitVersion"]):
                what += f"; but {doubt}"
            cluster.announce(what, [*host.objects(wanted[name]), *objects[name]])


def start_kueues(
    stack: ExitStack,
    host: Host,
    clusters: Mapping[str, Cluster],
    traffic: Network,
    *,
    links: Mapping[str, Link],
    wanted: Mapping[str, Wanted],
    piped: bool = False,
) -> dict[str, Running]:
    """Install and start a Kueue in every cluster, all at once, each on its own link; by the names of their clients.

    Args:
        stack: stops them at its end.
        host: runs them.
        clusters: by name, as are `links` and `wanted`.
        traffic: has the links.
        links: from each cluster's Kueue to its own API server.
        wanted: what runs there.
        piped: the API servers reach the Kueues' webhooks by `webhooks_of` their cluster, for faults to be put on.

    Raises:
        HoldbackError: one did not start.
    """

    def piping(name: str, port: int) -> int:
        return traffic.pipe(webhooks_of(name), f"127.0.0.1:{port}")

    def start(name: str) -> Running:
        pipe = partial(piping, name) if piped else None
        context = host.running(clusters[name], wanted[name], reach=partial(traffic.access, links[name]), pipe=pipe)
        return stack.enter_context(context)  # appending to the stack is atomic

    return {wanted[name].client: kueue for name, kueue in each(start, list(clusters)).items()}


def check_all(parts: Iterable[Cluster | Running | Network | Recorder]) -> None:
    """Prove of each part of a world that it still works.

    Raises:
        ProcessExited: an API server, an etcd or a Kueue ended; with the end of its log.
        TrafficError: the router or Toxiproxy is gone.
        EvidenceError: recording has failed.
    """
    for part in parts:
        part.check()


def await_active(api: Api, kind: Kind, names: Sequence[str]) -> None:
    """Wait until Kueue says of these objects that they are active.

    Raises:
        ClusterError: one is not after a minute.
    """
    for name in names:
        if poll(partial(_active, api, kind, name), within=_ACTIVE_WITHIN) is None:
            found = api.get(kind, name) or {}
            raise ClusterError(
                f"{kind.kind} {name} is not active after {_ACTIVE_WITHIN:g} s: {found.get('status', 'not there')}",
                remedy="see the log of Kueue on that cluster",
            )


def _active(api: Api, kind: Kind, name: str) -> bool:
    conditions = (api.get(kind, name) or {}).get("status", {}).get("conditions") or ()
    return any(entry["type"] == "Active" and entry["status"] == "True" for entry in conditions)


@contextmanager
def recording(clusters: Mapping[str, Cluster], traffic: Network, kinds: Sequence[Kind]) -> Iterator[Recorder]:
    """A recorder of the truth about these kinds in every cluster, and of all requests."""
    with Recorder() as recorder:
        for name, cluster in clusters.items():
            recorder.truth(name, cluster.api, kinds)
        recorder.requests(traffic.access_log)
        yield recorder


def shadow(
    stack: ExitStack,
    recorder: Recorder,
    clusters: Mapping[str, Cluster],
    traffic: Network,
    *,
    accounts: Mapping[Link, str],
    kinds: Sequence[Kind],
) -> None:
    """Watch these kinds as the client of each link does, for they are what it decides by; `stack` ends that.

    `accounts` are the clients' service accounts on the links' clusters: a shadow has their rights.
    """
    for link, account in accounts.items():
        token = clusters[link.cluster].api.token(account, NAMESPACE)
        api = stack.enter_context(closing(Api(traffic.access(link, token))))
        recorder.shadow(link.client, link.cluster, api, kinds)
