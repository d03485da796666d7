"""The evidence on disk: `holdback-report/`, written as it happens and readable whatever happens.

```
run.json              what ran: schema, seed, options, variants, machine, versions, command line
blocks.jsonl          what was settled of a block before its first trial, where that depends on those before it
planned.jsonl         one line before each trial: a trial that was interrupted is here and not below
histories/ID.jsonl    a header, then one event a line; complete or absent
plans/ID.yaml         the faults of a trial and their triggers, for `pytest --plan`
replays/ID/, shrinks/ID/   reports like this one, of a trial made again and of the search for a smaller plan
trials.jsonl          one row after each trial was judged
summary.json          computed from trials.jsonl at the end
index.html, junit.xml, summary.md   the report, made from all of these
logs/                 of every process that was started
earlier/START/        earlier reports; nothing is ever deleted
```
Several processes (pytest-xdist) write one report: appends are made under a lock and synced. A line that cannot be
read is reported with its number and skipped: never fatal, never silent.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock

from holdback.errors import EvidenceError
from holdback.history.events import Event, decode, encode
from holdback.history.history import History

__all__ = ["SCHEMA", "Damage", "Store", "process_of"]

SCHEMA = 1
"""Version of run.json and of the histories."""
_SAME_START = 2.0
"""Seconds: systems tell a process's start by a clock that may be set meanwhile."""
_PARTS = (
    "run.json",
    "blocks.jsonl",
    "plans",
    "replays",
    "shrinks",
    "shrunk.yaml",
    "planned.jsonl",
    "trials.jsonl",
    "summary.json",
    "histories",
    "logs",
    "index.html",
    "junit.xml",
    "summary.md",
)
"""What belongs to one run. Only these move to `earlier/`: a user may point the report at a folder with other files."""

