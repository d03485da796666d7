"""Clusters: how to reach them, what to ask them, and local ones made of child processes."""

from __future__ import annotations

from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.clusters.kinds import Kind
from holdback.clusters.local import LocalCluster, local_clusters
from holdback.clusters.protocols import Cluster

__all__ = ["Access", "Api", "Cluster", "Kind", "LocalCluster", "local_clusters"]
