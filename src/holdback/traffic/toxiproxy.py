"""Toxiproxy through toxiproxy-python, the one place that knows either.

The library keeps the server's address in a class attribute and asks without a time limit. Both are mended
here: its `APIConsumer` is replaced, in its own modules, by one that asks through the connections of the
`Toxiproxy` that is being used, and that behaves as before for anybody else. So one process can use any number
of servers, from any number of threads, over connections that stay open.

Toxiproxy itself asks nobody who he is. The executable built from our pin puts a check of a bearer token before its API
(`binaries/pins/toxiproxy-server/main.go`), and one that lacks it is not used.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, TypeVar

import toxiproxy.proxy
import toxiproxy.server
import urllib3.exceptions
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import NotFound, ProxyExists
from urllib3 import BaseHTTPResponse, HTTPConnectionPool

from holdback.certificates import write_private
from holdback.clock import poll
from holdback.errors import ProcessExited, TrafficError
from holdback.process import Child, Run, await_ready, child
from holdback.traffic.listening import abandoned, listens

__all__ = ["Toxic", "Toxiproxy", "toxiproxy_server"]

T = TypeVar("T")
_PATIENCE = 10.0
"""Seconds for one answer. Removing a toxic first passes on what it held, for a slow reader at most 5 s a chunk."""
_LONG = 1000
"""Milliseconds of latency from which on more than a little may be held."""
_NOTICED_WITHIN = 10.0
_USAGE = 100
"""Lines at the end of a log in which the reason precedes a program's usage."""
_AT_ONCE = 4
"""Requests at the same time: a fault on all lanes of a few links should come into force at one moment."""

_pool: ContextVar[HTTPConnectionPool | None] = ContextVar("toxiproxy_pool", default=None)


