"""Fits what is large into a page: compressed, as text, and no more than the page may hold."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

__all__ = ["Parcels", "pack"]

_TOGETHER = 16
"""Trials in one parcel: alike as they are, they compress much better than alone, and still open at once."""


def pack(text: str) -> str:
    """Text as gzip in base64, which the page's script undoes; the same text always gives the same."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


class Parcels:
    """Trials in parcels of a few, up to a size; trials beyond it are named in `left_out`."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._open: dict[str, Any] = {}
        self._sealed: list[str] = []
        self.place: dict[str, int] = {}
        self.left_out: list[str] = []

    def add(self, trial: str, data: Any) -> None:
        """Pack a trial's data, if there is room."""
        if self._room <= 0:
            self.left_out.append(trial)
            return
        self.place[trial] = len(self._sealed)
        self._open[trial] = data
        if len(self._open) == _TOGETHER:
            self._seal()

    def __iter__(self) -> Iterator[str]:
        """The parcels, in the order of the indices in `place`."""
        if self._open:
            self._seal()
        return iter(self._sealed)

    def _seal(self) -> None:
        parcel = pack(json.dumps(self._open, separators=(",", ":")))
        self._room -= len(parcel)
        self._sealed.append(parcel)
        self._open = {}
