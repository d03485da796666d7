"""How long the MultiKueue world takes to start and to stop, and what memory it needs.

Run it alone with `python -m bench.bench_world`. The time is from nothing to MultiKueue active on both managers, with
all executables in the cache.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil
from rich.console import Console

from bench.figures import Figure, machine, table
from holdback.binaries import Binaries
from holdback.clusters import LocalProvider
from holdback.controllers.kueue import multikueue_world
from holdback.controllers.kueue.hosting import Site
from holdback.controllers.kueue.outside import Outside
from holdback.controllers.kueue.source import KueueBuild, build_kueue
from holdback.controllers.kueue.variant import read_variant
from holdback.process import open_run
from holdback.trials import ARMS, CONTROL

__all__ = ["measure"]

READY_WITHIN = 20.0
"""Seconds that are promised."""
_VARIANTS = Path(__file__).parent.parent / "clusters" / "kueue"


@dataclass(frozen=True, slots=True)
class _World:
    """One start and stop: seconds of each phase, processor seconds of all, seconds of stopping, megabytes.

    Memory is by executable, with the number of its processes.
    """

    phases: Mapping[str, float]
    work: float
    stopping: float
    memory: Mapping[str, tuple[float, int]]

    @property
    def ready(self) -> float:
        return sum(self.phases.values())


def measure(binaries: Binaries, *, worlds: int = 3, say: Callable[[str], None] = lambda _: None) -> list[Figure]:
    """Start and stop so many worlds one after another; the median start with its phases, its stop, its memory."""
    builds = {arm: build_kueue(read_variant(str(_VARIANTS / f"{arm}.toml"), arm), binaries) for arm in ARMS}
    made = []
    for number in range(1, worlds + 1):
        say(f"world {number} of {worlds}")
        made.append(_one(binaries, builds, say))
    middle = sorted(made, key=lambda world: world.ready)[(len(made) - 1) // 2]
    starts = {f"world {number}": world.ready for number, world in enumerate(made, start=1)}
    memory = {f"{count} {name}" if count > 1 else name: size for name, (size, count) in middle.memory.items()}
    return [
        Figure("world ready", middle.ready, "s", promised=READY_WITHIN, detail=middle.phases),
        Figure("every start", median(starts.values()), "s", detail=starts),
        Figure("processor time of a start", middle.work, "s"),
        Figure("world stopped", median(world.stopping for world in made), "s"),
        Figure("memory of a world", sum(memory.values()), "MB", detail=memory),
    ]


def _one(binaries: Binaries, builds: Mapping[str, KueueBuild], say: Callable[[str], None]) -> _World:
    marks: list[tuple[str, float]] = []

    def phase(name: str) -> None:
        marks.append((name, time.monotonic()))
        say(name)

    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run = stack.enter_context(open_run(logs=logs))
        begin, idle = time.monotonic(), _work()
        site = Site(run, binaries, LocalProvider(run, binaries), Outside(run))
        with multikueue_world(site, builds, builds[CONTROL], say=phase):
            ready = time.monotonic()
            work, memory = _work() - idle, _memory()
            stop = time.monotonic()
        stopped = time.monotonic()
    ends = [*(at for _, at in marks[1:]), ready]
    begins = [begin, *(at for _, at in marks[1:])]
    phases = {name: end - at for (name, _), at, end in zip(marks, begins, ends, strict=True)}
    return _World(phases, work, stopped - stop, memory)


def _processes() -> list[psutil.Process]:
    ourselves = psutil.Process()
    return [ourselves, *ourselves.children(recursive=True)]


def _work() -> float:
    """Seconds that all of us have had a processor: unlike the time that passed, hardly longer on a busy machine."""
    return sum(times.user + times.system for times in (each.cpu_times() for each in _processes()))


def _memory() -> dict[str, tuple[float, int]]:
    """Resident megabytes and number of all of us, by executable."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in _processes():
        found[Path(each.exe()).name].append(each.memory_info().rss / 2**20)
    return {name: (sum(sizes), len(sizes)) for name, sizes in sorted(found.items())}


if __name__ == "__main__":
    console, about = Console(), machine()
    console.print(table(measure(Binaries(), say=console.print), about))
