from __future__ import annotations

import pytest

from holdback.errors import ConfigurationError
from holdback.faults.values import Cut, Delay, Fault, Hold
from holdback.traffic.lanes import Link

LINK = Link("kueue", "worker1", ("workloads",))


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
    ],
)
def test_a_fault_describes_itself(fault: Fault, text: str) -> None:
    """Every fault says what it does to which traffic."""
    assert str(fault) == text
