"""From faults as values to a network that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol

from holdback.faults.values import Cut, Delay, Fault, Hold
from holdback.traffic.lanes import Lane, Side

__all__ = ["Phase", "Record", "Ways", "inject"]

Phase = Literal["started", "ended"]
Record = Callable[[Fault, Phase, tuple[Lane, ...]], None]
"""Told when a fault came into force on all of its lanes, and when it was verified gone from them."""


class Ways(Protocol):
    """What `inject` needs of `holdback.traffic.network.Network`."""

    def delay(
        self, lanes: Sequence[Lane], milliseconds: float, jitter: float = 0, *, of: Side = "answers"
    ) -> AbstractContextManager[None]: ...

    def hold(self, lanes: Sequence[Lane], *, of: Side = "answers") -> AbstractContextManager[None]: ...

    def cut(self, lanes: Sequence[Lane]) -> AbstractContextManager[None]: ...


@contextmanager
def inject(network: Ways, faults: Sequence[Fault], record: Record) -> Iterator[None]:
    """All the faults in force within the block, or none: when one cannot start, those before it end again.

    They end in reverse order, each of them whatever became of the others.

    Raises:
        FaultError, TrafficError: one could not start, or one could not be ended.
        ExceptionGroup: several could not be ended.
    """
    ends: list[AbstractContextManager[None]] = []
    try:
        for fault in faults:
            one = _one(network, fault, record)
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
def _one(network: Ways, fault: Fault, record: Record) -> Iterator[None]:
    with _way(network, fault):
        record(fault, "started", fault.target.lanes)
        yield
    record(fault, "ended", fault.target.lanes)


def _way(network: Ways, fault: Fault) -> AbstractContextManager[None]:
    lanes = fault.target.lanes
    match fault:
        case Delay(_, milliseconds, jitter, of):
            return network.delay(lanes, milliseconds, jitter, of=of)
        case Hold(_, of):
            return network.hold(lanes, of=of)
        case Cut():
            return network.cut(lanes)


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
