"""Where a Kueue runs, and what it is: what the worlds know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdback.binaries import Binaries
from holdback.clusters.access import Access
from holdback.clusters.protocols import Cluster, Provider
from holdback.controllers.kueue.manifests import Manifests
from holdback.controllers.kueue.source import KueueBuild
from holdback.process import Run, Running

__all__ = ["Host", "Settings", "Site", "Wanted"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a world wants of a Kueue beyond what its variant says.

    `frameworks` are the integrations that are on; `configuration` is laid on the shipped configuration, the
    variant's own on top of it. Kueue's webhooks have a say in `namespaces` alone, or everywhere without any.
    """

    frameworks: tuple[str, ...] = ("batch/job",)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """One Kueue to run. `client` is what links, logs and messages call it, `manifests` are those of its version."""

    client: str
    build: KueueBuild
    manifests: Manifests
    settings: Settings


class Host(Protocol):
    """Runs a Kueue for a cluster, somewhere."""

    @property
    def name(self) -> str:
        """As the option `--controllers` has it."""

    def objects(self, wanted: Wanted) -> list[dict[str, Any]]:
        """What `running` will make in the cluster, with other values for what is not known before."""

    def running(
        self,
        cluster: Cluster,
        wanted: Wanted,
        *,
        reach: Callable[[str], Access],
        pipe: Callable[[int], int] | None = None,
    ) -> AbstractContextManager[Running]:
        """Install the Kueue in a cluster that has none, and run it for as long as the context lasts; it is ready.

        Args:
            cluster: where it works.
            wanted: what runs.
            reach: told the token of its service account, gives its way to the cluster.
            pipe: told the loopback port of its webhooks, gives the one at which the API server is to ask them.

        Raises:
            HoldbackError: it did not start.
        """


@dataclass(frozen=True, slots=True)
class Site:
    """What worlds are built on: the run that owns what is started, its executables, its clusters, its Kueues."""

    run: Run
    binaries: Binaries
    provider: Provider
    host: Host
