"""How many trials an hour: a real run of the first experiment, in one world and in several at once.

Run it alone with `python -m bench.bench_trials`. The time counts from the first trial's begin to the last one's end:
starting worlds is another figure (`bench_world`), and costs a long run little.
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
    return [
        _figure("trials an hour, one world", ONE_WORLD, report / "one-world", [f"--count={count}"], say),
        _figure(
            "trials an hour, three worlds",
            THREE_WORLDS,
            report / "three-worlds",
            [f"--count={3 * count}", "-n", "3"],
            say,
        ),
    ]


def _figure(name: str, promised: float, report: Path, options: list[str], say: Callable[[str], None]) -> Figure:
    rows = _run(name, report.resolve(), options, say)
    usable = [row for row in rows if row.outcome is not Outcome.INVALID]
    if not usable:
        raise RuntimeError(f"no trial of {name} can be used; see {report}")
    seconds = max(row.started + row.seconds for row in usable) - min(row.started for row in usable)
    outcomes = Counter(row.outcome.value for row in rows)
    detail = {**outcomes, "seconds each": median(row.seconds for row in usable)}
    return Figure(name, 3600 * len(usable) / seconds, "", promised=promised, better="more", detail=detail)


def _run(name: str, report: Path, options: list[str], say: Callable[[str], None]) -> Sequence[Row]:
    report.mkdir(parents=True, exist_ok=True)
    store, log = Store(report), report / "pytest.log"
    before = store.run().get("id")
    command = [sys.executable, "-m", "pytest", *_EXPERIMENT, f"--holdback-report={report}", *options]
    say(f"{name}: pytest {' '.join(options)}, which writes to {log}")
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
