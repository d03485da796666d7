"""The network of a world: every link through the router and its lanes, and the ways to make it worse.

A fault says what; only this module says how. Every way is a toxic with a name of its own on each of its lanes,
so faults on the same lane add up and each takes away only itself:

- **delay**: Toxiproxy's `latency` on what the cluster sends back, or on what it is sent.
- **hold**: the same with an hour; taking it off lets everything through, in order and complete.
- **cut**: Toxiproxy's `timeout` of a millisecond in both directions, which lets nothing more pass and closes open
  connections and new ones. Not `reset_peer`, which waits for traffic and so spares a silent watch, and not a
  disabled proxy, whose port others could take.

A fault that is over is asked for: it counts as healed only when Toxiproxy no longer lists its toxics.
"""

from __future__ import annotations

import itertools
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from holdback.binaries import Binaries
from holdback.certificates import Authority
from holdback.clusters.access import Access
from holdback.errors import ConfigurationError, FaultError, HoldbackError, TrafficError
from holdback.process import Child, Run
from holdback.traffic.inforce import InForce
from holdback.traffic.lanes import Lane, Link, Side
from holdback.traffic.router import Entrance, router
from holdback.traffic.toxiproxy import Toxic, Toxiproxy, toxiproxy_server

__all__ = ["Network", "network"]

LEASE = 120.0
"""Seconds after which a fault that nobody ended is ended by the network itself."""
_HOUR = 3_600_000
_STREAMS: Mapping[Side, Literal["downstream", "upstream"]] = {"answers": "downstream", "requests": "upstream"}
_RESTART = "the lanes are unusable now: start the world again"


class Network:
    """The links of a world, in order or not. Built by `network`."""

    def __init__(
        self,
        entrances: Mapping[Link, Entrance],
        proxies: Mapping[Lane, str],
        *,
        toxiproxy: Toxiproxy,
        caddy: Child,
        ca: str,
        access_log: Path,
    ) -> None:
        self.links = tuple(entrances)
        self.access_log = access_log
        self._entrances = dict(entrances)
        self._proxies = dict(proxies)
        self._toxiproxy = toxiproxy
        self._caddy = caddy
        self._ca = ca
        self._numbers = itertools.count(1)

    def access(self, link: Link, token: str) -> Access:
        """What the link's client needs for its kubeconfig, with its own bearer token."""
        return Access(server=f"https://127.0.0.1:{self._entrances[link].port}", ca=self._ca, token=token)

    def delay(
        self,
        lanes: Sequence[Lane],
        milliseconds: float,
        jitter: float = 0,
        *,
        of: Side = "answers",
        lease: float = LEASE,
    ) -> AbstractContextManager[None]:
        """Everything the clusters send back on these lanes, or are sent, arrives that much later.

        A new connection waits twice, once for its TLS handshake. Jitter is drawn by Toxiproxy, whose randomness
        takes no seed: with it, two trials of one seed are not the same.

        Raises:
            ConfigurationError: no whole number of milliseconds, which is all that Toxiproxy can do.
            FaultError, TrafficError: as for `hold`.
        """
        for value in (milliseconds, jitter):
            if value < 0 or value != int(value):
                raise ConfigurationError(f"a delay of {value} ms", remedy="give whole milliseconds, 0 or more")
        attributes = {"latency": int(milliseconds), "jitter": int(jitter)}
        return self._late(f"delay of {milliseconds:g} ms", lanes, lease, attributes, of)

    def hold(
        self, lanes: Sequence[Lane], *, of: Side = "answers", lease: float = LEASE
    ) -> AbstractContextManager[None]:
        """Nothing the clusters send on these lanes, or are sent, arrives until the end; then all does, in order.

        `lease` is the longest it may last, in seconds.

        Raises:
            FaultError: an unknown lane; or at the end: not verified gone, or ended before by its lease or by
                somebody else.
            TrafficError: Toxiproxy is gone.
        """
        return self._late("hold", lanes, lease, {"latency": _HOUR, "jitter": 0}, of)

    def cut(self, lanes: Sequence[Lane], *, lease: float = LEASE) -> AbstractContextManager[None]:
        """Open connections of these lanes are closed, and new ones too, until the end.

        The client sees a stream that breaks off, or a request without an answer. Raises as `hold` does.
        """

        def toxics(proxy: str, name: str) -> list[Toxic]:
            # Upstream too: on a connection kept open, a request could still pass before it is closed.
            return [
                Toxic(proxy, f"{name}-requests", "timeout", {"timeout": 1}, stream="upstream"),
                Toxic(proxy, f"{name}-answers", "timeout", {"timeout": 1}),
            ]

        return self._fault("cut", lanes, lease, toxics)

    def residue(self) -> list[str]:
        """What is in force now, as Toxiproxy tells it; empty for a network in order."""
        names = {proxy: lane.name for lane, proxy in self._proxies.items()}
        toxics = self._toxiproxy.toxics()
        lost = [f"{lane}: its proxy is gone" for proxy, lane in names.items() if proxy not in toxics]
        disabled = [f"{names.get(proxy, proxy)}: disabled" for proxy in self._toxiproxy.disabled()]
        found = [f"{names.get(proxy, proxy)}: {name}" for proxy, present in toxics.items() for name in present]
        return sorted([*lost, *disabled, *found])

    def check(self) -> None:
        """Prove that router and Toxiproxy are the ones we started and that they answer.

        Raises:
            TrafficError: one of them is dead, was restarted by somebody else, or does not answer.
        """
        for process in (self._caddy, self._toxiproxy.process):
            try:
                process.check()
            except HoldbackError as error:
                raise TrafficError(error.message, remedy=_RESTART) from error
        if missing := set(self._proxies.values()) - self._toxiproxy.toxics().keys():
            raise TrafficError(
                f"Toxiproxy lost {len(missing)} of its lanes", remedy="it was meddled with; start the world again"
            )
        self._ask_router()

    def _ask_router(self) -> None:
        """A TLS handshake with one entrance: a paused Caddy accepts connections, but does not shake hands."""
        port = next(iter(self._entrances.values())).port
        context = ssl.create_default_context(cadata=self._ca)
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5.0) as plain:
                context.wrap_socket(plain, server_hostname="127.0.0.1").close()
        except OSError as error:
            raise TrafficError(f"the router does not answer: {error}", remedy=f"its log: {self._caddy.log}") from error

    def _late(
        self, what: str, lanes: Sequence[Lane], lease: float, attributes: Mapping[str, int], of: Side
    ) -> AbstractContextManager[None]:
        def toxics(proxy: str, name: str) -> list[Toxic]:
            return [Toxic(proxy, name, "latency", attributes, _STREAMS[of])]

        return self._fault(what, lanes, lease, toxics)

    @contextmanager
    def _fault(
        self, what: str, lanes: Sequence[Lane], lease: float, toxics: Callable[[str, str], Sequence[Toxic]]
    ) -> Iterator[None]:
        """`toxics`, given a proxy and a name that no other fault has, on every lane within the block."""
        lanes = tuple(dict.fromkeys(lanes))
        if strangers := [lane.name for lane in lanes if lane not in self._proxies]:
            raise FaultError(
                f"no such lane: {', '.join(strangers)}",
                remedy="take links and lanes from the world as they are; "
                f"it has {', '.join(lane.name for lane in self._proxies)}",
            )
        if not lanes:
            raise FaultError(f"a {what} on no lane at all", remedy="name at least one lane")
        name = f"{what.partition(' ')[0]}-{next(self._numbers)}"
        made = [toxic for lane in lanes for toxic in toxics(self._proxies[lane], name)]
        fault = InForce(f"{what} on {', '.join(lane.name for lane in lanes)}", made, self._toxiproxy, lease)
        fault.start()
        try:
            yield
        except Exception:
            fault.end()  # if this fails, it is the graver news; the other error stays its context
            raise
        except BaseException as interrupt:
            try:
                fault.end()
            except HoldbackError as failure:
                interrupt.add_note(str(failure))  # Ctrl-C stays Ctrl-C
            raise
        fault.end()


