"""Toxiproxy through toxiproxy-python, the one place that knows either.

The library keeps the server's address in a class attribute and asks without a time limit. Both are mended
here: its `APIConsumer` is replaced, in its own modules, by one that asks through the HTTP client of the
`Toxiproxy` that is being used, and that behaves as before for anybody else. So one process can use any number
of servers, from any number of threads, over connections that stay open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import toxiproxy.proxy
import toxiproxy.server
from toxiproxy.api import APIConsumer, validate_response
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from holdback.errors import TrafficError
from holdback.process import Child, Run, await_ready, child

__all__ = ["Toxic", "Toxiproxy", "toxiproxy_server"]

_PATIENCE = 10.0
"""Seconds for one answer. Removing a toxic first passes on what it held, for a slow reader at most 5 s a chunk."""
_AT_ONCE = 4
"""Requests at the same time: a fault on all lanes of a few links should come into force at one moment."""

_client: ContextVar[httpx.Client | None] = ContextVar("toxiproxy_client", default=None)


class _Consumer(APIConsumer):  # type: ignore[misc]
    """Asks through the current client; without one, as the library always did."""

    @classmethod
    def get(cls, url: str, params: Any = None, **kwargs: Any) -> Any:
        client = _client.get()
        return _checked(client.get(url, params=params)) if client else super().get(url, params, **kwargs)

    @classmethod
    def delete(cls, url: str, **kwargs: Any) -> Any:
        client = _client.get()
        return _checked(client.delete(url)) if client else super().delete(url, **kwargs)

    @classmethod
    def post(cls, url: str, data: Any = None, json: Any = None, **kwargs: Any) -> Any:
        client = _client.get()
        return _checked(client.post(url, json=json)) if client else super().post(url, data, json, **kwargs)


def _checked(response: httpx.Response) -> httpx.Response:
    validate_response(response)  # the library's own errors for 400, 404 and 409; it lets all others pass
    return response.raise_for_status()


toxiproxy.proxy.APIConsumer = _Consumer
toxiproxy.server.APIConsumer = _Consumer


@dataclass(frozen=True, slots=True)
class Toxic:
    """One toxic on one proxy; `attributes` as Toxiproxy defines them for the type, times in milliseconds."""

    proxy: str
    name: str
    type: str
    attributes: Mapping[str, int]


class Toxiproxy:
    """A running toxiproxy-server of our own; every method raises TrafficError when it is gone or refuses."""

    def __init__(self, process: Child, port: int) -> None:
        self.process = process
        # trust_env: an HTTP_PROXY of the user's shell is not meant for a server on loopback.
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=_PATIENCE, trust_env=False)
        self._api = toxiproxy.server.Toxiproxy()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="toxiproxy")

    def close(self) -> None:
        """Close the connections to the server; the server goes on."""
        self._threads.shutdown()
        self._http.close()

    def create(self, name: str, upstream: str) -> int:
        """A new proxy to `upstream` (host:port); gives the loopback port that it listens on."""
        with self._asking(f"create proxy {name}"):
            proxy = self._api.create(upstream=upstream, name=name)
        return int(proxy.listen.rpartition(":")[2])

    def add(self, toxics: Sequence[Toxic]) -> None:
        """Put toxics on what the upstreams send back, for open connections and new ones.

        When one fails the others are tried all the same, so `remove` every one of them then.
        """
        self._for_all(toxics, self._add)

    def remove(self, toxics: Sequence[Toxic]) -> list[Toxic]:
        """Take toxics off again, passing on what they held; gives those that were not there."""
        removed = self._for_all(toxics, self._remove)
        return [toxic for toxic, was_there in zip(toxics, removed, strict=True) if not was_there]

    def _for_all(self, toxics: Sequence[Toxic], act: Callable[[Toxic], bool]) -> list[bool]:
        """Act on all at the same time and wait for all, then raise what went wrong."""
        futures = [self._threads.submit(act, toxic) for toxic in toxics]
        wait(futures)
        return [future.result() for future in futures]

    def _add(self, toxic: Toxic) -> bool:
        with self._asking(f"add {toxic.type} to {toxic.proxy}"):
            _proxy(toxic.proxy).add_toxic(type=toxic.type, name=toxic.name, attributes=dict(toxic.attributes))
        return True

    def _remove(self, toxic: Toxic) -> bool:
        with self._asking(f"remove {toxic.type} from {toxic.proxy}"):
            try:
                _proxy(toxic.proxy).destroy_toxic(toxic.name)
            except NotFound:
                return False
        return True

    def toxics(self) -> dict[str, dict[str, str]]:
        """For every proxy: its toxics' names and types."""
        with self._asking("list toxics"):
            # The library's proxies() leaves out the toxics, and would need a request for each proxy.
            proxies: dict[str, Any] = _Consumer.get("/proxies").json()
        return {name: {toxic["name"]: toxic["type"] for toxic in proxy["toxics"]} for name, proxy in proxies.items()}

    def disabled(self) -> list[str]:
        """The proxies that do not listen; we never disable one, so somebody else did."""
        with self._asking("list proxies"):
            return sorted(name for name, proxy in self._api.proxies().items() if not proxy.enabled)

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        """Make the library ask this server, and its errors ours."""
        token = _client.set(self._http)
        try:
            yield
        except httpx.TransportError as error:
            raise TrafficError(
                f"Toxiproxy did not answer ({what}): {error!r}{self._obituary()}",
                remedy="the lanes are unusable now; start the world again",
            ) from error
        except (httpx.HTTPStatusError, ValueError, ProxyExists, NotFound, InvalidToxic) as error:
            raise TrafficError(f"Toxiproxy refused ({what}): {error}", remedy=f"its log: {self.process.log}") from error
        finally:
            _client.reset(token)

    def _obituary(self) -> str:
        if self.process.alive():
            return ""
        return f"; its process {self.process.pid} has ended, the end of its log:\n{self.process.log_tail()}"


def _proxy(name: str) -> Any:
    """The library's handle of a proxy, without asking the server for it first."""
    return toxiproxy.proxy.Proxy(name=name, upstream="", enabled=True, listen="")


@contextmanager
def toxiproxy_server(run: Run, executable: Path) -> Iterator[Toxiproxy]:
    """A toxiproxy-server on loopback for as long as the context lasts.

    Raises:
        ProcessExited, NotReady: it did not come up.
    """
    port = run.port()
    argv: list[str | Path] = [executable, "-host", "127.0.0.1", "-port", str(port)]
    with child(run, f"toxiproxy-{port}", argv, env={"LOG_LEVEL": "warn"}) as process:
        server = Toxiproxy(process, port)
        try:
            await_ready(process, _answers(server), within=15.0, what="Toxiproxy answers")
            yield server
        finally:
            server.close()


def _answers(server: Toxiproxy) -> Callable[[], bool]:
    def probe() -> bool:
        try:
            server.toxics()
        except TrafficError:
            return False
        return True

    return probe
