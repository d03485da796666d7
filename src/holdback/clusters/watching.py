"""List and watch, with an informer's promise: nothing that lasts is missed, whatever breaks in between."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from holdback.clusters.access import Access
from holdback.clusters.kinds import Kind
from holdback.clusters.refusals import refusal
from holdback.clusters.stream import open_stream
from holdback.errors import ClusterError

__all__ = ["Passing", "Store", "follow"]

Object = dict[str, Any]
Change = tuple[str, Object]

_GONE = 410
_REFUSALS = (401, 403, 404)
_PATIENCE = 10.0
"""Seconds for which a server that agreed before may refuse."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


class Store:
    """The objects as last seen; turns lists and watch events into changes."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], Object] = {}

    def replace(self, items: list[Object]) -> Iterator[Change]:
        """What must have happened between what was last seen and this list."""
        listed = {_key(item): item for item in items}
        for key in self._objects.keys() - listed.keys():
            yield "DELETED", self._objects.pop(key)
        for key, item in listed.items():
            before = self._objects.get(key)
            if before is not None and before["metadata"]["uid"] != item["metadata"]["uid"]:
                yield "DELETED", self._objects.pop(key)
                before = None
            if before is None or _version(before) != _version(item):
                self._objects[key] = item
                yield ("ADDED" if before is None else "MODIFIED"), item

    def gap(self) -> None:
        """The server has forgotten what came after the last event: `replace` will say what was missed."""

    def note(self, change: str, item: Object) -> Change:
        """A watch's own event."""
        if change == "DELETED":
            self._objects.pop(_key(item), None)
        else:
            self._objects[_key(item)] = item
        return change, item


class Passing(Store):
    """Keeps nothing, so that a watch of any number of objects takes no memory; hence it cannot make good a gap."""

    def replace(self, items: list[Object]) -> Iterator[Change]:
        """What is there at the start."""
        for item in items:
            yield "ADDED", item

    def note(self, change: str, item: Object) -> Change:
        """A watch's own event."""
        return change, item

    def gap(self) -> None:
        """Raises ClusterError: changes were missed."""
        raise ClusterError("a watch fell so far behind that it missed changes", remedy="use a less busy machine")


def _key(item: Object) -> tuple[str, str]:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


class _Follower:
    def __init__(
        self,
        access: Access,
        tls: ssl.SSLContext,
        kind: Kind,
        namespace: str,
        *,
        agent: str,
        stop: threading.Event,
        store: Store,
    ) -> None:
        self._access = access
        self._tls = tls
        self._kind = kind
        self._path = kind.path(namespace)
        self._agent = agent
        self._stop = stop
        self._store = store
        self._version = ""
        self._ever_agreed = False
        self._refused_since: float | None = None
        self._pause = _FIRST_PAUSE

    def changes(self) -> Iterator[Change]:
        while not self._stop.is_set():
            try:
                if not self._version:
                    yield from self._list()
                yield from self._watch()
            except ssl.SSLCertVerificationError as error:
                raise ClusterError(
                    f"{self._access.server} is not who it should be: {error}",
                    remedy="the address belongs to another server, or the authority is not this cluster's",
                ) from error
            except OSError:
                self._refused_since = None  # the wait below, and again: who comes back may refuse for a moment
            except ClusterError as error:
                if error.status == _GONE:
                    self._store.gap()
                    self._version = ""
                else:
                    self._raise_if_lasting(error)
            self._stop.wait(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _list(self) -> Iterator[Change]:
        with self._open({}) as stream:
            body = stream.body()
        if body is None:
            return
        answer = json.loads(body)
        self._succeeded()
        own = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        yield from self._store.replace([{**own, **item} for item in answer["items"]])
        self._version = answer["metadata"]["resourceVersion"]

    def _watch(self) -> Iterator[Change]:
        if not self._version:
            return
        query = {"watch": "true", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
        with self._open(query) as stream:
            for line in stream.lines():
                event = json.loads(line)
                item = event["object"]
                if event["type"] == "ERROR":
                    raise refusal(int(item.get("code", 500)), line, "GET", self._path)
                self._succeeded()
                self._version = _version(item)
                if event["type"] != "BOOKMARK":
                    yield self._store.note(event["type"], item)

    def _open(self, query: dict[str, str]) -> Any:
        path = f"{self._path}?{urlencode(query)}" if query else self._path
        return open_stream(self._access, self._tls, path, agent=self._agent, stop=self._stop)

    def _succeeded(self) -> None:
        self._ever_agreed = True
        self._refused_since = None
        self._pause = _FIRST_PAUSE

    def _raise_if_lasting(self, error: ClusterError) -> None:
        """A server that is just starting refuses what it allows a second later; one that never agreed means it."""
        if error.status not in _REFUSALS:
            return
        now = time.monotonic()
        if self._refused_since is None:
            self._refused_since = now
        if not self._ever_agreed or now - self._refused_since > _PATIENCE:
            raise error


def follow(
    access: Access,
    tls: ssl.SSLContext,
    kind: Kind,
    namespace: str,
    *,
    agent: str,
    stop: threading.Event,
    store: Store | None = None,
) -> Iterator[Change]:
    """See `Api.watch`, and with a `Passing` store `Api.stream`."""
    return _Follower(
        access, tls, kind, namespace, agent=agent, stop=stop, store=Store() if store is None else store
    ).changes()
