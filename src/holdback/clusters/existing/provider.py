"""Where existing clusters come from: contexts that the user named and allowed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from holdback.clusters.access import Access
from holdback.clusters.existing.cluster import ExistingCluster
from holdback.clusters.existing.contexts import Contexts, access_to
from holdback.clusters.protocols import Cluster
from holdback.errors import ClusterError, ConfigurationError, HoldbackError
from holdback.process import Run

__all__ = ["ExistingProvider"]


class ExistingProvider:
    """Gives clusters that are there already, one world at a time.

    Args:
        run: owns what is started, and is the label of what is made.
        contexts: those that were named.
        address: this machine's, at which the clusters reach it; by default the one from which it reaches the first.
        say: told what is found, made and given back.

    Raises:
        ConfigurationError: a context is not allowed, or gives no way in.
    """

    def __init__(self, run: Run, contexts: Contexts, *, address: str = "", say: Callable[[str], None]) -> None:
        contexts.check()
        self._run = run
        self._contexts = contexts
        self._say = say
        directory = run.folder("contexts")
        self._accesses = {name: access_to(name, directory) for name in (*contexts.managers, *contexts.workers)}
        self._address = address or _address_towards(next(iter(self._accesses.values())))
        self._lent = False

    @property
    def name(self) -> str:
        return "existing"

    @property
    def address(self) -> str:
        return self._address

    @contextmanager
    def clusters(self, managers: Sequence[str], workers: Sequence[str] = ()) -> Iterator[Mapping[str, Cluster]]:
        """See `Provider`; at the end what was made in them is removed, and they are compared with how they were."""
        if self._lent:
            raise ConfigurationError(
                "another world of this session is in these clusters",
                remedy="run the experiments of one file at a time: worlds of several cannot share a cluster",
            )
        assigned = self._contexts.assigned(managers, workers)
        with ExitStack() as stack:
            clusters = {name: self._cluster(name, context) for name, context in assigned.items()}
            for cluster in clusters.values():
                stack.callback(cluster.api.close)
            _refuse_the_same_twice(clusters)
            self._lent = True
            stack.callback(self._take_back, clusters)
            yield dict(clusters)

    def _cluster(self, name: str, context: str) -> ExistingCluster:
        return ExistingCluster(
            name, context, self._accesses[context], run=self._run, address=self._address, say=self._say
        )

    def _take_back(self, clusters: Mapping[str, ExistingCluster]) -> None:
        """Give back all of them, whatever becomes of the others."""
        self._lent = False
        lent = [cluster for cluster in clusters.values() if cluster.lent]
        if not lent:
            return
        names = " ".join(f"--context {cluster.context}" for cluster in lent)
        self._say(f"giving back {len(lent)} clusters; should this be interrupted: holdback clean {names}")
        with ThreadPoolExecutor(len(lent), thread_name_prefix="give-back") as pool:
            failures = [error for error in pool.map(_given_back, lent) if error]
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup("clusters that are not as they were found", failures)


def _given_back(cluster: ExistingCluster) -> HoldbackError | None:
    try:
        cluster.give_back()
    except HoldbackError as error:
        return error
    return None


def _refuse_the_same_twice(clusters: Mapping[str, ExistingCluster]) -> None:
    """Two contexts may lead to one cluster."""
    seen: dict[str, str] = {}
    for cluster in clusters.values():
        try:
            identity = cluster.identity()
        except ClusterError as error:
            raise ClusterError(f"context {cluster.context}: {error.message}", remedy=error.remedy) from error
        if identity in seen:
            raise ConfigurationError(
                f"contexts {seen[identity]} and {cluster.context} are the same cluster",
                remedy="a cluster has room for one controller under test: give every role a cluster of its own",
            )
        seen[identity] = cluster.context


def _address_towards(access: Access) -> str:
    """The address of this machine on the way to a server; nothing is sent."""
    url = urlsplit(access.server)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((url.hostname or "", url.port or 443))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise ConfigurationError(
            f"no way to {access.server}: {error}", remedy="see whether the server's name is known and IPv4 leads there"
        ) from error
