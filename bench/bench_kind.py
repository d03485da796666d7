"""How long kind clusters with a Kueue in each take: `nox -s kind-bench -- --clusters 3`.

The time is from nothing to Kueue's webhooks answering in every cluster, with executables and images there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console

from bench.figures import Figure, machine, table
from holdback.binaries import Binaries
from holdback.clusters.abilities import housing
from holdback.clusters.kind import KindProvider
from holdback.controllers.kueue.hosting import Settings
from holdback.controllers.kueue.inside import Inside, image_of
from holdback.controllers.kueue.source import build_kueue
from holdback.controllers.kueue.starting import client_of, each, start_kueues, wanted_kueues
from holdback.controllers.kueue.variant import read_variant
from holdback.process import open_run
from holdback.traffic.lanes import Link
from holdback.traffic.network import network
from holdback.trials import CONTROL

__all__ = ["measure"]

READY_WITHIN = 120.0
"""Seconds that are promised for three clusters."""
_VARIANT = Path(__file__).parent.parent / "clusters" / "kueue" / "control.toml"


def main() -> None:
    """Measure once and print."""
    parser = argparse.ArgumentParser(prog="bench.bench_kind", description=__doc__)
    parser.add_argument("--clusters", type=int, default=3, metavar="N", help="how many at once (default: 3)")
    parser.add_argument("--image", default="", help="the node image (default: that of your kind)")
    options = parser.parse_args()
    console, about = Console(), machine()
    figures = measure(options.clusters, options.image, say=lambda text: console.print(f"[dim]{text}"))
    console.print(table(figures, about))


def measure(clusters: int, image: str, *, say: Callable[[str], None]) -> list[Figure]:
    """Start so many clusters with their Kueues and stop them again: the time to ready with its parts, and the stop."""
    parts: dict[str, float] = {}

    @contextmanager
    def part(name: str) -> Iterator[None]:
        say(name)
        begin = time.monotonic()
        yield
        parts[name] = time.monotonic() - begin

    names = [f"cluster{number}" for number in range(1, clusters + 1)]
    with tempfile.TemporaryDirectory() as logs, open_run(logs=Path(logs)) as run:
        binaries = Binaries(environment=run.environment)
        build = build_kueue(read_variant(str(_VARIANT), CONTROL), binaries)
        binaries.get("kind", "caddy", "toxiproxy-server")
        wanted = wanted_kueues({name: (build, Settings()) for name in names})
        links = {name: Link(client_of(name), name) for name in names}
        provider = KindProvider(run, binaries, image)
        with ExitStack() as stack:
            with part("clusters created"):
                found = stack.enter_context(provider.clusters(names))
            with part("Kueue's image built and loaded"):
                each(lambda name: housing(found[name]).house(image_of(build), build.binary), names)
            with part("Kueue ready"):
                accesses = {links[name]: found[name].access for name in names}
                net = stack.enter_context(network(run, binaries, accesses, address=provider.address))
                start_kueues(stack, Inside(run), found, net, links=links, wanted=wanted)
            stop = time.monotonic()
        stopped = time.monotonic() - stop
    ready = Figure(f"{clusters} kind clusters ready", sum(parts.values()), "s", promised=READY_WITHIN, detail=parts)
    return [ready, Figure("stopped", stopped, "s")]


if __name__ == "__main__":
    main()
