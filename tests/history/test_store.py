"""The evidence on disk."""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdback.errors import EvidenceError
from holdback.history.events import FaultChange, Note, ObjectChange, Request, Step
from holdback.history.history import History
from holdback.history.store import Store, process_of

RUN = {"id": "one", "started": 1_700_000_000.0}
HISTORY = History(
    (
        Step(1.0, "submit", {"job": "a"}),
        FaultChange(2.0, "delay 100 ms on a>b", "started", ("a>b/reads",), 100.0),
        ObjectChange(3.0, "truth", "manager", "jobs", "ADDED", {"metadata": {"name": "a"}}),
        Request(4.0, "kueue", "manager", "PATCH", "/api", 403, 0.1),
        Note(5.0, "world", "gone", fatal=True),
    ),
    scope={"trial": "t", "clients": ["kueue"]},
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "report")
    store.begin(RUN)
    return store


def test_a_history_comes_back_as_it_was(store: Store) -> None:
    """Every kind of event, the scope and the state survive the disk."""
    store.record("t", HISTORY)
    assert store.history("t") == (HISTORY, ())


def test_a_report_that_is_being_written_is_not_taken_away(store: Store) -> None:
    """A run is refused the report of another one as long as that one's process lives, by name and with a way out."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        first = {**RUN, "id": "first", "process": process_of(other.pid)}
        store.begin(first)
        store.judged({"id": "a"})
        second = {**RUN, "id": "second", "process": process_of(os.getpid())}
        with pytest.raises(EvidenceError, match=f"another run, of process {other.pid}, is writing") as error:
            store.begin(second)
        assert "--holdback-report" in error.value.remedy
        store.begin(first)
        assert store.trials()[0] == [(1, {"id": "a"})]
        reused = {**first, "process": {"pid": other.pid, "created": 1.0}}
        store.run_path.write_text(json.dumps(reused))
        store.begin({**second, "id": "after a reused number"})
        store.run_path.write_text(json.dumps(first))
        other.communicate()
    store.begin(second)
    assert store.run()["id"] == "second"


@pytest.mark.parametrize("process", [None, [], {}, {"pid": "x", "created": 1}, {"pid": -1, "created": 1}])
def test_a_damaged_process_holds_no_report(store: Store, process: object) -> None:
    """What run.json says of its process may be anything, and a new run still begins."""
    store.begin({**RUN, "id": "first", "process": process})
    store.begin({**RUN, "id": "second"})
    assert store.run()["id"] == "second"


def test_rows_come_back_in_order(store: Store) -> None:
    """Rows are numbered by their line."""
    store.judged({"id": "a"})
    store.judged({"id": "b"})
    assert store.trials() == ([(1, {"id": "a"}), (2, {"id": "b"})], [])


def test_a_damaged_line_is_reported_and_skipped(store: Store) -> None:
    """A line that is no JSON costs itself alone, and its number is told; so does one cut off by a killed writer."""
    store.judged({"id": "a"})
    with store.trials_path.open("a") as file:
        file.write('nonsense\n[1]\n{"id": "cut')
    store.judged({"id": "b"})
    rows, damages = store.trials()
    assert [row["id"] for _, row in rows] == ["a", "b"]
    assert [damage.line for damage in damages] == [2, 3, 4]
    assert str(damages[0]).startswith(f"{store.trials_path}:2: ")


def test_a_line_nested_without_end_is_damage_like_any_other(store: Store) -> None:
    """JSON that Python's reader gives up on is a damaged line, and no run.json."""
    store.trials_path.parent.mkdir(parents=True, exist_ok=True)
    store.trials_path.write_text("[" * 100_000 + "\n")
    assert [damage.line for damage in store.trials()[1]] == [1]
    store.run_path.write_text("[" * 100_000)
    assert store.run() == {}


def test_a_damaged_history_keeps_its_other_events(store: Store) -> None:
    """An event that cannot be decoded is reported with its line; a history without a header is refused."""
    store.record("t", HISTORY)
    path = store.history_path("t")
    lines = path.read_text().splitlines()
    lines[2] = '{"kind": "riddle", "at": 1}'
    path.write_text("\n".join(lines))
    history, damages = store.history("t")
    assert len(history.events) == len(HISTORY.events) - 1
    assert [(damage.line, damage.reason) for damage in damages] == [(3, "unknown kind of event: 'riddle'")]
    path.write_text("\n".join(lines[1:]))
    with pytest.raises(EvidenceError, match="no header"):
        store.history("t")


def test_another_run_moves_the_earlier_one_away(store: Store) -> None:
    """Nothing is deleted, files that are not ours stay, and two reports of one second do not collide."""
    for number in (1, 2):
        store.judged({"id": f"of run {number}"})
        (store.directory / "mine.txt").write_text("stay")
        store.begin({"id": f"next {number}", "started": RUN["started"]})
        assert store.trials() == ([], [])
    assert (store.directory / "mine.txt").exists()
    earlier = sorted((store.directory / "earlier").iterdir())
    assert [path.name for path in earlier] == ["2023-11-14T22-13-20Z", "2023-11-14T22-13-20Z-2"]
    assert [Store(path).trials()[0][0][1]["id"] for path in earlier] == ["of run 1", "of run 2"]


def test_beginning_twice_is_beginning_once(store: Store) -> None:
    """Every process of a run begins it; the evidence so far stays."""
    store.judged({"id": "a"})
    store.begin(RUN)
    assert len(store.trials()[0]) == 1
    assert not (store.directory / "earlier").exists()


