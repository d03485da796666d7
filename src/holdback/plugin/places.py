"""Where trials run: the options of it, and the provider of clusters that they choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from holdback.errors import ConfigurationError

if TYPE_CHECKING:
    from holdback.binaries import Binaries
    from holdback.clusters import Provider
    from holdback.process import Run

CLUSTERS = ("local",)
CONTROLLERS = ("outside",)


@dataclass(frozen=True, slots=True)
class Places:
    """Where clusters come from, and where controllers run (empty: where the clusters' provider would have them)."""

    clusters: str = "local"
    controllers: str = ""

    def provider(self, run: Run, binaries: Binaries) -> Provider:
        """The provider of these clusters, for whatever the run builds."""
        from holdback.clusters import LocalProvider  # noqa: PLC0415  not for sessions without experiments

        return LocalProvider(run, binaries)


def add_options(group: pytest.OptionGroup, parser: pytest.Parser) -> None:
    """The options, each with an ini setting."""
    group.addoption(
        "--clusters",
        metavar="|".join(CLUSTERS),
        help="where clusters come from: local ones are processes of this machine (the default)",
    )
    group.addoption(
        "--controllers",
        metavar="|".join(CONTROLLERS),
        help="where controllers run: outside of their clusters, as processes of this machine (the default)",
    )
    parser.addini("holdback_clusters", "default of --clusters", default="local")
    parser.addini("holdback_controllers", "default of --controllers", default="")


def settle(config: pytest.Config) -> Places:
    """What the options say.

    Raises:
        ConfigurationError: that cannot be.
    """
    places = Places(_word(config, "clusters"), _word(config, "controllers"))
    if places.clusters not in CLUSTERS:
        raise ConfigurationError(f"--clusters={places.clusters} is unknown", remedy=f"known: {', '.join(CLUSTERS)}")
    if places.controllers not in {"", *CONTROLLERS}:
        raise ConfigurationError(
            f"--controllers={places.controllers} is unknown", remedy=f"known: {', '.join(CONTROLLERS)}"
        )
    return places


def _word(config: pytest.Config, name: str) -> str:
    return str(config.getoption(f"--{name}") or config.getini(f"holdback_{name}"))
