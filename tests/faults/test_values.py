from __future__ import annotations

from typing import cast

import pytest

from holdback.errors import ConfigurationError
from holdback.faults.values import (
    Answer,
    Cut,
    Delay,
    Fault,
    Hold,
    Kill,
    Pause,
    Restart,
    Slow,
    TimeTravel,
    Toxic,
    Unobserved,
)
from holdback.process import Running
from holdback.traffic.lanes import Lane, Link, Pipe

LINK = Link("kueue", "worker1", ("workloads",))
SERVER = cast(Running, "server")
"""Stands for a process: a value only asks it for its name."""


@pytest.mark.parametrize(("milliseconds", "jitter"), [(-1, 0), (1, -1)])
def test_a_negative_delay_is_refused(milliseconds: float, jitter: float) -> None:
    """A delay cannot be negative, nor can its jitter."""
    with pytest.raises(ConfigurationError):
        Delay(LINK, milliseconds, jitter)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Delay(LINK, 100), "delay 100 ms on kueue>worker1"),
        (Delay(LINK, 100, 20), "delay 100 ms (jitter 20 ms) on kueue>worker1"),
        (Delay(LINK, 100, of="requests"), "delay 100 ms on requests of kueue>worker1"),
        (Hold(LINK.writes, of="requests"), "hold requests of kueue>worker1/writes"),
        (Hold(LINK.watch("workloads")), "hold kueue>worker1/watch:workloads"),
        (Cut(LINK.writes), "cut kueue>worker1/writes"),
        (Cut(Pipe("worker1", "kueue", "webhooks")), "cut worker1>kueue/webhooks"),
        (Slow(LINK, 20), "slow kueue>worker1 to 20 kB/s"),
        (Toxic(LINK, "limit_data", {"bytes": 9}), "limit_data (bytes 9) on kueue>worker1"),
        (Answer(LINK, 503), "answer 503 on kueue>worker1"),
        (Answer(LINK, 429, times=2, retry_after=1), "answer 429 (retry after 1 s) 2 times on kueue>worker1"),
        (Unobserved(LINK.watches), "unobserved kueue>worker1/watches"),
        (TimeTravel(LINK), "time travel of kueue>worker1"),
        (Pause(SERVER), "pause server"),
        (Kill(SERVER), "kill server"),
        (Restart(SERVER), "restart server"),
    ],
)
def test_a_fault_describes_itself(fault: Fault, text: str) -> None:
    """Every fault says what it does to which traffic."""
    assert str(fault) == text


@pytest.mark.parametrize("rate", [0, -1, 0.5])
def test_a_bandwidth_that_is_none_is_refused(rate: int) -> None:
    """Toxiproxy takes 0 for no limit and knows no fractions, so neither is a slowness."""
    with pytest.raises(ConfigurationError):
        Slow(LINK, rate)


@pytest.mark.parametrize(
    ("status", "times", "retry_after"), [(200, None, None), (600, None, None), (503, 0, None), (429, None, -1)]
)
def test_an_answer_that_is_no_refusal_is_refused(status: int, times: int | None, retry_after: int | None) -> None:
    """An answer is an HTTP error, at least once, and to be asked again in the future."""
    with pytest.raises(ConfigurationError):
        Answer(LINK, status, times=times, retry_after=retry_after)


@pytest.mark.parametrize("target", [LINK, LINK.reads, LINK.writes])
def test_only_watches_go_unobserved(target: Lane) -> None:
    """Nothing is observed through reads and writes, so nothing can go unobserved there."""
    with pytest.raises(ConfigurationError, match="no lane of watches"):
        Unobserved(target)


def test_every_fault_can_be_a_key() -> None:
    """Faults are hashable and differ by kind and by all that they say, so that a dictionary can tell them apart."""
    different = [Toxic(LINK, "slicer", {"delay": 1}), Toxic(LINK, "slicer", {"delay": 2}), Cut(LINK)]
    assert len({*different, Pause(SERVER), Kill(SERVER), Restart(SERVER)}) == 6
