"""The network of a world: every link through the router and its lanes, and the ways to make it worse.

A fault says what; only this module says how. Every way is a toxic with a name of its own on each of its lanes,
so faults on the same lane add up and each takes away only itself. A hold must come last: Toxiproxy lets a piece of what
it holds slip through when a toxic is put behind it, so that is refused.

- **delay**: Toxiproxy's `latency` on what the cluster sends back, or on what it is sent.
- **hold**: the same with an hour; taking it off lets everything through, in order and complete.
- **cut**: the proxies are disabled, which closes open connections, with whatever is held on them, and refuses new ones.
  Not a toxic: `reset_peer` waits for traffic and so spares a silent watch, and a connection that `timeout` has closed
  can block Toxiproxy for good when a toxic in front of it is taken off.
- **slow**: Toxiproxy's `bandwidth`.
- **answer**: the router's own answers (`holdback.traffic.answers`); Toxiproxy has no part in them.
- **unobserved**: Toxiproxy's `timeout` without an end, which drops what it gets and closes the connections when it is
  taken off; then 410 for the watches that were closed.
- **travel**: the lanes' proxies lead to the cluster's second API server.

A fault that is over is asked for: it counts as healed only when Toxiproxy no longer lists its toxics, or the router no
longer sees its answers.
"""

from __future__ import annotations

import itertools
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from holdback.binaries import Binaries
from holdback.certificates import Authority
from holdback.clock import poll
from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.protocols import LOOPBACK
from holdback.errors import ConfigurationError, FaultError, HoldbackError, TrafficError
from holdback.process import Child, Run
from holdback.traffic.answers import Answered, Expired, Reply, Times
from holdback.traffic.effects import Closed, Detour, Toxics
from holdback.traffic.inforce import UNOWNED, Lease, in_force
from holdback.traffic.lanes import Lane, Link, Pipe, Side
from holdback.traffic.listening import connections
from holdback.traffic.router import Entrance, Router, router
from holdback.traffic.toxiproxy import Toxic, Toxiproxy, toxiproxy_server
from holdback.wording import counted

__all__ = ["Network", "network"]

_HOUR = 3_600_000
_BACK_WITHIN = 30.0
"""Seconds that a watch which broke off has to come back; client-go waits one or two."""
_STREAMS: Mapping[Side, Literal["downstream", "upstream"]] = {"answers": "downstream", "requests": "upstream"}
_RESTART = "the lanes are unusable now: start the world again"


