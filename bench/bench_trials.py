"""How many trials an hour: a real run of the first experiment, in one world and in several at once.

Run it alone with `python -m bench.bench_trials`. Only the time counts in which all worlds are at work: starting them is
another figure (`bench_world`), and costs a long run little.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from rich.console import Console

from bench.figures import Figure, machine, table
from holdback.history.store import Store
from holdback.trials import Outcome, Row, read_rows

__all__ = ["measure"]

ONE_WORLD, THREE_WORLDS = 600.0, 1500.0
"""Trials an hour that are promised, both arms together."""
_ROOT = Path(__file__).parent.parent
_EXPERIMENT = ["e2e/test_readmission.py", "-k", "drained"]
_FINISHED = {0, 1}  # 1: few trials make no verdict, which is not what is asked here


def measure(report: Path, *, count: int = 5, say: Callable[[str], None] = lambda _: None) -> list[Figure]:
    """`count` trials an arm in one world, and three times as many in three worlds; evidence goes below `report`.

    Raises:
        RuntimeError: a run did not finish, or no trial of it can be used.
    """
    one = _run(report / "one-world", say, f"--count={count}")
    three = _run(report / "three-worlds", say, f"--count={3 * count}", "-n", "3")
    return [
        _figure("trials an hour, one world", ONE_WORLD, one, worlds=1),
        _figure("trials an hour, three worlds", THREE_WORLDS, three, worlds=3),
    ]


def _figure(name: str, promised: float, rows: Sequence[Row], *, worlds: int) -> Figure:
    usable = [row.seconds for row in rows if row.outcome is not Outcome.INVALID]
    if not usable:
        raise RuntimeError(f"{name}: no trial can be used: {rows[0].reason if rows else 'none was made'}")
    detail = {**Counter(row.outcome.value for row in rows), "seconds each": median(usable)}
    return Figure(name, 3600 * _rate(rows, worlds), "", promised=promised, better="more", detail=detail)


def _rate(rows: Sequence[Row], worlds: int) -> float:
    """Usable trials a second while so many ran at once: of a trial that reaches beyond that time, only its part."""
    spans = [(row.started, row.started + row.seconds) for row in rows]
    begins = [begin for begin, _ in spans if sum(a <= begin < b for a, b in spans) == worlds]
    ends = [end for _, end in spans if sum(a < end <= b for a, b in spans) == worlds]
    first, last = min(begins, default=min(spans)[0]), max(ends, default=max(end for _, end in spans))
    parts = (
        (min(last, end) - max(first, begin)) / (end - begin)
        for (begin, end), row in zip(spans, rows, strict=True)
        if row.outcome is not Outcome.INVALID
    )
    return sum(max(0.0, part) for part in parts) / (last - first)


def _run(report: Path, say: Callable[[str], None], *options: str) -> Sequence[Row]:
    report = report.resolve()
    report.mkdir(parents=True, exist_ok=True)
    store, log = Store(report), report / "pytest.log"
    before = store.run().get("id")
    command = [sys.executable, "-m", "pytest", *_EXPERIMENT, f"--holdback-report={report}", *options]
    say(f"pytest {' '.join(options)}, which writes to {log}")
    with log.open("wb") as output, subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output) as run:
        told = 0
        while run.poll() is None:
            time.sleep(0.5)
            judged = len(store.trials()[0]) if store.run().get("id") != before else 0
            if judged > told:
                say(f"{judged} trials judged")
            told = judged
    if run.returncode not in _FINISHED:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {run.returncode}; see {log}")
    return read_rows(store)[0]


if __name__ == "__main__":
    console, about = Console(), machine()
    console.print(table(measure(Path("bench-report"), say=console.print), about))
