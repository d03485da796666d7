"""Every figure that the project promises, measured: `python -m bench`, or `nox -s bench`."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from bench import bench_faults, bench_lane, bench_trials, bench_world
from bench.figures import Figure, machine, table, write
from holdback.binaries import Binaries

_REPORT = Path("bench-report")


def main() -> None:
    """Measure all, print one table, write `bench-report/figures.json`."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--count", type=int, default=5, help="trials an arm in one world (default: 5)")
    parser.add_argument("--worlds", type=int, default=3, help="worlds to start and stop (default: 3)")
    options = parser.parse_args()
    if options.count < 1 or options.worlds < 1:
        parser.error("--count and --worlds must be 1 or more")
    console, about, binaries = Console(), machine(), Binaries()

    def say(message: str) -> None:
        console.print(f"[dim]{message}", highlight=False)

    say("a GET by a lane and straight")
    figures = [_lane(bench_lane.measure(binaries)), bench_faults.measure(binaries, say=say)]
    figures += bench_world.measure(binaries, worlds=options.worlds, say=say)
    figures += bench_trials.measure(_REPORT, count=options.count, say=say)
    write(figures, about, _REPORT / "figures.json")
    console.print(table(figures, about))
    console.print(f"written to {_REPORT / 'figures.json'}")


def _lane(found: dict[str, float]) -> Figure:
    detail = {name: value for name, value in found.items() if name != "added"}
    return Figure("a lane adds to a GET", found["added"], "ms", promised=bench_lane.TARGET, detail=detail)


if __name__ == "__main__":
    main()
