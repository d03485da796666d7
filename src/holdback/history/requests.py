"""From the router's access log to requests."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from holdback.clusters.api import OWN_AGENT
from holdback.history.events import Request

__all__ = ["OWN_AGENT", "AccessLog", "parse"]


def parse(line: bytes) -> Request | None:
    """The request that a line of the access log tells of; None for a damaged line, another message, our own request."""
    try:
        data = json.loads(line)
        address = urlsplit(data["request"]["uri"])
        if str(data.get("agent", "")).startswith(OWN_AGENT):
            return None
        return Request(
            at=float(data["ts"]),
            client=str(data["client"]),
            cluster=str(data["cluster"]),
            method=str(data["request"]["method"]),
            path=address.path,
            status=int(data["status"]),
            seconds=float(data["duration"]),
            watch=parse_qs(address.query).get("watch", [""])[-1] in {"true", "1"},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class AccessLog:
    """Reads a log that is being written, from its start; a line that is not finished yet waits for its rest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._partial = b""

    def read(self) -> list[Request]:
        """What was added since the last time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except FileNotFoundError:
            return []  # the router makes it with the first request
        self._offset += len(new)
        *lines, self._partial = (self._partial + new).split(b"\n")
        return [request for line in lines if (request := parse(line)) is not None]
