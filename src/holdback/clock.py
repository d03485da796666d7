"""All time goes through here, so that tests can use a clock of their own.

Two readings: `now()` is wall time (seconds since the epoch), used to order what different processes of
one machine report; `monotonic()` never jumps and is used for durations and deadlines. All units are seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TypeVar

__all__ = ["Clock", "FakeClock", "SystemClock", "poll"]

T = TypeVar("T")


class Clock(Protocol):
    """What the rest of holdback may ask about time."""

    def now(self) -> float:
        """Wall time, seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FakeClock:
    """A clock that moves only when told or slept on."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self._time = start

    def now(self) -> float:
        return self._time

    def monotonic(self) -> float:
        return self._time

    def sleep(self, seconds: float) -> None:
        self._time += seconds

    advance = sleep


def poll(probe: Callable[[], T | None], *, within: float, every: float = 0.05, clock: Clock | None = None) -> T | None:
    """Ask `probe` until it gives something other than None or False; None when `within` seconds have passed.

    `probe` is asked at least once, and once more at the very end, so that a slow probe is not cheated of
    its last chance.
    """
    clock = clock or SystemClock()
    deadline = clock.monotonic() + within
    while True:
        last = clock.monotonic() >= deadline
        answer = probe()
        if answer is not None and answer is not False:
            return answer
        if last:
            return None
        clock.sleep(min(every, max(0.0, deadline - clock.monotonic())))
