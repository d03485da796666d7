"""A second API server of a cluster, whose view of the data can be held: what time travel needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdback.clusters.abilities import doubling
from holdback.clusters.protocols import Cluster, SecondServer
from holdback.traffic.lanes import Pipe
from holdback.traffic.network import Network

__all__ = ["second_server", "view_of"]


def view_of(cluster: str) -> Pipe:
    """How the cluster's second API server comes to know what is in etcd. Held, it knows what it knew."""
    return Pipe(f"{cluster}-second", cluster, "etcd")


@contextmanager
def second_server(network: Network, cluster: Cluster) -> Iterator[SecondServer]:
    """Start the second API server of a cluster and tell the network of it. Once for each cluster of a network.

    Raises:
        ConfigurationError: the cluster was not started with `doubled`, or cannot have one.
        ProcessExited, NotReady: it did not come up.
        TrafficError: Toxiproxy is gone.
    """

    def way(port: int) -> int:
        return network.pipe(view_of(cluster.name), f"127.0.0.1:{port}")

    with doubling(cluster).second_server(way) as second:
        network.second(cluster.name, second.access)
        yield second
