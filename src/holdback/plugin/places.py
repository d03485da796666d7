"""Where trials run: the options of it, and the provider of clusters that they choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdback.errors import ConfigurationError

if TYPE_CHECKING:
    from holdback.binaries import Binaries
    from holdback.clusters import Provider
    from holdback.process import Run

CLUSTERS = ("local", "kind", "existing")
CONTROLLERS = ("outside", "inside")


@dataclass(frozen=True, slots=True)
class Places:
    """Where clusters come from, and where controllers run (empty: where the clusters' provider would have them).

    For kind: the node image (empty: kind's own default), the executable (empty: the one that is found or built), and
    whether clusters outlive the run. For existing clusters: the contexts of their kubeconfig, by role, those that are
    allowed, and the address of this machine at which they reach it (empty: the one from which it reaches them).
    """

    clusters: str = "local"
    controllers: str = ""
    kind_image: str = ""
    kind: str = ""
    keep: bool = False
    managers: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    address: str = ""

    @property
    def executables(self) -> dict[str, Path]:
        """Those that the user named."""
        return {"kind": Path(self.kind)} if self.kind else {}

    def provider(self, run: Run, binaries: Binaries) -> Provider:
        """The provider of these clusters, for whatever the run builds."""
        if self.clusters == "kind":
            from holdback.clusters.kind import KindProvider  # noqa: PLC0415  not for sessions without experiments

            return KindProvider(run, binaries, self.kind_image, keep=self.keep)
        if self.clusters == "existing":
            from holdback.clusters.existing import Contexts, ExistingProvider  # noqa: PLC0415  likewise

            contexts = Contexts(self.managers, self.workers, self.allowed)
            return ExistingProvider(run, contexts, address=self.address, say=binaries.workshop.progress.say)
        from holdback.clusters import LocalProvider  # noqa: PLC0415  likewise

        return LocalProvider(run, binaries)


def add_options(group: pytest.OptionGroup, parser: pytest.Parser) -> None:
    """The options, each with an ini setting."""
    group.addoption(
        "--clusters",
        metavar="|".join(CLUSTERS),
        help="where clusters come from: local ones are processes of this machine (the default), those of kind are "
        "containers, existing ones are yours",
    )
    group.addoption(
        "--controllers",
        metavar="|".join(CONTROLLERS),
        help="where controllers run: outside of their clusters, as processes of this machine (the default of local and "
        "existing clusters), or inside, as users deploy them (that of kind)",
    )
    group.addoption("--keep-clusters", action="store_true", help="leave kind's clusters there for you to look at")
    for option, help_ in (
        ("--manager-context", "an existing cluster for one arm's controller; once for each arm, control first"),
        ("--worker-context", "an existing cluster that both arms share; once for each"),
        ("--allow-context", "an existing cluster that may be changed: none is without this; once for each"),
    ):
        group.addoption(option, action="append", default=[], metavar="NAME", help=f"the context of {help_}")
    group.addoption(
        "--router-address",
        metavar="IP",
        help="this machine's IPv4 address at which existing clusters reach it (default: the one that leads to them)",
    )
    parser.addini("holdback_clusters", "default of --clusters", default="local")
    parser.addini("holdback_controllers", "default of --controllers", default="")
    parser.addini("holdback_kind_image", "default of --kind-image, an option of pytest-kind", default="")
    parser.addini("holdback_manager_contexts", "default of --manager-context", type="linelist", default=[])
    parser.addini("holdback_worker_contexts", "default of --worker-context", type="linelist", default=[])
    parser.addini("holdback_allowed_contexts", "more of --allow-context", type="linelist", default=[])
    parser.addini("holdback_router_address", "default of --router-address", default="")


def settle(config: pytest.Config) -> Places:
    """What the options say.

    Raises:
        ConfigurationError: that cannot be.
    """
    places = Places(
        _word(config, "clusters"),
        _word(config, "controllers"),
        kind_image=_word(config, "kind_image"),
        kind=str(config.getoption("kind_bin", None) or ""),
        keep=config.getoption("--keep-clusters"),
        managers=_names(config, "manager_context"),
        workers=_names(config, "worker_context"),
        allowed=(*config.getoption("--allow-context"), *config.getini("holdback_allowed_contexts")),
        address=_word(config, "router_address"),
    )
    _check(places, processes=getattr(config.option, "numprocesses", None) or 1)
    return places


def _check(places: Places, *, processes: int) -> None:
    if places.clusters not in CLUSTERS:
        raise ConfigurationError(f"--clusters={places.clusters} is unknown", remedy=f"known: {', '.join(CLUSTERS)}")
    if places.controllers not in {"", *CONTROLLERS}:
        raise ConfigurationError(
            f"--controllers={places.controllers} is unknown", remedy=f"known: {', '.join(CONTROLLERS)}"
        )
    if places.clusters == "existing" and processes > 1:
        raise ConfigurationError(
            f"-n {processes} with --clusters=existing: a cluster has room for one controller under test",
            remedy="leave out -n: the trials run one after another",
        )
    if places.clusters == "existing":
        from holdback.clusters.existing import Contexts  # noqa: PLC0415  not for sessions without experiments

        Contexts(places.managers, places.workers, places.allowed).check()
    elif places.managers or places.workers:
        raise ConfigurationError(
            f"contexts are named, but the clusters are {places.clusters}", remedy="add --clusters=existing"
        )


def _word(config: pytest.Config, name: str) -> str:
    return str(config.getoption(name, None) or config.getini(f"holdback_{name}"))


def _names(config: pytest.Config, name: str) -> tuple[str, ...]:
    return tuple(config.getoption(name) or config.getini(f"holdback_{name}s"))
