"""A fault ends once, whoever ends it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdback.clock import poll
from holdback.errors import FaultError, TrafficError
from holdback.traffic.inforce import InForce, Lease


class Counted:
    """An effect that counts how often it is undone, and may fail to be."""

    def __init__(self, *, fails: bool = False) -> None:
        self.undone = 0
        self._fails = fails

    def begin(self) -> None:
        pass

    def undo(self) -> Sequence[str]:
        self.undone += 1
        if self._fails:
            raise TrafficError("it does not go")
        return []

    def left(self) -> Sequence[str]:
        return ["the lane"] if self._fails else []


def test_a_lease_that_runs_out_at_the_end_does_nothing_more() -> None:
    """An end and a lease at one moment undo the fault once: a second time would undo what another put there since."""
    effect = Counted()
    fault = InForce("a fault", effect, Lease(seconds=3600))
    fault.start()
    fault.end()
    fault._expire()
    assert effect.undone == 1


@pytest.mark.parametrize("fails", [False, True])
def test_an_expired_fault_is_told_at_its_end(*, fails: bool) -> None:
    """The end of a fault whose lease ran out says so, whether it could be undone then or not."""
    effect = Counted(fails=fails)
    fault = InForce("a fault", effect, Lease(seconds=0.01))
    fault.start()
    assert poll(lambda: effect.undone == 1, within=30)
    with pytest.raises(FaultError, match=r"lease of 0\.01 s"):
        fault.end()
