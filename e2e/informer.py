"""A small informer of our own, for tests that must know what a controller would have seen."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from e2e.lines import whole_lines
from holdback.binaries import Binaries
from holdback.clock import poll
from holdback.clusters import Api, LocalCluster, local_clusters
from holdback.clusters.access import Access
from holdback.clusters.kinds import CONFIG_MAPS
from holdback.clusters.stream import open_stream
from holdback.errors import ClusterError
from holdback.faults.injection import inject
from holdback.faults.values import Fault
from holdback.process import Run, open_run
from holdback.traffic.lanes import Link
from holdback.traffic.network import Network, network

__all__ = ["AGENT", "LINK", "NAMESPACE", "PATIENCE", "Informer", "Place", "Restarted", "place"]

LINK = Link("informer", "one", ("configmaps",))
AGENT = "informer"
NAMESPACE = "test"
PATIENCE = 60.0
"""Seconds until what must come is taken not to: it takes milliseconds, on a busy machine seconds."""


class Informer:
    """Watches the ConfigMaps of the namespace, as `Api.watch` does, and remembers what it saw."""

    def __init__(self, access: Access) -> None:
        self.seen: list[tuple[str, str, str]] = []
        """Change, name and value, in the order of arrival."""
        self.at: list[float] = []
        """When each of them arrived (`time.perf_counter`)."""
        self._api = Api(access, agent=AGENT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Informer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        self._api.close()
        assert not self._thread.is_alive()

    def _watch(self) -> None:
        for change, item in self._api.watch(CONFIG_MAPS, NAMESPACE, stop=self._stop):
            self._see(change, item)

    def _see(self, change: str, item: dict[str, Any]) -> None:
        self.at.append(time.perf_counter())
        self.seen.append((change, item["metadata"]["name"], item.get("data", {}).get("value", "")))

    def of(self, name: str) -> list[tuple[str, str]]:
        """Change and value of one object."""
        return [(change, value) for change, found, value in list(self.seen) if found == name]

    def values(self, name: str) -> list[str]:
        """The values of one object."""
        return [value for _, value in self.of(name)]

    def sees(self, name: str, value: str, within: float = PATIENCE) -> bool:
        """Whether it has the object with that value, now or in time."""
        return bool(poll(lambda: self.values(name)[-1:] == [value], within=within, every=0.005))


class Restarted(Informer):
    """Begins as an informer of client-go does: with what the API server has cached, however old that is."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._access = access
        self._version = ""

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            try:
                with suppress(OSError):  # broken off; it goes on from where it was
                    self._go_on()
            except ClusterError as error:
                if error.status != httpx.codes.TOO_MANY_REQUESTS:  # a server that still reads what it stores says so
                    raise

    def _go_on(self) -> None:
        """See a list at first, and then what comes after it."""
        query = f"watch=true&resourceVersion={self._version}" if self._version else "resourceVersion=0"
        path = f"{CONFIG_MAPS.path(NAMESPACE)}?{query}"
        with open_stream(self._access, self._access.tls(), path, agent=AGENT, stop=self._stop) as stream:
            if self._version:
                for event in map(json.loads, stream.lines()):
                    self._see(event["type"], event["object"])
                    self._version = event["object"]["metadata"]["resourceVersion"]
            elif body := stream.body():
                listed = json.loads(body)
                for item in listed["items"]:
                    self._see("ADDED", item)
                self._version = listed["metadata"]["resourceVersion"]


class Place:
    """A cluster, the link to it, and a writer that goes straight to it."""

    def __init__(self, run: Run, cluster: LocalCluster, net: Network) -> None:
        self.run = run
        self.cluster = cluster
        self.net = net
        cluster.api.ensure_namespace(NAMESPACE)

    @property
    def access(self) -> Access:
        """The way in through the link."""
        return self.net.access(LINK, self.cluster.access.token)

    def write(self, name: str, value: object) -> None:
        """Give an object a value; it comes to be if it was not."""
        metadata = {"name": name, "namespace": NAMESPACE}
        self.cluster.api.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"value": str(value)}}
        )

    def put(self, *faults: Fault) -> AbstractContextManager[None]:
        """The faults in force on the link."""
        return inject(self.net, faults, lambda *_: None)

    @contextmanager
    def watched(self) -> Iterator[Informer]:
        """An informer whose watch is open; at its end nothing may be in force."""
        with Informer(self.access) as informer:
            self.open_watch(informer)
            yield informer
        assert self.net.residue() == []

    def open_watch(self, informer: Informer) -> None:
        """Return when the informer's watch is open: a first object may be listed, the next change is watched."""
        for value in (secrets.token_hex(4), secrets.token_hex(4)):
            self.write("open", value)
            assert informer.sees("open", value)

    def requests(self, **wanted: Any) -> list[dict[str, Any]]:
        """Lines of the router's log with these fields; a request is logged once it is over, after its answer."""
        lines = whole_lines(self.net.access_log)
        return [line for line in lines if all(line.get(key) == value for key, value in wanted.items())]


@contextmanager
def place(*, doubled: Sequence[str] = ()) -> Iterator[Place]:
    """Start it all."""
    with ExitStack() as stack:
        logs = Path(stack.enter_context(TemporaryDirectory()))
        run = stack.enter_context(open_run(logs=logs))
        binaries = Binaries()
        cluster = stack.enter_context(local_clusters(run, binaries, [LINK.cluster], doubled=doubled))[LINK.cluster]
        yield Place(run, cluster, stack.enter_context(network(run, binaries, {LINK: cluster.access})))
