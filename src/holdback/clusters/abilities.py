"""Asking a cluster for what not every provider's clusters can do."""

from __future__ import annotations

from holdback.clusters.protocols import Cluster, Doubling, Housing, Restartable
from holdback.errors import ConfigurationError

__all__ = ["doubling", "housing", "restartable"]


def restartable(cluster: Cluster) -> Restartable:
    """The cluster, if its API server can be restarted.

    Raises:
        ConfigurationError: it cannot.
    """
    if isinstance(cluster, Restartable):
        return cluster
    raise _unable(cluster, "its API server cannot be restarted")


def doubling(cluster: Cluster) -> Doubling:
    """The cluster, if it can have a second API server.

    Raises:
        ConfigurationError: it cannot.
    """
    if isinstance(cluster, Doubling):
        return cluster
    raise _unable(cluster, "it cannot have a second API server")


def housing(cluster: Cluster) -> Housing:
    """The cluster, if a controller can be put into its node.

    Raises:
        ConfigurationError: it cannot.
    """
    if isinstance(cluster, Housing):
        return cluster
    raise ConfigurationError(
        f"cluster {cluster.name} ({type(cluster).__name__}) has no node of ours for a controller to run in",
        remedy="run it next to the cluster: `--controllers outside`",
    )


def _unable(cluster: Cluster, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"cluster {cluster.name} ({type(cluster).__name__}): {what}",
        remedy="run this experiment with `--clusters local`, or leave it out with `-k`",
    )
