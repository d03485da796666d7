"""What a cluster, and whatever it comes from, is to the rest of holdback."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from holdback.clusters.access import Access
from holdback.clusters.api import Api
from holdback.process import Running

__all__ = ["LOOPBACK", "Borrowed", "Cluster", "Doubling", "Housing", "Provider", "Restartable", "SecondServer"]

LOOPBACK = "127.0.0.1"


class Cluster(Protocol):
    """A Kubernetes API to work against. What only some can do is in protocols of their own."""

    @property
    def name(self) -> str:
        """Its name within a world."""

    @property
    def access(self) -> Access:
        """An administrator's way in."""

    @property
    def api(self) -> Api:
        """A client of our own with `access`."""

    def check(self) -> None:
        """Say so if it is gone.

        Raises:
            ProcessExited: one of its processes ended.
            ClusterError: it does not answer.
        """


@runtime_checkable
class Restartable(Protocol):
    """A cluster whose API server can be killed."""

    def restart_server(self) -> None:
        """Kill the API server and start it again on the same data; everyone's connections break.

        Raises:
            ProcessError, ClusterError: it does not come back.
        """


@dataclass(frozen=True, slots=True)
class SecondServer:
    """Another API server of a cluster, on the same data and with the same credentials."""

    program: Running
    access: Access


@runtime_checkable
class Doubling(Protocol):
    """A cluster that can have a second API server."""

    def second_server(self, way: Callable[[int], int]) -> AbstractContextManager[SecondServer]:
        """Another API server; `way` is told the loopback port of the data, and gives one that leads there.

        Raises:
            ConfigurationError: the cluster was not started for that.
            ProcessExited, NotReady: it did not come up.
        """


@runtime_checkable
class Housing(Protocol):
    """A cluster with a node of ours: it takes images that no registry has, and commands can be run in the node."""

    def house(self, image: str, executable: Path) -> None:
        """Make an image of a static executable, which is `/manager` there, and have it in the node.

        Raises:
            ClusterError: that was refused.
        """

    def in_node(self, *words: str) -> list[str]:
        """The command, for this machine, that runs these words in the node."""

    def run_in_node(self, *words: str) -> str:
        """Run a command in the node to its end; what it wrote.

        Raises:
            ClusterError: it failed; with its words.
        """


@runtime_checkable
class Borrowed(Protocol):
    """A cluster that is somebody's own: it is told what will be put into it, and is given back as it was."""

    def announce(self, what: str, objects: Sequence[Mapping[str, Any]]) -> None:
        """Before anything is made in it: `what` says for the user what the objects are for.

        Raises:
            ConfigurationError: it must not have them, or cannot be used with them; nothing was changed.
            ClusterError: it does not answer as it should.
        """


class Provider(Protocol):
    """Where clusters come from."""

    @property
    def name(self) -> str:
        """As the option `--clusters` has it."""

    @property
    def address(self) -> str:
        """The IPv4 address of this machine at which the clusters, and what runs in them, reach what listens here."""

    def clusters(
        self, managers: Sequence[str], workers: Sequence[str] = ()
    ) -> AbstractContextManager[Mapping[str, Cluster]]:
        """Clusters for a world, all ready, by these names; what was started ends with the context.

        Args:
            managers: those in which one arm's controller under test works.
            workers: those that the arms share.

        Raises:
            HoldbackError: they cannot be had, or at the end: they could not be given up as they should.
        """
