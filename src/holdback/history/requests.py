"""From the router's access log to requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO, cast
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
    """Reads a log that is being written, from its start; a line that is not finished yet waits for its rest.

    The file stays open from when it is there until `close`, for it is looked at hundreds of times a second.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial = b""

    def read(self) -> list[Request]:
        """What was added since the last time."""
        if self._file is None:
            try:
                self._file = cast(BinaryIO, self._path.open("rb", buffering=0))
            except FileNotFoundError:
                return []  # the router makes it with the first request
        new = self._file.read()
        if not new:
            return []
        *lines, self._partial = (self._partial + new).split(b"\n")
        return [request for line in lines if (request := parse(line)) is not None]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
