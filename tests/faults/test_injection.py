from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import pytest

from holdback.errors import FaultError
from holdback.faults.injection import Phase, Ways, inject
from holdback.faults.values import Answer, Cut, Delay, Fault, Hold, Slow, TimeTravel, Toxic, Unobserved
from holdback.traffic.inforce import Lease
from holdback.traffic.lanes import Lane, Link, Side
from holdback.traffic.network import Network

LINK = Link("kueue", "worker1", ("workloads",))


def _is_a_way(network: Network) -> Ways:
    """The real network is one; mypy proves it."""
    return network


class Ledger:
    """A network that writes down what it is asked, and fails to start or to end what it is told to."""

    def __init__(self, *, start: Sequence[str] = (), end: Sequence[str] = ()) -> None:
        self.entries: list[str] = []
        self.leases: list[Lease] = []
        self._no_start, self._no_end = start, end

    def delay(
        self, lanes: Sequence[Lane], milliseconds: float, jitter: float = 0, *, of: Side = "answers", lease: Lease
    ) -> AbstractContextManager[None]:
        return self._one("delay", lanes, lease, f" {milliseconds:g}~{jitter:g} of {of}")

    def hold(self, lanes: Sequence[Lane], *, of: Side = "answers", lease: Lease) -> AbstractContextManager[None]:
        return self._one("hold", lanes, lease, f" of {of}")

    def cut(self, lanes: Sequence[Lane], *, lease: Lease) -> AbstractContextManager[None]:
        return self._one("cut", lanes, lease)

    def slow(
        self, lanes: Sequence[Lane], kilobytes_per_second: int, *, of: Side = "answers", lease: Lease
    ) -> AbstractContextManager[None]:
        return self._one("slow", lanes, lease, f" {kilobytes_per_second} of {of}")

    def toxic(
        self, lanes: Sequence[Lane], kind: str, attributes: Mapping[str, int], *, of: Side = "answers", lease: Lease
    ) -> AbstractContextManager[None]:
        return self._one("toxic", lanes, lease, f" {kind} {dict(attributes)} of {of}")

    def answer(
        self,
        lanes: Sequence[Lane],
        status: int,
        *,
        times: int | None = None,
        retry_after: int | None = None,
        lease: Lease,
    ) -> AbstractContextManager[None]:
        return self._one("answer", lanes, lease, f" {status} {times} times after {retry_after}")

    def unobserved(self, lanes: Sequence[Lane], *, lease: Lease) -> AbstractContextManager[None]:
        return self._one("unobserved", lanes, lease)

    def travel(self, lanes: Sequence[Lane], *, lease: Lease) -> AbstractContextManager[None]:
        return self._one("travel", lanes, lease)

    @contextmanager
    def _one(self, way: str, lanes: Sequence[Lane], lease: Lease, detail: str = "") -> Iterator[None]:
        self.leases.append(lease)
        if way in self._no_start:
            raise FaultError(f"{way} does not start")
        self.entries.append(f"{way}{detail} on {' '.join(lane.kind for lane in lanes)}")
        try:
            yield
        finally:
            self.entries.append(f"end {way}")
        if way in self._no_end:
            raise FaultError(f"{way} does not end")

    def record(self, fault: Fault, phase: Phase, lanes: tuple[Lane, ...]) -> None:
        self.entries.append(f"{phase} {type(fault).__name__} {len(lanes)}")


FAULTS: list[Fault] = [Delay(LINK.reads, 100, 5), Hold(LINK.watch("workloads"), of="requests"), Cut(LINK)]


