"""One world serves many trials, and a broken one is replaced, whatever its end says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdback.errors import ClusterError, ProcessExited
from holdback.history.recorder import Recorder
from holdback.trials.keeper import Keeper
from holdback.trials.trial import TrialNetwork


class FakeWorld:
    """Alive until told otherwise."""

    network: TrialNetwork
    recorder: Recorder

    def __init__(self, number: int) -> None:
        self.number = number
        self.death: Exception | None = None
        self.ended = False

    def check(self) -> None:
        if self.death:
            raise self.death


class Maker:
    """Makes worlds and remembers them; `end` is raised when one ends, `start` instead of making one."""

    def __init__(self) -> None:
        self.worlds: list[FakeWorld] = []
        self.said: list[str] = []
        self.start: Exception | None = None
        self.end: Exception | None = None

    @contextmanager
    def world(self) -> Iterator[FakeWorld]:
        if self.start:
            raise self.start
        made = FakeWorld(len(self.worlds))
        self.worlds.append(made)
        yield made
        made.ended = True
        if self.end:
            raise self.end

    def keeper(self) -> Keeper[FakeWorld]:
        return Keeper(self.world, self.said.append)


@pytest.fixture
def maker() -> Maker:
    return Maker()


def test_a_world_that_works_is_kept(maker: Maker) -> None:
    """Nothing is started before it is needed, and then all trials get the same world until it is closed."""
    keeper = maker.keeper()
    assert maker.worlds == []
    assert keeper.world() is keeper.world()
    assert len(maker.worlds) == 1
    keeper.close()
    assert maker.worlds[0].ended
    assert maker.said == []


def test_a_broken_world_is_ended_and_replaced(maker: Maker) -> None:
    """A world whose check fails ends, its cause is told in one line, and the next trial gets a new one."""
    keeper = maker.keeper()
    keeper.world().death = ProcessExited("kueue was killed by SIGKILL; the end of its log:\nline\nline")
    assert keeper.world().number == 1
    assert [world.ended for world in maker.worlds] == [True, False]
    assert maker.said == ["this world is given up: kueue was killed by SIGKILL; the end of its log:"]


@pytest.mark.parametrize("end", [ClusterError("it hangs"), ExceptionGroup("many", [ClusterError("it hangs")])])
def test_a_broken_world_that_ends_badly_is_replaced_all_the_same(maker: Maker, end: Exception) -> None:
    """That a broken world cannot be ended properly is said, and does not keep the next one from starting."""
    keeper = maker.keeper()
    keeper.world()
    maker.end = end
    keeper.discard("it is dirty")
    assert maker.said == ["this world is given up: it is dirty", f"while it ended: {end}"]
    assert keeper.world().number == 1


def test_a_bug_at_the_end_of_a_world_is_no_ordinary_trouble(maker: Maker) -> None:
    """Only holdback's own errors are expected of a broken world; anything else comes through."""
    keeper = maker.keeper()
    keeper.world()
    maker.end = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        keeper.discard("it is dirty")


def test_the_end_of_the_last_world_is_not_hushed_up(maker: Maker) -> None:
    """A world that was in order and cannot be ended raises; closing once more is harmless."""
    keeper = maker.keeper()
    keeper.world()
    maker.end = ClusterError("it hangs")
    with pytest.raises(ClusterError, match="it hangs"):
        keeper.close()
    keeper.close()
    assert len(maker.worlds) == 1


def test_a_world_that_does_not_start_is_tried_again(maker: Maker) -> None:
    """A failed start raises for that trial only: the next one tries anew."""
    keeper = maker.keeper()
    maker.start = ClusterError("no memory")
    with pytest.raises(ClusterError, match="no memory"):
        keeper.world()
    maker.start = None
    assert keeper.world().number == 0
