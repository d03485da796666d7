"""What a lane costs: the same GET straight to a local API server and through router and Toxiproxy.

Run it with `python -m bench.bench_lane`. The two ways take turns, so that both meet the same noise, and the
client speaks HTTP/2 over one open connection, as client-go does.
"""

from __future__ import annotations

import ssl
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import quantiles

import httpx
from rich.console import Console
from rich.table import Table

from holdback.binaries import Binaries
from holdback.clusters.access import Access
from holdback.clusters.local import local_clusters
from holdback.process import open_run
from holdback.traffic.lanes import Link
from holdback.traffic.network import network

TARGET = 3.0
"""Milliseconds that a lane may add at the median."""
_PATH = "/api/v1/namespaces/default"
_WARM_UP = 50
_POINTS = {"p50": 49, "p95": 94, "p99": 98}


def measure(binaries: Binaries, *, requests: int = 1000) -> dict[str, float]:
    """Milliseconds of a GET `direct` and by `lane` at p50, p95 and p99, and what the lane `added` at the median."""
    link = Link("bench", "cluster", ("workloads",))
    with ExitStack() as stack:
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run = stack.enter_context(open_run(logs=logs))
        cluster = stack.enter_context(local_clusters(run, binaries, [link.cluster]))[link.cluster]
        net = stack.enter_context(network(run, binaries, {link: cluster.access}))
        direct = stack.enter_context(_client(cluster.access))
        lane = stack.enter_context(_client(net.access(link, cluster.access.token)))
        for _ in range(_WARM_UP):
            _get(direct), _get(lane)
        pairs = [(_get(direct), _get(lane)) for _ in range(requests)]
    figures = _points("direct", [pair[0] for pair in pairs]) | _points("lane", [pair[1] for pair in pairs])
    return figures | {"added": figures["lane p50"] - figures["direct p50"]}


def _client(access: Access) -> httpx.Client:
    return httpx.Client(
        base_url=access.server,
        verify=ssl.create_default_context(cadata=access.ca),
        headers={"Authorization": f"Bearer {access.token}"},
        http2=True,
        trust_env=False,
    )


def _get(client: httpx.Client) -> float:
    begin = time.perf_counter()
    client.get(_PATH).raise_for_status()
    return (time.perf_counter() - begin) * 1000


def _points(way: str, durations: Sequence[float]) -> dict[str, float]:
    percentiles = quantiles(durations, n=100)
    return {f"{way} {name}": percentiles[index] for name, index in _POINTS.items()}


def table(figures: dict[str, float]) -> Table:
    """The figures for people."""
    made = Table("milliseconds", *_POINTS, title="GET of one object")
    for way in ("direct", "lane"):
        made.add_row(way, *(f"{figures[f'{way} {name}']:.2f}" for name in _POINTS))
    made.caption = f"a lane adds {figures['added']:.2f} ms at the median (at most {TARGET:g})"
    return made


if __name__ == "__main__":
    Console().print(table(measure(Binaries())))
