"""What is started at once ends as it should, also when it is interrupted."""

from __future__ import annotations

import threading
import time

import pytest

from holdback.controllers.kueue.starting import each
from holdback.errors import ClusterError


def test_all_work_ends_before_its_failure_is_told() -> None:
    """The first failure is raised, and by then nothing works any more."""
    ended = []
    begun = threading.Event()

    def work(name: str) -> None:
        if name == "a":
            begun.wait(10)
            raise ClusterError("a is away")
        begun.set()
        time.sleep(0.1)
        ended.append(name)

    with pytest.raises(ClusterError, match="a is away"):
        each(work, ["a", "b"])
    assert ended == ["b"]
    assert each(str.upper, ["a", "b"]) == {"a": "A", "b": "B"}


def test_an_interrupt_waits_for_nobody() -> None:
    """Ctrl-C comes through at once, though work is under way that still takes long."""
    release = threading.Event()

    def work(name: str) -> None:
        if name == "a":
            raise KeyboardInterrupt
        release.wait(30)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        each(work, ["a", "b"])
    took = time.monotonic() - began
    release.set()
    assert took < 10
