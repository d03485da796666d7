"""The load: pods are created, admitted by Kueue, bound, run and finish; another controller adds finalizers then.

Memory must not grow with the pods but for some bytes each: their watch is consumed as a stream, and of a pod only a
few flags and times are kept, in arrays.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from holdback.clock import SystemClock
from holdback.clusters.api import Api
from holdback.clusters.kinds import PODS, Kind
from holdback.controllers.kueue import objects
from holdback.controllers.kueue.kinds import WORKLOADS
from holdback.controllers.kueue.pods import KUEUE_FINALIZER, is_gated, write_finalizers
from holdback.controllers.kueue.workloads import is_true
from holdback.errors import ClusterError

__all__ = ["OTHERS", "Counts", "Load"]

OTHERS = "holdback.example/others"
"""The finalizer that another controller adds to each pod once Kueue has declared it finished."""
_BINDINGS = Kind("", "v1", "Binding", "bindings")
_CREATORS, _HANDS = 4, 4
"""Threads that create pods, and threads that bind them and add finalizers: more would only take time from Kueue."""
_TOLERATE_ALL = [{"operator": "Exists"}]
_BOUND, _FINISHED, _RELEASED, _HAS, _LOST = (1 << bit for bit in range(5))


@dataclass(frozen=True, slots=True)
class Counts:
    """How many pods were created, finished, were let go of by Kueue; got a finalizer by another controller, lost it.

    `conflicts` are those of that other controller.
    """

    created: int = 0
    finished: int = 0
    released: int = 0
    added: int = 0
    lost: int = 0
    conflicts: int = 0


class Load:
    """One load of `pods` pods on `nodes` nodes; `others` says whether another controller adds finalizers.

    `waits` are the seconds from the moment at which a pod was seen to have finished to the one at which Kueue's
    finalizer was seen to be gone, in the order in which they ended.
    """

    def __init__(self, api: Api, namespace: str, *, pods: int, nodes: int, others: bool) -> None:
        self.waits: array[float] = array("d")
        self._api = api
        self._namespace = namespace
        self._pods = pods
        self._nodes = nodes
        self._others = others
        self._flags = bytearray(pods)
        self._finished_at = array("d", bytes(8 * pods))
        self._counts = Counts()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._clock = SystemClock()
        self._began = self._clock.monotonic()
        self._ended: float | None = None
        self._hands = ThreadPoolExecutor(_HANDS, thread_name_prefix="hands")

    @property
    def counts(self) -> Counts:
        """How far it is now."""
        with self._lock:
            return self._counts

    @property
    def seconds(self) -> float:
        """From the load's begin to its end, or until now."""
        return (self._ended or self._clock.monotonic()) - self._began

    def run(self, tell: Callable[[Counts], None], *, within: float, stop: threading.Event) -> bool:
        """Let all pods come and go; False when `stop` was set before they had.

        Args:
            tell: told several times a second how far it is.
            within: seconds without a step forward after which it is given up.
            stop: ends it early.

        Raises:
            ClusterError: no step forward for so long, or a request was refused.
        """
        self._began = moved = self._clock.monotonic()
        before = self.counts
        with self._everybody_at_work():
            while not self._is_done(now := self.counts):
                if stop.is_set():
                    return False
                if self._failure is not None:
                    raise self._failure
                if now != before:
                    moved, before = self._clock.monotonic(), now
                    tell(now)
                elif self._clock.monotonic() - moved > within:
                    raise ClusterError(f"nothing moved for {within:g} s: {now}", remedy="see the end of Kueue's log")
                self._clock.sleep(0.1)
            self._ended = self._clock.monotonic()
        tell(now)
        return True

    def _is_done(self, now: Counts) -> bool:
        return now.released == self._pods and (not self._others or now.added == self._pods)

    @contextmanager
    def _everybody_at_work(self) -> Iterator[None]:
        threads = [self._thread(self._watch_pods)]
        if self._others:
            threads.append(self._thread(self._watch_workloads))
        threads += [self._thread(self._create, number) for number in range(_CREATORS)]
        try:
            for thread in threads:
                thread.start()
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            self._hands.shutdown(cancel_futures=True)

    def _thread(self, work: Callable[..., None], *arguments: int) -> threading.Thread:
        def guarded() -> None:
            try:
                work(*arguments)
            except Exception as error:  # noqa: BLE001  raised where the load is awaited
                self._failure = error

        return threading.Thread(target=guarded, daemon=True)

    def _create(self, first: int) -> None:
        for number in range(first, self._pods, _CREATORS):
            if self._stop.is_set():
                return
            self._api.create(PODS, objects.pod(f"pod-{number}", self._namespace, tolerations=_TOLERATE_ALL))
            self._count(created=1)

    def _watch_pods(self) -> None:
        for change, found in self._api.stream(PODS, self._namespace, stop=self._stop):
            if change != "DELETED":
                number = _number(found["metadata"]["name"])
                self._flags[number] = self._see(number, self._flags[number], found)

    def _watch_workloads(self) -> None:
        """As another controller: once Kueue says that a pod has finished, add a finalizer to it.

        Kueue says so just before it removes its own.
        """
        done = bytearray(self._pods)
        for _, found in self._api.stream(WORKLOADS, self._namespace, stop=self._stop):
            (owner,) = found["metadata"]["ownerReferences"]
            number = _number(owner["name"])
            if not done[number] and is_true(found, "Finished"):
                done[number] = True
                self._do(self._add, number)

    def _see(self, number: int, flags: int, found: dict[str, Any]) -> int:
        """Do for a pod what its new state asks for; its flags then."""
        finalizers = found["metadata"].get("finalizers") or ()
        if not flags & _BOUND and not is_gated(found):
            flags |= _BOUND
            self._do(self._bind, number)
        if not flags & _FINISHED and found.get("status", {}).get("phase") == "Succeeded":
            flags |= _FINISHED
            self._finished_at[number] = self._clock.monotonic()
            self._count(finished=1)
        if flags & _FINISHED and not flags & _RELEASED and KUEUE_FINALIZER not in finalizers:
            flags |= _RELEASED
            self.waits.append(self._clock.monotonic() - self._finished_at[number])
            self._count(released=1)
        if OTHERS in finalizers:
            return flags | _HAS
        if flags & _HAS and not flags & _LOST:  # its owner never removes it
            flags |= _LOST
            self._count(lost=1)
        return flags

    def _do(self, work: Callable[[int], None], number: int) -> None:
        def done(future: Future[None]) -> None:
            if not future.cancelled() and (error := future.exception()) is not None:
                self._failure = error

        self._hands.submit(work, number).add_done_callback(done)

    def _bind(self, number: int) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % self._nodes}"}
        self._api.create(_BINDINGS, {"metadata": {"name": f"pod-{number}"}, "target": target}, self._namespace)

    def _add(self, number: int) -> None:
        _, conflicts = write_finalizers(self._api, f"pod-{number}", self._namespace, lambda there: [*there, OTHERS])
        self._count(added=1, conflicts=conflicts)

    def _count(self, **more: int) -> None:
        with self._lock:
            self._counts = replace(self._counts, **{key: getattr(self._counts, key) + by for key, by in more.items()})


def _number(pod: str) -> int:
    return int(pod.rpartition("-")[2])
