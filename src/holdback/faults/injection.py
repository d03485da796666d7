"""From faults as values to a network that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

from holdback.faults.programs import Dead, Paused, Restarted
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
from holdback.traffic.inforce import UNOWNED, Lease, in_force
from holdback.traffic.lanes import Lane, Side

__all__ = ["Phase", "Record", "Ways", "inject"]

_NO_LANES: tuple[Lane, ...] = ()
Phase = Literal["started", "ended"]
Record = Callable[[Fault, Phase, tuple[Lane, ...]], None]
"""Told when a fault came into force on all of its lanes, and when it was verified gone from them.

A fault on a process has no lanes.
"""


class Ways(Protocol):
    """What `inject` needs of `holdback.traffic.network.Network`."""

    def delay(
        self, lanes: Sequence[Lane], milliseconds: float, jitter: float = 0, *, of: Side = "answers", lease: Lease
    ) -> AbstractContextManager[None]: ...

    def hold(self, lanes: Sequence[Lane], *, of: Side = "answers", lease: Lease) -> AbstractContextManager[None]: ...

    def cut(self, lanes: Sequence[Lane], *, lease: Lease) -> AbstractContextManager[None]: ...

    def slow(
        self, lanes: Sequence[Lane], kilobytes_per_second: int, *, of: Side = "answers", lease: Lease
    ) -> AbstractContextManager[None]: ...

    def toxic(
        self,
        lanes: Sequence[Lane],
        kind: str,
        attributes: Mapping[str, int],
        *,
        of: Side = "answers",
        lease: Lease,
    ) -> AbstractContextManager[None]: ...

    def answer(
        self,
        lanes: Sequence[Lane],
        status: int,
        *,
        times: int | None = None,
        retry_after: int | None = None,
        lease: Lease,
    ) -> AbstractContextManager[None]: ...

    def unobserved(self, lanes: Sequence[Lane], *, lease: Lease) -> AbstractContextManager[None]: ...

    def travel(self, lanes: Sequence[Lane], *, lease: Lease) -> AbstractContextManager[None]: ...


@contextmanager
def inject(network: Ways, faults: Sequence[Fault], record: Record, lease: Lease = UNOWNED) -> Iterator[None]:
    """All the faults in force within the block, or none: when one cannot start, those before it end again.

    They end in reverse order, each of them whatever became of the others. `lease` is that of each.

    Raises:
        FaultError, TrafficError: one could not start, or one could not be ended.
        ExceptionGroup: several could not be ended.
    """
    ends: list[AbstractContextManager[None]] = []
    try:
        for fault in faults:
            one = _one(network, fault, record, lease)
            one.__enter__()
            ends.append(one)
        yield
    except Exception:
        _end(ends)  # if this fails it is the graver news; the first error stays its context
        raise
    except BaseException as interrupt:
        try:
            _end(ends)
        except Exception as failure:  # noqa: BLE001 - Ctrl-C stays Ctrl-C
            interrupt.add_note(str(failure))
        raise
    _end(ends)


@contextmanager
def _one(network: Ways, fault: Fault, record: Record, lease: Lease) -> Iterator[None]:
    if isinstance(fault, Pause | Kill | Restart):
        way, lanes = _on_program(fault, lease), _NO_LANES
    elif isinstance(fault, Answer | Unobserved | TimeTravel):
        way, lanes = _misleading(network, fault, lease), fault.target.lanes
    else:
        way, lanes = _hindering(network, fault, lease), fault.target.lanes
    with way:
        record(fault, "started", lanes)
        yield
    record(fault, "ended", lanes)


def _on_program(fault: Pause | Kill | Restart, lease: Lease) -> AbstractContextManager[None]:
    match fault:
        case Pause(program):
            return in_force(str(fault), Paused(program), lease)
        case Kill(program):
            return in_force(str(fault), Dead(program), lease)
        case Restart(program):
            return in_force(str(fault), Restarted(program), lease)


def _hindering(network: Ways, fault: Delay | Hold | Cut | Slow | Toxic, lease: Lease) -> AbstractContextManager[None]:
    """What keeps traffic from coming, or from coming in time."""
    lanes = fault.target.lanes
    match fault:
        case Delay(_, milliseconds, jitter, of):
            return network.delay(lanes, milliseconds, jitter, of=of, lease=lease)
        case Hold(_, of):
            return network.hold(lanes, of=of, lease=lease)
        case Cut():
            return network.cut(lanes, lease=lease)
        case Slow(_, kilobytes_per_second, of):
            return network.slow(lanes, kilobytes_per_second, of=of, lease=lease)
        case Toxic(_, kind, attributes, of):
            return network.toxic(lanes, kind, attributes, of=of, lease=lease)


def _misleading(network: Ways, fault: Answer | Unobserved | TimeTravel, lease: Lease) -> AbstractContextManager[None]:
    """What lets traffic come, but other traffic."""
    lanes = fault.target.lanes
    match fault:
        case Answer(_, status, times, retry_after):
            return network.answer(lanes, status, times=times, retry_after=retry_after, lease=lease)
        case Unobserved():
            return network.unobserved(lanes, lease=lease)
        case TimeTravel():
            return network.travel(lanes, lease=lease)


def _end(ends: Sequence[AbstractContextManager[None]]) -> None:
    failures: list[Exception] = []
    for one in reversed(ends):
        try:
            one.__exit__(None, None, None)
        except Exception as failure:  # noqa: BLE001 - the others must end too
            failures.append(failure)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup("faults that could not be ended", failures)
