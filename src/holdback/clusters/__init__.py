"""Clusters: how to reach them, what to ask them, and where they come from."""

from __future__ import annotations

from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.kinds import Kind
from holdback.clusters.local import LocalCluster, LocalProvider, local_clusters
from holdback.clusters.protocols import Cluster, Provider

__all__ = ["Access", "Api", "Cluster", "Kind", "LocalCluster", "LocalProvider", "Provider", "local_clusters"]
