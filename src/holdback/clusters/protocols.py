"""What a cluster is to the rest of holdback, wherever it comes from."""

from __future__ import annotations

from typing import Protocol

from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.process import Child

__all__ = ["Cluster"]


class Cluster(Protocol):
    """A Kubernetes API to work against."""

    @property
    def name(self) -> str:
        """Its name within a world."""

    @property
    def access(self) -> Access:
        """An administrator's way in."""

    @property
    def api(self) -> Api:
        """A client of our own with `access`."""

    @property
    def children(self) -> tuple[Child, ...]:
        """The processes it consists of, as far as they are ours."""

    def check(self) -> None:
        """Say so if it is gone.

        Raises:
            ProcessExited: one of its processes ended.
            ClusterError: it does not answer.
        """
