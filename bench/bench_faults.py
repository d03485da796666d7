"""What many faults cost: how quickly they come and go, and what Toxiproxy and the router keep of them.

Run it alone with `python -m bench.bench_faults`. 10,000 operations, 50 at once, on all lanes of a link to a real API
server: delays in both directions, slowness, cuts and other toxics.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console

from bench.figures import Figure, machine, table
from holdback.binaries import Binaries
from holdback.clusters.local import local_clusters
from holdback.faults.injection import inject
from holdback.faults.values import Cut, Delay, Fault, Slow, Toxic
from holdback.process import open_run
from holdback.traffic.lanes import Lane, Link
from holdback.traffic.network import Network, network

__all__ = ["AT_ONCE", "FLAT", "OPERATIONS", "Load", "load", "measure"]

OPERATIONS = 10_000
"""A fault is two: it comes, and it goes."""
AT_ONCE = 50
ROUNDS = 10
FLAT = 25.0
"""Percent by which a process may grow in the second half of the rounds and still count as one that keeps nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """What came of a load: its seconds, and the bytes that each process had after each of the rounds."""

    seconds: float
    memory: Mapping[str, Sequence[int]]

    @property
    def growth(self) -> float:
        """Percent by which the process that grew most did so after the first half of the rounds.

        Most against most: a runtime that collects its garbage gives memory back and takes it again.
        """
        return max(100 * (max(after[_HALF:]) / max(after[:_HALF]) - 1) for after in self.memory.values())


_HALF = ROUNDS // 2


def load(net: Network, lanes: Sequence[Lane], *, say: Callable[[str], None] = lambda _: None) -> Load:
    """Let the faults come and go on these lanes.

    Raises:
        HoldbackError: one could not be put in force or ended.
    """
    processes = {child.name.partition("-")[0]: psutil.Process(child.pid) for child in net.processes}
    memory: dict[str, list[int]] = {name: [] for name in processes}
    begin = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(1, ROUNDS + 1):
            faults = (_fault(lanes, each) for each in range(OPERATIONS // 2 // ROUNDS))
            list(pool.map(lambda fault: _come_and_go(net, fault), faults))
            for name, process in processes.items():
                memory[name].append(process.memory_info().rss)
            say(f"faults: round {number} of {ROUNDS}")
    return Load(time.monotonic() - begin, memory)


def _fault(lanes: Sequence[Lane], number: int) -> Fault:
    lane = lanes[number % len(lanes)]
    kinds: Sequence[Fault] = (
        Delay(lane, 1 + number % 3),
        Slow(lane, 1000),
        Cut(lane),
        Toxic(lane, "slicer", {"average_size": 1000, "size_variation": 10, "delay": 0}),
        Delay(lane, 1, of="requests"),
    )
    return kinds[number % len(kinds)]


def _come_and_go(net: Network, fault: Fault) -> None:
    with inject(net, [fault], lambda *_: None):
        pass


def measure(binaries: Binaries, *, say: Callable[[str], None] = lambda _: None) -> Figure:
    """Make the load on a cluster of its own.

    Raises:
        HoldbackError: the cluster does not start, or a fault could not be ended.
    """
    link = Link("bench", "cluster", ("configmaps",))
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run = stack.enter_context(open_run(logs=logs))
        cluster = stack.enter_context(local_clusters(run, binaries, [link.cluster]))[link.cluster]
        net = stack.enter_context(network(run, binaries, {link: cluster.access}))
        found = load(net, link.lanes, say=say)
        left = net.residue()
    detail = {"operations a second": OPERATIONS / found.seconds, "left behind": len(left)}
    sizes = {f"{name}, MB": " ".join(f"{size / 1e6:.0f}" for size in after) for name, after in found.memory.items()}
    name = f"{OPERATIONS:,} operations on faults, {AT_ONCE} at once: memory grows in the second half by"
    return Figure(name, found.growth, "%", promised=FLAT, detail={**detail, **sizes})


if __name__ == "__main__":
    console, about = Console(), machine()
    console.print(table([measure(Binaries(), say=console.print)], about))
