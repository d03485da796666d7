"""A child that can be ended and started again as it was: what faults on processes act on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import psutil

from holdback.clock import poll
from holdback.errors import ProcessError
from holdback.process.child import Child

__all__ = ["Program"]

_STOPPED_WITHIN = 30.0
"""Seconds: what waits for a disk stops only when it has been served."""


class Program:
    """A child and how to start it. Safe to use from several threads.

    Args:
        start: starts the child, each time with the same arguments.
        await_ready: returns when a child that was started does its work; raises ProcessError when it does not.
    """

    def __init__(self, start: Callable[[], Child], await_ready: Callable[[Child], None]) -> None:
        self._start = start
        self._await_ready = await_ready
        self._lock = threading.RLock()
        self._down = False
        self._child = start()

    def __repr__(self) -> str:
        return f"Program({self._child!r})"

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """What messages and its log call it."""
        return self._child.name

    @property
    def child(self) -> Child:
        """The child as it is now; another one after a restart."""
        return self._child

    @property
    def pid(self) -> int:
        """Of the child as it is now."""
        return self._child.pid

    @property
    def log(self) -> Path:
        """What all of its children wrote."""
        return self._child.log

    def check(self) -> None:
        """Say so if it is gone, unless we killed it ourselves.

        Raises:
            ProcessExited: with the end of its log.
        """
        with self._lock:
            if not self._down:
                self._child.check()

    def await_ready(self) -> None:
        """Wait until it does its work.

        Raises:
            ProcessExited: it is gone.
            NotReady: it took too long.
        """
        self._await_ready(self._child)

    def pause(self) -> None:
        """It keeps its connections and does nothing; when this returns it has stopped.

        Raises:
            ProcessExited: it is gone.
            ProcessError: it does not stop.
        """
        self._child.pause()
        if not poll(self.paused, within=_STOPPED_WITHIN, every=0.001):
            raise ProcessError(f"{self.name} (pid {self.pid}) does not stop", remedy="it hangs in the kernel")

    def resume(self) -> None:
        """Let a paused one go on.

        Raises:
            ProcessExited: it is gone.
        """
        self._child.resume()

    def paused(self) -> bool:
        """Whether it is stopped, as the system tells it."""
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def down(self) -> bool:
        """Whether no child of it runs."""
        return not self._child.alive()

    def kill(self) -> None:
        """SIGKILL; `check` finds nothing wrong with that until `start`.

        Raises:
            ProcessError: it does not die.
        """
        with self._lock:
            self._down = True
            self._child.kill()

    def start(self) -> None:
        """Start it again; when this returns it runs, but need not be ready. One that runs already is left alone.

        Raises:
            ProcessError: it cannot be started.
        """
        with self._lock:
            if self.down():
                self._child = self._start()
            self._down = False