def test_each_fault_reaches_the_network_as_what_it_is() -> None:
    """Delay, hold and cut start in order on the lanes of their targets, end in reverse, and all of it is recorded."""
    ledger, lease = Ledger(), Lease("it-control-001", 60)
    with inject(ledger, FAULTS, ledger.record, lease):
        ledger.entries.append("inside")
    assert ledger.leases == [lease] * len(FAULTS)
    assert ledger.entries == [
        "delay 100~5 of answers on reads",
        "started Delay 1",
        "hold of requests on watch:workloads",
        "started Hold 1",
        "cut on watch:workloads watches reads writes",
        "started Cut 4",
        "inside",
        "end cut",
        "ended Cut 4",
        "end hold",
        "ended Hold 1",
        "end delay",
        "ended Delay 1",
    ]


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        (Slow(LINK.reads, 10), "slow 10 of answers on reads"),
        (Slow(LINK.reads, 10, of="requests"), "slow 10 of requests on reads"),
        (Toxic(LINK.reads, "slicer", {"delay": 1}), "toxic slicer {'delay': 1} of answers on reads"),
        (Toxic(LINK.reads, "slicer", of="requests"), "toxic slicer {} of requests on reads"),
        (Answer(LINK.writes, 429, times=2, retry_after=3), "answer 429 2 times after 3 on writes"),
        (Unobserved(LINK.watch("workloads")), "unobserved on watch:workloads"),
        (TimeTravel(LINK), "travel on watch:workloads watches reads writes"),
    ],
)
def test_each_other_fault_does_as_well(fault: Fault, asked: str) -> None:
    """Every other fault on traffic is asked of the network with all that it says, and recorded."""
    ledger, lease = Ledger(), Lease("it-control-001", 60)
    with inject(ledger, [fault], ledger.record, lease):
        pass
    assert ledger.leases == [lease]
    assert ledger.entries[0] == asked
    assert [entry.split()[0] for entry in ledger.entries[1:]] == ["started", "end", "ended"]


def test_when_one_cannot_start_none_stays() -> None:
    """A fault that cannot start ends those before it, and its error is the one that is raised."""
    ledger = Ledger(start=["cut"])
    with pytest.raises(FaultError, match="cut does not start"), inject(ledger, FAULTS, ledger.record):
        pytest.fail("the block must not begin")
    assert ledger.entries[-4:] == ["end hold", "ended Hold 1", "end delay", "ended Delay 1"]


def test_every_end_is_tried_and_only_verified_ones_are_recorded() -> None:
    """One fault that does not end keeps no other from ending; it alone is not recorded as ended."""
    ledger = Ledger(end=["hold"])
    with pytest.raises(FaultError, match="hold does not end"), inject(ledger, FAULTS, ledger.record):
        pass
    assert ledger.entries[-5:] == ["end cut", "ended Cut 4", "end hold", "end delay", "ended Delay 1"]


def test_several_that_do_not_end_are_all_told() -> None:
    """The errors of several ends come as a group."""
    ledger = Ledger(end=["cut", "delay"])
    with pytest.raises(ExceptionGroup) as caught, inject(ledger, FAULTS, ledger.record):
        pass
    assert [str(error) for error in caught.value.exceptions] == ["cut does not end", "delay does not end"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_inside_ends_the_faults_and_goes_on(error: type[BaseException]) -> None:
    """Whatever ends the block, the faults end, and the block's own error is raised."""
    ledger = Ledger()
    with pytest.raises(error), inject(ledger, FAULTS, ledger.record):
        raise error
    assert ledger.entries[-1] == "ended Delay 1"


def test_a_failing_end_does_not_swallow_an_interrupt() -> None:
    """Ctrl-C stays Ctrl-C when a fault then does not end; that is told in a note."""
    ledger = Ledger(end=["hold"])
    with pytest.raises(KeyboardInterrupt) as caught, inject(ledger, FAULTS, ledger.record):
        raise KeyboardInterrupt
    assert caught.value.__notes__ == ["hold does not end"]


def test_a_failing_end_keeps_the_blocks_error_in_sight() -> None:
    """When block and end both fail, the end's error is raised with the block's as its context."""
    ledger = Ledger(end=["hold"])
    with pytest.raises(FaultError) as caught, inject(ledger, FAULTS, ledger.record):
        raise ValueError("the scenario's")
    assert str(caught.value.__context__) == "the scenario's"


def test_a_recorder_that_fails_leaves_nothing_in_force() -> None:
    """An error while recording the start of a fault ends it and those before it."""
    ledger = Ledger()

    def record(fault: Fault, phase: Phase, lanes: tuple[Lane, ...]) -> None:
        if isinstance(fault, Hold):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), inject(ledger, FAULTS, record):
        pytest.fail("the block must not begin")
    assert ledger.entries == [
        "delay 100~5 of answers on reads",
        "hold of requests on watch:workloads",
        "end hold",
        "end delay",
    ]