def test_facts_are_added_to_the_run(store: Store) -> None:
    """add() keeps what run.json had, and each fact once, whichever process of the run knew it first."""
    store.add("variants", [{"arm": "control"}])
    store.add("variants", [{"arm": "treatment"}, {"arm": "control"}])
    assert store.run()["variants"] == [{"arm": "control"}, {"arm": "treatment"}]
    assert store.run()["id"] == "one"


Write = Callable[[Store], object]
WHOLE: list[Write] = [
    lambda store: store.record("a", History(())),
    lambda store: store.keep_plan("a", "schema: 1"),
    lambda store: store.add("variants", [{}]),
    lambda store: store.summarise({}),
]
"""Writes of a whole file."""
WRITES: list[Write] = [
    *WHOLE,
    lambda store: store.plan({"id": "a"}),
    lambda store: store.judged({"id": "a"}),
    lambda store: store.settle("e", 0, dict),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("left", [True, False])
def test_a_report_that_vanished_is_not_made_anew(store: Store, write: Write, left: bool) -> None:
    """What was made so far would be missing in it, so whatever is written next says that the report is gone."""
    shutil.rmtree(store.directory)
    if left:
        store.directory.mkdir()  # somebody emptied it
    with pytest.raises(EvidenceError, match="deleted or moved away") as caught:
        write(store)
    assert "--holdback-report" in caught.value.remedy
    assert not left or not list(store.directory.iterdir())


@pytest.mark.parametrize("write", WRITES)
def test_a_report_that_vanishes_at_that_very_moment_is_not_made_anew(
    store: Store, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the question whether it is there and the write: it is told as gone all the same, not as a full disk."""
    demand, meanwhile = store.demand, iter([lambda: shutil.rmtree(store.directory)])

    def demanded() -> None:
        demand()
        next(meanwhile, lambda: None)()

    monkeypatch.setattr(store, "demand", demanded)
    with pytest.raises(EvidenceError, match="deleted or moved away"):
        write(store)
    assert not store.run_path.exists()


@pytest.mark.parametrize("write", WHOLE)
def test_a_report_that_vanishes_under_a_file_is_told_as_that(
    store: Store, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is written when its folder goes cannot take its place: that is no full disk either."""
    monkeypatch.setattr(os, "fsync", lambda _: shutil.rmtree(store.directory, ignore_errors=True))
    with pytest.raises(EvidenceError, match="deleted or moved away"):
        write(store)
    assert not store.run_path.exists()


def _append(directory: Path, name: str) -> None:
    for number in range(50):
        Store(directory).judged({"id": f"{name}{number}", "padding": "x" * 5000})


def test_processes_that_write_at_once_lose_nothing(store: Store) -> None:
    """Two processes' lines never mix."""
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append, args=(store.directory, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    rows, damages = store.trials()
    assert not damages
    assert {row["id"] for _, row in rows} == {f"{name}{number}" for name in "ab" for number in range(50)}


def test_a_full_disk_is_said_and_the_evidence_stays_readable(store: Store) -> None:
    """A write that the system cuts short raises with path and remedy and leaves the file as it was."""
    store.judged({"id": "a"})
    store.record("t", HISTORY)
    before = store.trials_path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(EvidenceError, match=r"trials\.jsonl") as refused:
            store.judged({"id": "b", "padding": "x" * 10_000})
        with pytest.raises(EvidenceError, match="histories"):
            store.record("t", History((Step(1.0, "x" * 10_000),)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert "--holdback-report" in refused.value.remedy
    assert store.trials_path.read_bytes() == before
    assert store.history("t") == (HISTORY, ())
    assert [path.name for path in store.histories.iterdir()] == ["t.jsonl"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A report directory that is a file is an EvidenceError."""
    (tmp_path / "report").write_text("")
    with pytest.raises(EvidenceError, match="report"):
        Store(tmp_path / "report").begin(RUN)


def test_the_summary_is_replaced(store: Store) -> None:
    """summary.json is always one whole summary."""
    store.summarise({"experiments": [1]})
    store.summarise({"experiments": []})
    assert json.loads(store.summary_path.read_text()) == {"experiments": []}


def test_a_block_is_settled_once(tmp_path: Path) -> None:
    """The first to ask settles it; whoever asks later, also in another process, gets the same and asks nobody."""
    Store(tmp_path).begin({"id": "run", "started": 0.0})
    asked: list[int] = []

    def ask(value: int) -> dict[str, int]:
        asked.append(value)
        return {"dose": value}

    first = Store(tmp_path).settle("e", 3, lambda: ask(1))
    assert Store(tmp_path).settle("e", 3, lambda: ask(2)) == first == {"experiment": "e", "block": 3, "dose": 1}
    assert Store(tmp_path).settle("e", 4, lambda: ask(3))["dose"] == 3
    assert Store(tmp_path).settle("f", 3, lambda: ask(4))["dose"] == 4
    assert asked == [1, 3, 4]


def test_processes_settle_a_block_alike(tmp_path: Path) -> None:
    """Of many processes that ask at the same time exactly one settles each block."""
    Store(tmp_path).begin({"id": "run", "started": 0.0})
    code = (
        "import os, pathlib, sys; from holdback.history.store import Store; store = Store(pathlib.Path(sys.argv[1]));"
        "print([store.settle('e', n, lambda: {'by': os.getpid()})['by'] for n in range(20)])"
    )
    source = str(Path(__file__).parents[2] / "src")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            env={**os.environ, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert len(set(said)) == 1
    assert len((tmp_path / "blocks.jsonl").read_text().splitlines()) == 20
