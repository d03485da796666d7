"""A fault in force: the toxics that make it, and the proof that they are gone afterwards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence

from holdback.errors import FaultError, HoldbackError
from holdback.traffic.toxiproxy import Toxic, Toxiproxy

__all__ = ["InForce"]


class InForce:
    """One fault, ended once: by whoever started it or, when that takes too long, by its lease (seconds)."""

    def __init__(self, what: str, toxics: Sequence[Toxic], toxiproxy: Toxiproxy, lease: float) -> None:
        self._what = what
        self._toxics = toxics
        self._toxiproxy = toxiproxy
        self._lease = lease
        self._timer = threading.Timer(lease, self._expire)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._expired = False

    def start(self) -> None:
        """Bring every toxic into force, or none.

        Raises:
            TrafficError: Toxiproxy is gone or refuses.
        """
        try:
            self._toxiproxy.add(self._toxics)
        except BaseException:
            # The one that failed may be in force all the same; if this fails too, the first error says why.
            with contextlib.suppress(HoldbackError):
                self._toxiproxy.remove(self._toxics)
            raise
        self._timer.start()

    def end(self) -> None:
        """Take every toxic off, and ask whether it is gone.

        Raises:
            FaultError: it is not, or it was gone before: ended by its lease or by somebody else.
            TrafficError: Toxiproxy is gone or refuses.
        """
        self._timer.cancel()
        with self._lock:
            if self._expired:
                raise FaultError(
                    f"{self._what}: still in force after its lease of {self._lease:g} s, so it was ended then",
                    remedy="end it sooner, or give it a longer lease",
                )
            lost = self._toxiproxy.remove(self._toxics)
            self._verify()
        if lost:
            raise FaultError(
                f"{self._what}: somebody else ended it before, on {', '.join(toxic.proxy for toxic in lost)}",
                remedy="let nothing else control this Toxiproxy",
            )

    def _verify(self) -> None:
        found = self._toxiproxy.toxics()
        if left := [toxic.proxy for toxic in self._toxics if toxic.name in found.get(toxic.proxy, {})]:
            raise FaultError(
                f"{self._what}: Toxiproxy still has it on {', '.join(left)}", remedy="start the world again"
            )

    def _expire(self) -> None:
        with self._lock:
            self._expired = True
            # When this fails the lanes stay as they are, and whoever comes next sees it: end, residue or check.
            with contextlib.suppress(HoldbackError):
                self._toxiproxy.remove(self._toxics)
