"""A client of the lanes, over HTTP/2 as client-go is: everything shares one connection."""

from __future__ import annotations

import ssl
import threading
from typing import Any

import httpx

from holdback.clock import poll
from holdback.clusters.access import Access

PATIENCE = 40.0
"""Seconds for what comes at once on a free machine."""


def client(access: Access) -> httpx.Client:
    """A client with that access."""
    return httpx.Client(**_settings(access))


def async_client(access: Access) -> httpx.AsyncClient:
    """The same for a watch and requests beside it on one connection, where httpx's threads starve each other."""
    return httpx.AsyncClient(**_settings(access))


def _settings(access: Access) -> dict[str, Any]:
    return {
        "base_url": access.server,
        "verify": ssl.create_default_context(cadata=access.ca),
        "headers": {"Authorization": f"Bearer {access.token}"} if access.token else {},
        "http2": True,
        "timeout": PATIENCE,
        "trust_env": False,
    }


class Watch:
    """Reads one watch in a thread of its own until it ends."""

    def __init__(self, via: httpx.Client, path: str) -> None:
        self.lines: list[str] = []
        self.error: Exception | None = None
        self._open = threading.Event()
        self._ended = threading.Event()
        threading.Thread(target=self._read, args=(via, path), daemon=True).start()

    def _read(self, via: httpx.Client, path: str) -> None:
        try:
            with via.stream("GET", path, timeout=None) as response:
                self._open.set()
                for line in response.iter_lines():
                    self.lines.append(line)
        except httpx.HTTPError as error:
            self.error = error
        finally:
            self._ended.set()

    def opened(self, within: float = PATIENCE) -> bool:
        """Whether it got its answer's head in time."""
        return self._open.wait(within)

    def ended(self, within: float) -> bool:
        """Whether it ended in time."""
        return self._ended.wait(within)

    def has(self, count: int) -> bool:
        """Whether that many lines arrived before patience ended."""
        return poll(lambda: len(self.lines) >= count, within=PATIENCE, every=0.005) is not None
