"""What strict removal of finalizers costs: `nox -s scale -- --pods 1000`.

Pods are created in a cluster with kwok nodes, admitted by Kueue, bound, run for a second and finish. Both arms run one
executable of Kueue and differ in a feature gate; they take turns, each with a new cluster, and begin in turn. Or they
run side by side: half the time, for loads that leave the machine idle as a throttled one does.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.figures import machine
from bench.scale.load import Counts
from bench.scale.measuring import Measured, Wanted, measure
from bench.scale.report import append, interrupted, summary, table, verdict
from holdback import process
from holdback.binaries import Binaries, Progress
from holdback.controllers.kueue.source import KueueBuild, build_kueue
from holdback.controllers.kueue.variant import read_variant
from holdback.errors import HoldbackError
from holdback.trials.arms import ARMS

_VARIANTS = Path(__file__).parents[2] / "clusters" / "kueue"
_KUEUES_OWN_QPS = 50
_BAR, _WIDTH = 24, 120


def main() -> int:
    """Measure, report; 0 when all was measured, 130 after Ctrl-C, 1 when something failed."""
    options = parse(sys.argv[1:])
    console, progress = Console(), Progress()
    if not console.is_terminal:
        console = Console(width=_WIDTH)  # nobody's terminal sets a limit
    wanted = [Wanted(options.pods, qps, not options.alone) for qps in _throttles(options.throttle)]
    out: Path = options.report
    found: list[Measured] = []
    code = 0
    with tempfile.TemporaryDirectory(prefix="holdback-scale-") as scratch:
        logs = Path(scratch) if options.logs is None else options.logs
        try:
            with process.open_run(logs=logs) as run:
                binaries = Binaries(progress=progress, environment=run.environment)
                binaries.get("etcd", "kube-apiserver", "kwok", "kustomize")
                builds = {
                    arm: build_kueue(read_variant(str(_VARIANTS / f"finalizers-{arm}.toml"), arm), binaries)
                    for arm in ARMS
                }
                bench = _Bench(run, binaries, builds, progress, out)
                for each in wanted:
                    for group in groups(options.rounds, together=options.together):
                        bench.measure(group, each, found)
        except KeyboardInterrupt:
            console.print("interrupted: this is what was measured until then")
            code = 130
        except HoldbackError as error:
            console.print(str(error), style="red", markup=False)
            code = 1
    for each in wanted:
        _report(console, [one for one in found if one.wanted == each], out)
    return code


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; a wrong one ends the program with a message."""
    parser = argparse.ArgumentParser(prog="nox -s scale --", description=__doc__)
    parser.add_argument("--pods", type=int, default=1000, help="pods of each measurement (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each arm (default: 3)")
    parser.add_argument(
        "--throttle",
        choices=["kueue", "none", "both"],
        default="none",
        help=f"Kueue's own default of {_KUEUES_OWN_QPS} requests a second, none, or both (default: none)",
    )
    parser.add_argument("--together", action="store_true", help="both arms at the same time, each in its own cluster")
    parser.add_argument("--alone", action="store_true", help="no other controller adds finalizers")
    parser.add_argument("--report", type=Path, default=Path("scale-report"), help="where the figures go")
    parser.add_argument("--logs", type=Path, help="where the logs of all processes stay (default: nowhere)")
    options = parser.parse_args(arguments)
    if options.pods < 1 or options.rounds < 1:
        parser.error("--pods and --rounds must be 1 or more")
    return options


def _throttles(word: str) -> list[int | None]:
    choices: dict[str, list[int | None]] = {"kueue": [_KUEUES_OWN_QPS], "none": [None], "both": [_KUEUES_OWN_QPS, None]}
    return choices[word]


Part = tuple[int, str]
"""A round and an arm."""


def groups(rounds: int, *, together: bool) -> list[list[Part]]:
    """What is measured at the same time, one group after the other."""
    # What changes with time must not meet always the same arm first.
    each = [[(number, arm) for arm in (ARMS if number % 2 else reversed(ARMS))] for number in range(1, rounds + 1)]
    return each if together else [[part] for parts in each for part in parts]


@dataclass(frozen=True, slots=True)
class _Bench:
    """Measures the parts of a group side by side, in threads of their own."""

    run: process.Run
    binaries: Binaries
    builds: Mapping[str, KueueBuild]
    progress: Progress
    out: Path

    def measure(self, group: Sequence[Part], wanted: Wanted, found: list[Measured]) -> None:
        """Put what was measured to `found` and on disk, also when Ctrl-C ends it early."""
        stop = threading.Event()
        with ThreadPoolExecutor(len(group), thread_name_prefix="measuring") as pool:
            futures = [pool.submit(self._one, part, wanted, stop) for part in group]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
                for measured in _results(futures):
                    found.append(measured)
                    append(self.out / "measurements.jsonl", measured)
        for future in futures:
            future.result()

    def _one(self, part: Part, wanted: Wanted, stop: threading.Event) -> Measured | None:
        number, arm = part
        with self.progress.task(f"round {number}, {arm}, {wanted.throttle}") as task:

            def tell(phase: str, counts: Counts) -> None:
                task.note = phase if not counts.created else _bar(counts, wanted.pods)

            return measure(
                self.run,
                self.binaries,
                self.builds[arm],
                wanted,
                arm=arm,
                round_=number,
                pid=os.getpid(),
                tell=tell,
                stop=stop,
            )


def _results(futures: Sequence[Future[Measured | None]]) -> Iterator[Measured]:
    for future in futures:
        if future.exception() is None and (measured := future.result()) is not None:
            yield measured


def _bar(counts: Counts, pods: int) -> str:
    done = counts.released * _BAR // pods
    return (
        f"{'━' * done}{'─' * (_BAR - done)} {counts.released / pods:.0%}: "
        f"{counts.created} created, {counts.finished} finished, {counts.released} let go of"
    )


def _report(console: Console, found: list[Measured], out: Path) -> None:
    if not found:
        return
    if any(each.complete for each in found):
        console.print(table(found))
    for line in [*interrupted(found), verdict(found)]:
        console.print(line, highlight=False)
    name = found[0].wanted.throttle.replace(" ", "-")
    path = out / f"{found[0].wanted.pods}-pods-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), **summary(found)}, indent=2) + "\n")
    console.print(f"written to {path}")


if __name__ == "__main__":
    sys.exit(main())