class _Consumer(APIConsumer):  # type: ignore[misc]
    """Asks through the current pool of connections; without one, as the library always did."""

    @classmethod
    def get(cls, url: str, params: Any = None, **kwargs: Any) -> Any:
        pool = _pool.get()
        return _ask(pool, "GET", url) if pool else super().get(url, params, **kwargs)

    @classmethod
    def delete(cls, url: str, **kwargs: Any) -> Any:
        pool = _pool.get()
        return _ask(pool, "DELETE", url) if pool else super().delete(url, **kwargs)

    @classmethod
    def post(cls, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Any:
        pool = _pool.get()
        return _ask(pool, "POST", url, json) if pool else super().post(url, data, json, **kwargs)


class _RefusedError(Exception):
    """Toxiproxy's own words."""


def _ask(pool: HTTPConnectionPool, method: str, url: str, json: Any = None) -> BaseHTTPResponse:
    response = pool.request(method, url, json=json)
    if response.status == 404:
        raise NotFound(response.data.decode())
    if response.status >= 400:  # the library lets those of the server itself pass
        raise _RefusedError(response.data.decode())
    return response


toxiproxy.proxy.APIConsumer = _Consumer
toxiproxy.server.APIConsumer = _Consumer


@dataclass(frozen=True, slots=True)
class Toxic:
    """One toxic on one proxy; `attributes` as Toxiproxy defines them for the type, times in milliseconds.

    `stream` is `downstream` for what the upstream sends back, `upstream` for what it is sent.
    """

    proxy: str
    name: str
    type: str
    attributes: Mapping[str, int]
    stream: Literal["downstream", "upstream"] = "downstream"


class _Acts:
    """Counts what is under way, by the threads that do it: an interrupt may come before their futures are known."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._off = False

    def one(self, act: Callable[[T], bool], item: T) -> bool:
        with self._changed:
            if self._off:
                raise CancelledError
            self._running += 1
        try:
            return act(item)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def call_off(self) -> None:
        """Let nothing more begin, and wait for what has."""
        with self._changed:
            self._off = True
            self._changed.wait_for(lambda: not self._running)


class Toxiproxy:
    """A running toxiproxy-server of our own; every method raises TrafficError when it is gone or refuses."""

    def __init__(self, process: Child, port: int, token: str, ports: Callable[[], int]) -> None:
        self.process = process
        self.port = port
        # Ours for the whole run: a proxy gives up its port while it is closed, or to lead elsewhere.
        self._ports = ports
        self._listening: dict[str, int] = {}
        self._closed: Counter[str] = Counter()
        # Held while proxies are renewed, so that whoever lists them misses none.
        self._closing = threading.RLock()
        self._locks: dict[str, threading.Lock] = {}
        # Plain urllib3: it takes half the time of httpx or requests, and minds no HTTP_PROXY of the user's shell.
        self._pool = _connections(port, {"Authorization": f"Bearer {token}"})
        self._api = toxiproxy.server.Toxiproxy()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="toxiproxy")

    def check_guarded(self) -> None:
        """Prove that who does not bear the run's token is refused.

        Raises:
            TrafficError: he is not.
        """
        with self._asking("refuse strangers"), _connections(self.port) as strange:
            status = strange.request("GET", "/version").status
        if status != HTTPStatus.UNAUTHORIZED:
            raise _unguarded(f"it answers {status} to who has none")

    def leave(self) -> None:
        """Close the connections to the server; the server goes on."""
        self._threads.shutdown()
        self._pool.close()

    def create(self, name: str, upstream: str) -> int:
        """A new proxy to `upstream` (host:port); gives the loopback port that it listens on."""
        port = self._ports()
        with self._asking(f"create proxy {name}"):
            self._api.create(upstream=upstream, name=name, listen=f"127.0.0.1:{port}")
        self._listening[name] = port
        return port

    def add(self, toxics: Sequence[Toxic]) -> None:
        """Put toxics on proxies, in force on open connections and new ones when this returns.

        When one fails the others are tried all the same, so `remove` every one of them then.
        """
        self._for_all(toxics, self._add)

    def remove(self, toxics: Sequence[Toxic]) -> list[Toxic]:
        """Take toxics off again, passing on what they held; gives those that were not there."""
        self._release([toxic for toxic in toxics if toxic.attributes.get("latency", 0) >= _LONG])
        removed = self._for_all(toxics, self._remove)
        return [toxic for toxic, was_there in zip(toxics, removed, strict=True) if not was_there]

    def _release(self, toxics: Sequence[Toxic]) -> None:
        """Let go of what is held for clients that have left.

        While it takes a toxic off, Toxiproxy waits five seconds for each piece that a client does not read. As a toxic
        without latency passes everything on first, it notices before that nobody is there.
        """
        ports = {self._listening[toxic.proxy] for toxic in toxics}
        if ports and abandoned(self.process, ports):
            self._for_all(toxics, self._soften)
            poll(lambda: not abandoned(self.process, ports), within=_NOTICED_WITHIN, every=0.01)

    def _soften(self, toxic: Toxic) -> bool:
        with self._asking(f"soften {toxic.type} on {toxic.proxy}"), contextlib.suppress(NotFound):
            path = f"/proxies/{toxic.proxy}/toxics/{toxic.name}"
            _ask(self._pool, "PATCH", path, {"attributes": {"latency": 0, "jitter": 0}})
        return True

    def _for_all(self, items: Sequence[T], act: Callable[[T], bool]) -> list[bool]:
        """Act on all at the same time and wait for all, then raise what went wrong. Afterwards nothing is under way."""
        acts = _Acts()
        try:
            futures = [self._threads.submit(acts.one, act, item) for item in items]
            wait(futures)
        except BaseException:  # Ctrl-C: what came only now could not be taken back any more
            acts.call_off()
            raise
        return [future.result() for future in futures]

    def _lock(self, proxy: str) -> threading.Lock:
        """One change at a time: toxics must not come and go while a proxy is renewed."""
        return self._locks.setdefault(proxy, threading.Lock())

    def _add(self, toxic: Toxic) -> bool:
        with self._asking(f"add {toxic.type} to {toxic.proxy}"), self._lock(toxic.proxy):
            _proxy(toxic.proxy).add_toxic(
                type=toxic.type, name=toxic.name, stream=toxic.stream, attributes=dict(toxic.attributes)
            )
        return True

    def _remove(self, toxic: Toxic) -> bool:
        with self._asking(f"remove {toxic.type} from {toxic.proxy}"), self._lock(toxic.proxy):
            try:
                _proxy(toxic.proxy).destroy_toxic(toxic.name)
            except NotFound:
                return False
        return True

    def toxics(self) -> dict[str, dict[str, str]]:
        """For every proxy: its toxics' names and types."""
        with self._closing, self._asking("list toxics"):
            # The library's proxies() leaves out the toxics, and would need a request for each proxy.
            proxies: dict[str, Any] = _Consumer.get("/proxies").json()
        return {name: {toxic["name"]: toxic["type"] for toxic in proxy["toxics"]} for name, proxy in proxies.items()}

    def lead(self, upstreams: Mapping[str, str]) -> None:
        """Let proxies lead to these upstreams (host:port); connections through those that led elsewhere are closed."""
        with self._closing:
            self._for_all(
                list(upstreams.items()),
                lambda item: self._renew(item[0], enabled=not self._closed[item[0]], upstream=item[1]),
            )

    def close(self, proxies: Sequence[str]) -> None:
        """Let these proxies take no connections and close those that are open, with whatever is held on them.

        Each is closed for as long as anybody who closed it has not opened it. When this fails, open them again.
        """
        with self._closing:
            fresh = [name for name in proxies if not self._closed[name]]
            self._closed.update(proxies)
            self._for_all(fresh, lambda name: self._renew(name, enabled=False))

    def open(self, proxies: Sequence[str]) -> list[str]:
        """Take back a `close` of these proxies; gives those that were open although nobody had opened them."""
        with self._closing:
            closed = self.disabled()
            lost = [name for name in proxies if self._closed[name] and name not in closed]
            self._closed.subtract([name for name in proxies if self._closed[name]])
            free = [name for name in proxies if not self._closed[name]]
            self._for_all(free, self._enable)
            return lost

    def left_closed(self, proxies: Sequence[str]) -> list[str]:
        """Those of these proxies that are closed although nobody keeps them so."""
        with self._closing:
            return [name for name in self.disabled() if name in proxies and not self._closed[name]]

    def _renew(self, name: str, *, enabled: bool, upstream: str = "") -> bool:
        """Close a proxy's connections by putting another in its place, with the same port and toxics.

        One that was only disabled would keep what it could not deliver, and would wait for that for ever as soon as a
        toxic is taken off it.
        """
        with self._asking(f"renew {name}"), self._lock(name):
            old = _ask(self._pool, "GET", f"/proxies/{name}").json()
            _ask(self._pool, "DELETE", f"/proxies/{name}")
            new = {"name": name, "listen": old["listen"], "upstream": upstream or old["upstream"], "enabled": False}
            _ask(self._pool, "POST", "/proxies", new)
            for toxic in old["toxics"]:  # in their order; before anybody connects
                _ask(self._pool, "POST", f"/proxies/{name}/toxics", toxic)
        return self._enable(name) if enabled else True

    def _enable(self, name: str) -> bool:
        with self._asking(f"enable {name}"):
            _ask(self._pool, "PATCH", f"/proxies/{name}", {"enabled": True})
        return True

    def upstreams(self) -> dict[str, str]:
        """Where every proxy leads, as host:port."""
        with self._closing, self._asking("list proxies"):
            return {name: proxy.upstream for name, proxy in self._api.proxies().items()}

    def disabled(self) -> list[str]:
        """The proxies that take no connections."""
        with self._closing, self._asking("list proxies"):
            return sorted(name for name, proxy in self._api.proxies().items() if not proxy.enabled)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Make the library ask this server, and its errors ours."""
        token = _pool.set(self._pool)
        try:
            yield
        except urllib3.exceptions.HTTPError as error:
            raise TrafficError(
                f"Toxiproxy did not answer ({what}): {error!r}{self._obituary()}",
                remedy="the lanes are unusable now; start the world again",
            ) from error
        except (_RefusedError, ProxyExists, NotFound) as error:
            raise TrafficError(f"Toxiproxy refused ({what}): {error}", remedy=f"its log: {self.process.log}") from error
        finally:
            _pool.reset(token)

    def _obituary(self) -> str:
        if self.process.alive():
            return ""
        return f"; its process {self.process.pid} has ended, the end of its log:\n{self.process.log_tail()}"


def _connections(port: int, headers: Mapping[str, str] | None = None) -> HTTPConnectionPool:
    return HTTPConnectionPool(
        "127.0.0.1", port, maxsize=_AT_ONCE, timeout=_PATIENCE, retries=False, headers=dict(headers or {})
    )


def _proxy(name: str) -> Any:
    """The library's handle of a proxy, without asking the server for it first."""
    return toxiproxy.proxy.Proxy(name=name, upstream="", enabled=True, listen="")


@contextmanager
def toxiproxy_server(run: Run, executable: Path) -> Iterator[Toxiproxy]:
    """A toxiproxy-server on loopback for as long as the context lasts; its API needs a token that only we have.

    Raises:
        TrafficError: it is one that asks for no token.
        ProcessExited, NotReady: it did not come up.
    """
    port, token = run.port(), secrets.token_urlsafe(32)
    file = write_private(run.folder(f"toxiproxy-{port}") / "token", token)
    argv: list[str | Path] = [executable, "-port", str(port), "-token-file", file]
    with child(run, f"toxiproxy-{port}", argv) as process:
        server = Toxiproxy(process, port, token, run.port)
        try:
            _await_up(process, port)
            server.check_guarded()
            yield server
        finally:
            server.leave()


def _await_up(process: Child, port: int) -> None:
    try:
        await_ready(process, lambda: listens(process, [port]), within=60.0, what="Toxiproxy listens")
    except ProcessExited as error:
        if "not defined: -token-file" in process.log_tail(_USAGE):
            raise _unguarded("it knows of none") from error
        raise


def _unguarded(how: str) -> TrafficError:
    return TrafficError(
        f"this toxiproxy-server does not ask for the run's token: {how}",
        remedy="unset HOLDBACK_TOXIPROXY_SERVER; `holdback build` makes one that asks",
    )