@contextmanager
def network(run: Run, binaries: Binaries, links: Mapping[Link, Access]) -> Iterator[Network]:
    """The links through a router and a Toxiproxy of their own, for as long as the context lasts.

    The access of a link is the direct way to its cluster; only its server and its authority are used.

    Raises:
        ConfigurationError: a server's address that cannot be routed to.
        TrafficError, ProcessExited, NotReady: router or Toxiproxy did not come up.
    """
    executables = binaries.get("toxiproxy-server", "caddy")
    authority = Authority.create("holdback-router")
    with ExitStack() as stack:
        toxiproxy = stack.enter_context(toxiproxy_server(run, executables["toxiproxy-server"]))
        proxies = {lane: f"{index}-{_slug(lane.name)}" for index, lane in enumerate(_lanes(links))}
        entrances = {link: _entrance(run, toxiproxy, proxies, link, access) for link, access in links.items()}
        # Toxiproxy's port tells the files of one run's networks apart.
        number = toxiproxy.process.name.rpartition("-")[2]
        log = run.logs / f"router-access-{number}.log"
        certificate, key = authority.issue("holdback-router").write(run.directory, f"router-{number}")
        caddy = stack.enter_context(
            router(run, executables["caddy"], list(entrances.values()), certificate=certificate, key=key, log=log)
        )
        yield Network(entrances, proxies, toxiproxy=toxiproxy, caddy=caddy, ca=authority.pem, access_log=log)


def _lanes(links: Iterable[Link]) -> list[Lane]:
    return [lane for link in links for lane in link.lanes]


def _slug(name: str) -> str:
    """A name that can stand in a URL as it is, because toxiproxy-python puts it there as it is."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name)


def _entrance(run: Run, toxiproxy: Toxiproxy, proxies: Mapping[Lane, str], link: Link, access: Access) -> Entrance:
    """The link's way in, with a proxy for each of its lanes."""
    address = urlsplit(access.server)
    if address.scheme != "https" or not address.hostname or address.path.strip("/"):
        raise ConfigurationError(
            f"the API server of {link.name} is {access.server}",
            remedy="an address like https://HOST:PORT can be routed to",
        )
    host = f"[{address.hostname}]" if ":" in address.hostname else address.hostname
    upstream = f"{host}:{address.port or 443}"
    upstreams = {lane: toxiproxy.create(proxies[lane], upstream) for lane in link.lanes}
    return Entrance(link=link, port=run.port(), upstreams=upstreams, host=address.hostname, ca=access.ca)
