"""Which hosts of Kueues there are."""

from __future__ import annotations

from holdback.clusters.protocols import Provider
from holdback.controllers.kueue.hosting import Host
from holdback.controllers.kueue.inside import Inside
from holdback.controllers.kueue.outside import Outside
from holdback.errors import ConfigurationError
from holdback.process import Run

__all__ = ["host_of"]


def host_of(name: str, run: Run, provider: Provider) -> Host:
    """The host of that name; without one, the one that suits clusters of this provider.

    Raises:
        ConfigurationError: there is none.
    """
    match name or ("inside" if provider.name == "kind" else "outside"):
        case "outside":
            return Outside(run, provider.address)
        case "inside":
            return Inside(run)
        case unknown:
            raise ConfigurationError(f"Kueue cannot run {unknown}", remedy="run it inside or outside of its cluster")