Lines = list[tuple[int, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Damage:
    """A line of evidence that cannot be read; lines count from 1."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class Store:
    """One report directory; making a Store touches nothing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.run_path = directory / "run.json"
        self.blocks_path = directory / "blocks.jsonl"
        self.planned_path = directory / "planned.jsonl"
        self.trials_path = directory / "trials.jsonl"
        self.summary_path = directory / "summary.json"
        self.histories = directory / "histories"
        self.plans = directory / "plans"
        self.shrunk_path = directory / "shrunk.yaml"

    def logs(self, worker: str) -> Path:
        """Where one process of the run keeps its logs."""
        return self.directory / "logs" / worker

    def history_path(self, trial: str) -> Path:
        """Where one trial's history is kept."""
        return self.histories / f"{trial}.jsonl"

    def plan_path(self, trial: str) -> Path:
        """Where the plan of one trial's faults is kept."""
        return self.plans / f"{trial}.yaml"

    def replay_of(self, trial: str) -> Store:
        """The report of that trial made again."""
        return Store(self.directory / "replays" / trial)

    def shrink_of(self, trial: str) -> Store:
        """The report of the search for a smaller plan of that trial."""
        return Store(self.directory / "shrinks" / trial)

    def begin(self, run: Mapping[str, Any]) -> None:
        """Make this the report of `run`, which has at least an `id` and `started` (wall time).

        Every process of a run may call it, and only the first call does something. A report of another run moves
        to `earlier/`, unless its `process` (see `process_of`) still writes it.

        Raises:
            EvidenceError: the directory cannot be written, or another run is writing it.
        """
        with self._locked():
            before = self.run()
            if before.get("id") == run["id"]:
                return
            writer: Any = before.get("process")
            if writer != run.get("process") and _runs(writer):
                raise EvidenceError(
                    f"another run, of process {writer['pid']}, is writing the report {self.directory}",
                    remedy="wait for its end, or choose another directory with --holdback-report",
                )
            self._move_away(before)
            self.histories.mkdir(exist_ok=True)
            _replace(self.run_path, json.dumps({"schema": SCHEMA, **run}, indent=2, default=str) + "\n")

    def add(self, key: str, facts: Sequence[Mapping[str, Any]]) -> None:
        """Add facts to a list in run.json that are known only later, such as the variants; each stays there once."""
        with self._changing():
            run = self.run()
            known = [*run.get(key, ())]
            known += [dict(fact) for fact in facts if fact not in known]
            _replace(self.run_path, json.dumps({**run, key: known}, indent=2, default=str) + "\n")

    def demand(self) -> None:
        """Prove that the report is where it was begun.

        Raises:
            EvidenceError: it was deleted or moved away.
        """
        if not self.run_path.exists():
            raise self.gone()

    def gone(self) -> EvidenceError:
        """The error for a report that vanished: a new one in its place would lack what was made so far."""
        return EvidenceError(
            f"the report {self.directory} was deleted or moved away while the run went on",
            remedy="run again and leave it alone until the end, or choose another directory with --holdback-report",
        )

    def run(self) -> dict[str, Any]:
        """What run.json says; empty when there is none, or it is damaged."""
        return _object(self.run_path)

    def summary(self) -> dict[str, Any]:
        """What summary.json says; empty when there is none, or it is damaged."""
        return _object(self.summary_path)

    @property
    def finished(self) -> bool:
        """Whether its run came to an end by which the summary was written, be it by Ctrl-C."""
        run = self.run().get("id")
        return run is not None and self.summary().get("run") == run

    def settle(self, experiment: str, block: int, ask: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """What was settled of a block before its first trial; the same for its other trials, whoever makes them.

        `ask` is called for the first of them only, and no other process settles anything meanwhile.
        """
        key = {"experiment": experiment, "block": block}
        with self._changing():
            for _, line in _read(self.blocks_path)[0]:
                if key.items() <= line.items():
                    return line
            settled = {**key, **ask()}
            _append(self.blocks_path, settled)
            return settled

    def plan(self, trial: Mapping[str, Any]) -> None:
        """Say, before a trial, that it will be made."""
        with self._changing():
            _append(self.planned_path, trial)

    def judged(self, row: Mapping[str, Any]) -> None:
        """Keep a judged trial's row."""
        with self._changing():
            _append(self.trials_path, row)

    def record(self, trial: str, history: History) -> None:
        """Keep a trial's history, before it is judged."""
        header = {"schema": SCHEMA, "closed": history.closed, "scope": dict(history.scope)}
        lines = (json.dumps(line, default=str) for line in (header, *map(encode, history.events)))
        with self._begun():
            with _evidence(self.histories):
                self.histories.mkdir(exist_ok=True)
            _replace(self.history_path(trial), "\n".join(lines) + "\n")

    def keep_plan(self, trial: str, text: str) -> None:
        """Keep the plan of a trial's faults."""
        with self._begun():
            with _evidence(self.plans):
                self.plans.mkdir(exist_ok=True)
            _replace(self.plan_path(trial), text)

    def keep_shrunk(self, text: str) -> None:
        """Keep the smallest plan that a search has found so far."""
        _replace(self.shrunk_path, text)

    def summarise(self, summary: Mapping[str, Any]) -> None:
        """Keep the run's summary, replacing an earlier one at once."""
        with self._begun():
            _replace(self.summary_path, json.dumps(summary, indent=2) + "\n")

    def trials(self) -> tuple[Lines, list[Damage]]:
        """The judged rows with their line numbers, and the lines that could not be read."""
        return _read(self.trials_path)

    def planned(self) -> tuple[Lines, list[Damage]]:
        """The planned trials, likewise."""
        return _read(self.planned_path)

    def history(self, trial: str) -> tuple[History, tuple[Damage, ...]]:
        """A trial's history, and the lines of it that could not be read.

        Raises:
            EvidenceError: there is no such history, or its header is damaged.
        """
        path = self.history_path(trial)
        if not path.exists():
            raise EvidenceError(
                f"there is no history of a trial {trial!r} in {self.directory}",
                remedy="a trial that was interrupted, or whose world never stood, has none; trials.jsonl says why",
            )
        lines, damages = _read(path)
        if not lines or lines[0][0] != 1 or lines[0][1].get("schema") != SCHEMA:
            raise EvidenceError(
                f"the first line of {path} is no header of schema {SCHEMA}",
                remedy="it is damaged, or another holdback wrote it (run.json names its version)",
            )
        header = lines[0][1]
        events: list[Event] = []
        for number, data in lines[1:]:
            try:
                events.append(decode(data))
            except EvidenceError as error:
                damages.append(Damage(path, number, error.message))
        history = History(tuple(events), closed=bool(header.get("closed")), scope=header.get("scope", {}))
        return history, tuple(sorted(damages, key=lambda damage: damage.line))

    def _move_away(self, before: Mapping[str, Any]) -> None:
        there = [self.directory / part for part in _PARTS if (self.directory / part).exists()]
        if not there:
            return
        with _evidence(self.directory):
            started = before.get("started")
            if not isinstance(started, int | float):
                started = min(part.stat().st_mtime for part in there)
            stamp = datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
            target, again = self.directory / "earlier" / stamp, 1
            while target.exists():
                again += 1
                target = target.with_name(f"{stamp}-{again}")
            target.mkdir(parents=True)
            for part in there:
                part.rename(target / part.name)

    @contextmanager
    def _begun(self) -> Iterator[None]:
        """Around a write to a report that was begun: what cannot be written since it vanished is told as that."""
        self.demand()
        try:
            yield
        except EvidenceError:
            self.demand()
            raise

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Likewise, where one process at a time may write."""
        with self._begun(), self._locked():
            self.demand()  # it may have vanished while another process had the lock
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _evidence(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.directory / ".lock")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def process_of(pid: int) -> dict[str, Any]:
    """What run.json says of the process that a run must not outlive: number and start, as numbers are used again."""
    return {"pid": pid, "created": psutil.Process(pid).create_time()}


def _runs(process: Any) -> bool:
    try:
        return bool(abs(psutil.Process(process["pid"]).create_time() - process["created"]) < _SAME_START)
    except (psutil.Error, KeyError, TypeError, ValueError):
        return False  # of a killed run, or of an older holdback, which did not tell


@contextmanager
def _evidence(path: Path) -> Iterator[None]:
    """Turn the system's refusal into an EvidenceError."""
    try:
        yield
    except OSError as error:
        raise EvidenceError(
            f"cannot write the evidence {path}: {error.strerror or error}",
            remedy="free space or choose another directory with --holdback-report; what is there stays readable",
        ) from error


def _append(path: Path, data: Mapping[str, Any]) -> None:
    """Add a line durably; the store must be locked."""
    line = (json.dumps(data, default=str) + "\n").encode()
    with _evidence(path), path.open("a+b", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                # A writer was killed in the middle of its line: only that line is lost.
                line = b"\n" + line
        try:
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError:
            # Half a line would hide the next one: the file stays as it was.
            file.truncate(end)
            raise


def _replace(path: Path, text: str) -> None:
    """Write a whole file durably: it is the old one or the new one, whatever happens."""
    with _evidence(path):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _object(path: Path) -> dict[str, Any]:
    """What a file of one object says; empty when there is none, or it is damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _read(path: Path) -> tuple[Lines, list[Damage]]:
    lines: Lines = []
    damages: list[Damage] = []
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise EvidenceError(
            f"cannot read the evidence {path}: {error.strerror or error}",
            remedy="make it readable: `ls -l` tells why not",
        ) from error
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line:
            continue
        try:
            data = json.loads(line)
        except (ValueError, RecursionError) as error:
            damages.append(Damage(path, number, f"no JSON: {error}"))
            continue
        if isinstance(data, dict):
            lines.append((number, data))
        else:
            damages.append(Damage(path, number, "no JSON object"))
    return lines, damages
