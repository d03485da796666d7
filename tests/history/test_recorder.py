"""The recorder, with watches made by hand."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdback.clusters.kinds import JOBS, PODS, Kind
from holdback.errors import EvidenceError, ProcessExited
from holdback.history.events import Event, Note, ObjectChange, Request, Step
from holdback.history.recorder import Recorder
from tests.history.test_requests import line


class FakeApi:
    """A watch that delivers what the test puts into it; an exception is raised instead."""

    def __init__(self) -> None:
        self.changes: queue.Queue[tuple[str, dict[str, Any]] | Exception | None] = queue.Queue()

    def watch(self, kind: Kind, namespace: str = "", *, stop: threading.Event) -> Iterator[tuple[str, dict[str, Any]]]:
        while not stop.is_set():
            try:
                change = self.changes.get(timeout=0.02)
            except queue.Empty:
                continue
            if change is None:
                return
            if isinstance(change, Exception):
                raise change
            yield change


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "managedFields": [1]}, **more}


def is_change_of(name: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, ObjectChange) and event.name == name


def test_changes_of_both_views_are_recorded() -> None:
    """Truth and shadow are told apart, and each change has its cluster, resource and client."""
    truth, shadow = FakeApi(), FakeApi()
    with Recorder() as recorder:
        mark = recorder.mark()
        recorder.truth("worker1", truth, [JOBS])
        recorder.shadow("kueue", "worker1", shadow, [PODS])
        truth.changes.put(("ADDED", named("a")))
        shadow.changes.put(("MODIFIED", named("b")))
        for name in "ab":
            assert recorder.await_event(is_change_of(name), within=60, mark=mark)
        found = {event.name: event for event in recorder.since(mark) if isinstance(event, ObjectChange)}
    assert (found["a"].view, found["a"].client, found["a"].resource, found["a"].cluster) == (
        "truth",
        "",
        "jobs",
        "worker1",
    )
    assert (found["b"].view, found["b"].client, found["b"].resource) == ("shadow", "kueue", "pods")
    assert found["b"].change == "MODIFIED"


def test_bulk_is_dropped_and_the_object_left_as_it_is() -> None:
    """Field managers and pod templates are not kept, and the watch's own object is not changed by that."""
    api = FakeApi()
    workload = named("w", spec={"podSets": [{"name": "main", "template": {"big": 1}}], "template": {}, "active": True})
    with Recorder() as recorder:
        mark = recorder.mark()
        recorder.truth("manager", api, [JOBS])
        api.changes.put(("ADDED", workload))
        event = recorder.await_event(lambda e: isinstance(e, ObjectChange), within=60, mark=mark)
    assert isinstance(event, ObjectChange)
    assert event.object == {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"podSets": [{"name": "main"}], "active": True},
    }
    assert workload["spec"]["podSets"][0]["template"] == {"big": 1}
    assert "managedFields" in workload["metadata"]


@pytest.mark.parametrize("end", [OSError("connection lost"), None])
def test_a_watch_that_ends_is_noticed(end: Exception | None) -> None:
    """A watch that fails, or just ends, leaves a fatal note, and check() and every waiter say so."""
    api = FakeApi()
    with Recorder() as recorder:
        mark = recorder.mark()
        recorder.truth("worker1", api, [JOBS])
        recorder.check()
        api.changes.put(end)
        with pytest.raises(EvidenceError, match="truth of jobs on worker1"):
            recorder.await_event(lambda _: False, within=60, mark=mark)
        with pytest.raises(EvidenceError, match="connection lost" if end else "ended by itself"):
            recorder.check()
        notes = [event for event in recorder.since(mark) if isinstance(event, Note)]
    assert [note.fatal for note in notes] == [True]


def test_a_waiter_is_woken_at_once() -> None:
    """An event that comes while somebody waits for it is given back long before the time is up."""
    with Recorder() as recorder:
        mark = recorder.mark()
        recorder.step("other")
        threading.Timer(0.1, recorder.step, ["evicted"]).start()
        began = time.monotonic()
        event = recorder.await_event(lambda e: isinstance(e, Step) and e.name == "evicted", within=100, mark=mark)
        assert event is not None
        assert time.monotonic() - began < 50


def test_waiting_ends_when_a_check_fails() -> None:
    """What can never come any more is not waited for, and what came before is still found."""

    def dead() -> None:
        raise ProcessExited("kueue died")

    with Recorder() as recorder:
        mark = recorder.mark()
        began = time.monotonic()
        with pytest.raises(ProcessExited):
            recorder.await_event(lambda _: True, within=100, mark=mark, check=dead)
        assert time.monotonic() - began < 50
        recorder.step("seen")
        assert recorder.await_event(lambda _: True, within=30, mark=mark, check=dead)


def test_waiting_ends_when_time_is_up() -> None:
    """Without the event the answer is None."""
    with Recorder() as recorder:
        assert recorder.await_event(lambda _: True, within=0.05, mark=recorder.mark()) is None


def test_a_predicate_sees_each_event_once() -> None:
    """Events before the mark are not shown, those after it once and in order."""
    seen: list[str] = []

    def count() -> None:
        for number in range(200):
            recorder.step(str(number))

    def saw_the_last(event: Event) -> bool:
        assert isinstance(event, Step)
        seen.append(event.name)
        return event.name == "199"

    with Recorder() as recorder:
        recorder.step("before")
        mark = recorder.mark()
        threading.Thread(target=count).start()
        recorder.await_event(saw_the_last, within=60, mark=mark)
    assert seen == [str(n) for n in range(200)]


def test_a_window_is_ordered_by_time() -> None:
    """What arrives late stands where it happened."""
    with Recorder() as recorder:
        mark = recorder.mark()
        now = time.time()
        recorder.record(Step(now + 2, "second"))
        recorder.record(Step(now + 1, "first"))
        assert [event.at - now for event in recorder.since(mark)] == [1, 2]


def test_requests_come_from_the_log_and_belong_to_their_window(tmp_path: Path) -> None:
    """After catch_up every logged request is there, but not one that was over before the window began."""
    log = tmp_path / "access.log"
    with Recorder() as recorder:
        recorder.requests(log)
        mark = recorder.mark()
        late, ours = time.time() - 10, time.time() + 0.001
        log.write_bytes(line(ts=late) + b"\n" + line(ts=ours) + b"\n")
        recorder.catch_up()
        assert [event.at for event in recorder.since(mark) if isinstance(event, Request)] == [ours]


def test_what_no_window_needs_is_dropped() -> None:
    """Forgetting a mark frees what is before the oldest one left, and nothing after it."""
    with Recorder() as recorder:
        first = recorder.mark()
        recorder.step("a")
        second = recorder.mark()
        recorder.step("b")
        recorder.forget(first)
        assert [event.name for event in recorder.since(0) if isinstance(event, Step)] == ["b"]
        recorder.forget(second)
        assert recorder.since(0) == ()


def test_nothing_runs_on_after_close() -> None:
    """Closing ends every thread, and that is no failure."""
    before = set(threading.enumerate())
    recorder = Recorder()
    recorder.truth("a", FakeApi(), [JOBS, PODS])
    recorder.requests(Path("missing.log"))
    recorder.close()
    recorder.check()
    assert set(threading.enumerate()) <= before  # what others began may end at any time