class Network:
    """The links of a world, in order or not. Built by `network`."""

    def __init__(
        self,
        entrances: Mapping[Link, Entrance],
        directly: Mapping[Link, Access],
        *,
        toxiproxy: Toxiproxy,
        router: Router,
        ca: str,
        access_log: Path,
    ) -> None:
        self.links = tuple(entrances)
        self.access_log = access_log
        self._entrances = dict(entrances)
        self._directly = dict(directly)
        self._proxies = {lane: name for entrance in entrances.values() for lane, name in entrance.proxies.items()}
        self._ports = {lane: port for entrance in entrances.values() for lane, port in entrance.upstreams.items()}
        self._toxiproxy = toxiproxy
        self._router = router
        self._ca = ca
        self._numbers = itertools.count(1)
        self._home = toxiproxy.upstreams()
        self._seconds: dict[str, str] = {}
        self._held: set[tuple[str, str]] = set()
        self._holding = threading.Lock()

    @property
    def processes(self) -> tuple[Child, Child]:
        """The router and Toxiproxy."""
        return self._router.process, self._toxiproxy.process

    def access(self, link: Link, token: str) -> Access:
        """What the link's client needs for its kubeconfig, with its own bearer token; the router refuses all others.

        Raises:
            ConfigurationError: no such token can be.
        """
        if token:
            self._router.admit(token)
        entrance = self._entrances[link]
        return Access(server=f"https://{entrance.address}:{entrance.port}", ca=self._ca, token=token)

    def pipe(self, pipe: Pipe, upstream: str) -> int:
        """Make a pipe to `upstream` (host:port); gives the loopback port where it begins.

        Raises:
            TrafficError: Toxiproxy is gone or refuses.
        """
        (lane,) = pipe.lanes
        name = f"pipe-{_slug(lane.name)}"
        port = self._toxiproxy.create(name, upstream)
        self._proxies[lane], self._ports[lane], self._home[name] = name, port, upstream
        return port

    def second(self, cluster: str, access: Access) -> None:
        """Name a second API server of a cluster, for `travel`; its certificate must be good where the first's is."""
        self._seconds[cluster] = _upstream(access.server)

    def delay(
        self,
        lanes: Sequence[Lane],
        milliseconds: float,
        jitter: float = 0,
        *,
        of: Side = "answers",
        lease: Lease = UNOWNED,
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
        what = f"delay of {milliseconds:g} ms"
        return self._single(what, lanes, lease, of, kind="latency", attributes=attributes)

    @contextmanager
    def hold(self, lanes: Sequence[Lane], *, of: Side = "answers", lease: Lease = UNOWNED) -> Iterator[None]:
        """Nothing the clusters send on these lanes, or are sent, arrives until the end; then all does, in order.

        `lease` says whose it is and how long it may last at most.

        Raises:
            FaultError: an unknown lane; or at the end: not verified gone, or ended before by its lease or by
                somebody else.
            TrafficError: Toxiproxy is gone.
        """
        stream = _STREAMS[of]
        chosen, toxics = self._toxics(
            "hold", lanes, lease, lambda proxy, name: Toxic(proxy, name, "latency", {"latency": _HOUR}, stream)
        )
        with self._last("hold", toxics), in_force(f"hold on {_names(chosen)}", Toxics(self._toxiproxy, toxics), lease):
            yield

    def cut(self, lanes: Sequence[Lane], *, lease: Lease = UNOWNED) -> AbstractContextManager[None]:
        """Open connections of these lanes are closed, and new ones refused until the end.

        The client sees a stream that breaks off, or a request without an answer. Raises as `hold` does.
        """
        chosen = self._chosen("cut", lanes)
        effect = Closed(self._toxiproxy, [self._proxies[lane] for lane in chosen])
        return in_force(f"cut on {_names(chosen)}", effect, lease)

    def slow(
        self, lanes: Sequence[Lane], kilobytes_per_second: int, *, of: Side = "answers", lease: Lease = UNOWNED
    ) -> AbstractContextManager[None]:
        """Each connection of these lanes gets no more than that through. Raises as `hold` does."""
        what, attributes = f"slowness of {kilobytes_per_second} kB/s", {"rate": kilobytes_per_second}
        return self._single(what, lanes, lease, of, kind="bandwidth", attributes=attributes)

    def toxic(
        self,
        lanes: Sequence[Lane],
        kind: str,
        attributes: Mapping[str, int],
        *,
        of: Side = "answers",
        lease: Lease = UNOWNED,
    ) -> AbstractContextManager[None]:
        """Any toxic that Toxiproxy knows, which refuses all others. Raises as `hold` does."""
        return self._single(f"{kind} toxic", lanes, lease, of, kind=kind, attributes=attributes)

    @contextmanager
    def answer(
        self,
        lanes: Sequence[Lane],
        status: int,
        *,
        times: int | None = None,
        retry_after: int | None = None,
        lease: Lease = UNOWNED,
    ) -> Iterator[None]:
        """The router answers the lanes' requests with this HTTP status, all of them or so many.

        Raises:
            FaultError: as for `hold`; and at the end: fewer than `times` were answered, or none at all.
            TrafficError: the router is gone.
        """
        what = f"answer {status} on {_names(lanes)}"
        rule = Times(Reply(status, retry_after), times)
        with in_force(what, Answered(self._router.answers, self._answerable(lanes), rule), lease):
            yield
        if rule.given < (wanted := times or 1):
            raise FaultError(
                f"{what}: only {rule.given} of {counted(wanted, 'request')} came that it could answer",
                remedy="keep it in force until the client has asked, or aim it at another lane",
            )

    @contextmanager
    def unobserved(self, lanes: Sequence[Lane], *, lease: Lease = UNOWNED) -> Iterator[None]:
        """What happens within the block is never seen by the watches of these lanes, only what has become of it.

        At the end they break off; what was held for them is lost, and going on from where they were is refused until
        each has tried, so that their clients list anew.

        Raises:
            FaultError: as for `hold`; and at the end: a watch that broke off did not come back, or there was none.
            ClusterError: the cluster does not say how far it is.
        """
        if others := [lane for lane in self._chosen("unobserved span", lanes) if not lane.is_watch]:
            raise FaultError(
                f"no watch goes through {_names(others)}", remedy="take `link.watch(...)` or `link.watches`"
            )
        with ExitStack() as after, self.toxic(lanes, "timeout", {"timeout": 0}, lease=lease):
            yield
            after.enter_context(self._expired(lanes, lease))

    def travel(self, lanes: Sequence[Lane], *, lease: Lease = UNOWNED) -> AbstractContextManager[None]:
        """These lanes lead to the second API server of their cluster; open connections end at both changes.

        Raises:
            FaultError: as for `hold`; or the cluster has no second API server.
            TrafficError: Toxiproxy is gone or refuses.
        """
        chosen = self._chosen("time travel", lanes)
        if alone := {lane.link.cluster for lane in chosen} - self._seconds.keys():
            raise FaultError(
                f"no second API server of {', '.join(sorted(alone))}",
                remedy="start one with `holdback.traffic.second.second_server`",
            )
        away = {self._proxies[lane]: self._seconds[lane.link.cluster] for lane in chosen}
        home = {proxy: self._home[proxy] for proxy in away}
        return in_force(f"time travel of {_names(chosen)}", Detour(self._toxiproxy, home, away), lease)

    def residue(self) -> list[str]:
        """What is in force now, as Toxiproxy and the router tell it; empty for a network in order."""
        names = {proxy: lane.name for lane, proxy in self._proxies.items()}
        toxics = self._toxiproxy.toxics()
        lost = [f"{lane}: its proxy is gone" for proxy, lane in names.items() if proxy not in toxics]
        disabled = [f"{names.get(proxy, proxy)}: disabled" for proxy in self._toxiproxy.disabled()]
        found = [f"{names.get(proxy, proxy)}: {name}" for proxy, present in toxics.items() for name in present]
        upstreams = self._toxiproxy.upstreams()
        away = [f"{lane}: leads elsewhere" for proxy, lane in names.items() if self._astray(proxy, upstreams)]
        answered = [f"{names[proxy]}: answered" for proxy in self._router.answers.in_force(list(names))]
        return sorted([*lost, *disabled, *found, *away, *answered])

    def _astray(self, proxy: str, upstreams: Mapping[str, str]) -> bool:
        return proxy in upstreams and upstreams[proxy] != self._home[proxy]

    def check(self) -> None:
        """Prove that router and Toxiproxy are the ones we started and that they answer.

        Raises:
            TrafficError: one of them is dead, was restarted by somebody else, or does not answer.
        """
        for process in self.processes:
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
        entrance = next(iter(self._entrances.values()))
        context = ssl.create_default_context(cadata=self._ca)
        try:
            with socket.create_connection((entrance.address, entrance.port), timeout=5.0) as plain:
                context.wrap_socket(plain, server_hostname=entrance.address).close()
        except OSError as error:
            raise TrafficError(
                f"the router does not answer: {error}", remedy=f"its log: {self._router.process.log}"
            ) from error

    @contextmanager
    def _single(
        self,
        what: str,
        lanes: Sequence[Lane],
        lease: Lease,
        of: Side,
        *,
        kind: str,
        attributes: Mapping[str, int],
    ) -> Iterator[None]:
        stream = _STREAMS[of]
        chosen, toxics = self._toxics(
            what, lanes, lease, lambda proxy, name: Toxic(proxy, name, kind, attributes, stream)
        )
        self._refuse_behind_a_hold(what, toxics)
        with in_force(f"{what} on {_names(chosen)}", Toxics(self._toxiproxy, toxics), lease):
            self._refuse_behind_a_hold(what, toxics)  # a hold may have begun meanwhile: which was first?
            yield

    def _toxics(
        self, what: str, lanes: Sequence[Lane], lease: Lease, toxic: Callable[[str, str], Toxic]
    ) -> tuple[tuple[Lane, ...], list[Toxic]]:
        """The lanes, and `toxic` for each, given a proxy and a name that no other fault has, with its owner."""
        chosen = self._chosen(what, lanes)
        owner = f"-of-{_slug(lease.owner)}" if lease.owner else ""
        name = f"{_slug(what.partition(' ')[0])}-{next(self._numbers)}{owner}"
        return chosen, [toxic(self._proxies[lane], name) for lane in chosen]

    @contextmanager
    def _last(self, what: str, toxics: Sequence[Toxic]) -> Iterator[None]:
        """Within the block nothing is put behind these toxics."""
        streams = {(toxic.proxy, toxic.stream) for toxic in toxics}
        with self._holding:
            self._refuse_behind_a_hold(what, toxics)
            self._held |= streams
        try:
            yield
        finally:
            with self._holding:
                self._held -= streams

    def _refuse_behind_a_hold(self, what: str, toxics: Sequence[Toxic]) -> None:
        lanes = {proxy: lane for lane, proxy in self._proxies.items()}
        if held := [lanes[toxic.proxy] for toxic in toxics if (toxic.proxy, toxic.stream) in self._held]:
            raise FaultError(
                f"a {what} on what is held already: {_names(held)}",
                remedy="begin it before the hold or after it; a held lane can only be cut",
            )

    def _chosen(self, what: str, lanes: Sequence[Lane]) -> tuple[Lane, ...]:
        """Each of these lanes once; refuses those that are not ours, and none at all."""
        if strangers := [lane for lane in lanes if lane not in self._proxies]:
            raise FaultError(
                f"no such lane: {_names(strangers)}",
                remedy=f"take links and lanes from the world as they are; it has {_names(tuple(self._proxies))}",
            )
        if not lanes:
            raise FaultError(f"a {what} on no lane at all", remedy="name at least one lane")
        return tuple(dict.fromkeys(lanes))

    def _answerable(self, lanes: Sequence[Lane]) -> list[str]:
        chosen = self._chosen("answer", lanes)
        if pipes := [lane for lane in chosen if isinstance(lane.link, Pipe)]:
            raise FaultError(
                f"the router answers no requests of {_names(pipes)}: it is not in the way",
                remedy="a pipe can be delayed, held, slowed and cut",
            )
        return [self._proxies[lane] for lane in chosen]

    @contextmanager
    def _expired(self, lanes: Sequence[Lane], lease: Lease) -> Iterator[None]:
        """Watches from before are refused from now on, until each that is open now has been."""
        what = f"expiry on {_names(lanes)}"
        broken = sum(connections(self._toxiproxy.process, self._ports[lane]) for lane in lanes)
        if not broken:
            raise FaultError(f"{what}: no watch is open there", remedy="aim at the lane of a watch that the client has")
        # Links to one cluster share its revisions.
        direct = {lane.link.cluster: self._directly[lane.link] for lane in lanes if isinstance(lane.link, Link)}
        rules = {cluster: Expired(_revision(access)) for cluster, access in direct.items()}
        with ExitStack() as stack:
            for lane in lanes:
                effect = Answered(self._router.answers, [self._proxies[lane]], rules[lane.link.cluster])
                stack.enter_context(in_force(what, effect, lease))
            yield
            if not poll(lambda: sum(rule.back for rule in rules.values()) >= broken, within=_BACK_WITHIN, every=0.01):
                back = sum(rule.back for rule in rules.values())
                raise FaultError(
                    f"{what}: {back} of {counted(broken, 'watch', 'watches')} came back within {_BACK_WITHIN:g} s",
                    remedy="see whether the client is alive and watches what the lane carries",
                )


@contextmanager
def network(
    run: Run, binaries: Binaries, links: Mapping[Link, Access], *, address: str = LOOPBACK
) -> Iterator[Network]:
    """The links through a router and a Toxiproxy of their own, for as long as the context lasts.

    The router listens on this machine's IPv4 address `address`, where the clients must reach it; all else is on
    loopback.

    The access of a link is the direct way to its cluster. Its token is used by `Network.unobserved` alone, to ask how
    far the cluster's data has come.

    Raises:
        ConfigurationError: a server's address that cannot be routed to.
        TrafficError, ProcessExited, NotReady: router or Toxiproxy did not come up.
    """
    executables = binaries.get("toxiproxy-server", "caddy")
    authority = Authority.create("holdback-router")
    with ExitStack() as stack:
        toxiproxy = stack.enter_context(toxiproxy_server(run, executables["toxiproxy-server"]))
        proxies = {lane: f"{index}-{_slug(lane.name)}" for index, lane in enumerate(_lanes(links))}
        entrances = {
            link: _entrance(run, toxiproxy, proxies, link, access, address=address) for link, access in links.items()
        }
        # Toxiproxy's port tells the files of one run's networks apart.
        number = toxiproxy.port
        log = run.logs / f"router-access-{number}.log"
        certificate, key = authority.issue("holdback-router", ips=[address]).write(run.directory, f"router-{number}")
        caddy = stack.enter_context(
            router(run, executables["caddy"], list(entrances.values()), certificate=certificate, key=key, log=log)
        )
        yield Network(entrances, links, toxiproxy=toxiproxy, router=caddy, ca=authority.pem, access_log=log)


def _revision(access: Access) -> int:
    api = Api(access)
    try:
        return api.revision()
    finally:
        api.close()


def _names(lanes: Sequence[Lane]) -> str:
    return ", ".join(lane.name for lane in lanes)


def _lanes(links: Iterable[Link]) -> list[Lane]:
    return [lane for link in links for lane in link.lanes]


def _slug(name: str) -> str:
    """A name that can stand in a URL as it is, because toxiproxy-python puts it there as it is."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name)


def _entrance(
    run: Run, toxiproxy: Toxiproxy, proxies: Mapping[Lane, str], link: Link, access: Access, *, address: str
) -> Entrance:
    """The link's way in, with a proxy for each of its lanes."""
    server = urlsplit(access.server)
    if server.scheme != "https" or not server.hostname or server.path.strip("/"):
        raise ConfigurationError(
            f"the API server of {link.name} is {access.server}",
            remedy="an address like https://HOST:PORT can be routed to",
        )
    upstream = _upstream(access.server)
    return Entrance(
        link=link,
        port=run.port(),
        upstreams={lane: toxiproxy.create(proxies[lane], upstream) for lane in link.lanes},
        proxies={lane: proxies[lane] for lane in link.lanes},
        host=server.hostname,
        ca=access.ca,
        address=address,
    )


def _upstream(server: str) -> str:
    """A server's URL as Toxiproxy wants it."""
    address = urlsplit(server)
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname
    return f"{host}:{address.port or 443}"
