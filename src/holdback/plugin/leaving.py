"""Leaving early: Ctrl-C, SIGTERM, and the death of the process that leads the run.

The first Ctrl-C or SIGTERM ends a run in order: the trial under way is given up, the world goes down, what was made
is summed up. A second Ctrl-C ends it at once; what is left of it is the reaper's work. Sessions that have not begun a
run keep the behaviour that pytest gives them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

import pytest

from holdback.plugin.settings import SETTINGS, STDERR

_LOOK_EVERY = 0.25
_GRACE = 1.5
"""Seconds that a worker has to end in order once its controller is gone; its run's reaper grants about the same."""


class Terminated(KeyboardInterrupt):
    """SIGTERM, which pytest takes for a Ctrl-C with a name of its own."""


class Signals:
    """The two signals of one session, from `install` to `restore`."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._before: dict[int, Any] = {}
        self._leaving = False

    def install(self) -> None:
        """Only a main thread may do it; pytest called from another one has to do without."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)

    def restore(self) -> None:
        """Put back what was there."""
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        settings = self._config.stash[SETTINGS]
        if settings.store.run().get("id") != settings.run:
            self._as_before(number, frame)
        elif not self._leaving:
            self._leaving = True
            # execnet interrupts the workers of pytest-xdist, which a SIGTERM need not reach, when this session ends.
            raise Terminated("the run was ended by SIGTERM") if number == signal.SIGTERM else KeyboardInterrupt
        # Whoever wants to end it at once by a signal has SIGKILL; `timeout` and others send SIGTERM twice by habit.
        # A worker ends soon after its controller, and needs no hurry of its own.
        elif number == signal.SIGINT and settings.worker == "main":
            self._leave()

    def _as_before(self, number: int, frame: FrameType | None) -> None:
        before = self._before[number]
        if callable(before):
            before(number, frame)
        elif before != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _leave(self) -> None:
        report = self._config.stash[SETTINGS].report
        text = (
            "\nholdback: interrupted twice, so this ends at once and without a summary; what still runs is stopped\n"
            f"  -> the trials made so far are kept: `holdback report {report}` sums them up\n"
        )
        # Not through Python's streams: the signal may have come in the middle of a write to one.
        with contextlib.suppress(OSError, ValueError):  # the terminal is gone, or its stream closed
            os.write(self._config.stash[STDERR].fileno(), text.encode(errors="replace"))
        os._exit(128 + signal.SIGINT)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Listen, once the settings are there."""
    config = session.config
    signals = Signals(config)
    signals.install()
    config.add_cleanup(signals.restore)
    controller = config.stash[SETTINGS].controller
    if hasattr(config, "workerinput"):
        threading.Thread(target=_follow, args=[controller], name="holdback-follow", daemon=True).start()


def _follow(controller: int) -> None:
    """End soon after the controller: left to itself, a worker would notice its death only with its next report."""
    while os.getppid() == controller:
        time.sleep(_LOOK_EVERY)
    time.sleep(_GRACE)
    os._exit(1)
