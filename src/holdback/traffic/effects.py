"""What Toxiproxy can do to lanes, as effects: toxics on them, no way in, and another upstream behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdback.traffic.toxiproxy import Toxic, Toxiproxy

__all__ = ["Closed", "Detour", "Toxics"]


@dataclass(frozen=True, slots=True)
class Toxics:
    """Toxics that come and go together."""

    toxiproxy: Toxiproxy
    toxics: Sequence[Toxic]

    def begin(self) -> None:
        self.toxiproxy.add(self.toxics)

    def undo(self) -> Sequence[str]:
        return [toxic.proxy for toxic in self.toxiproxy.remove(self.toxics)]

    def left(self) -> Sequence[str]:
        found = self.toxiproxy.toxics()
        return [toxic.proxy for toxic in self.toxics if toxic.name in found.get(toxic.proxy, {})]


@dataclass(frozen=True, slots=True)
class Closed:
    """Proxies that take no connection and have none."""

    toxiproxy: Toxiproxy
    proxies: Sequence[str]

    def begin(self) -> None:
        self.toxiproxy.close(self.proxies)

    def undo(self) -> Sequence[str]:
        return self.toxiproxy.open(self.proxies)

    def left(self) -> Sequence[str]:
        return self.toxiproxy.left_closed(self.proxies)


@dataclass(frozen=True, slots=True)
class Detour:
    """Proxies that lead elsewhere; their open connections end when that begins, and again when it is over.

    `home` is where each of them leads else, `away` where it leads meanwhile; both host:port, by the proxy's name.
    """

    toxiproxy: Toxiproxy
    home: Mapping[str, str]
    away: Mapping[str, str]

    def begin(self) -> None:
        self.toxiproxy.lead(self.away)

    def undo(self) -> Sequence[str]:
        lost = [proxy for proxy, upstream in self._upstreams().items() if upstream != self.away[proxy]]
        self.toxiproxy.lead(self.home)
        return lost

    def left(self) -> Sequence[str]:
        return [proxy for proxy, upstream in self._upstreams().items() if upstream != self.home[proxy]]

    def _upstreams(self) -> dict[str, str]:
        found = self.toxiproxy.upstreams()
        return {proxy: found.get(proxy, "") for proxy in self.home}
