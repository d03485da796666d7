"""The beginning of a run's evidence."""

from __future__ import annotations

import contextlib
import os
import platform
from dataclasses import asdict

import pytest

from holdback.faults.dosing import SEARCH
from holdback.history.store import process_of
from holdback.plugin.settings import SETTINGS

_BEGUN = pytest.StashKey[bool]()


def begin(config: pytest.Config) -> None:
    """Write what ran, once; every process of the run may call it at any time.

    Raises:
        EvidenceError: it cannot be written, is another run's, or was begun and is gone.
    """
    settings = config.stash[SETTINGS]
    if config.stash.get(_BEGUN, False):
        settings.store.demand()
        return
    config.stash[_BEGUN] = True
    settings.store.begin(
        {
            "id": settings.run,
            "started": settings.started,
            "seed": settings.seed,
            "shard": settings.shard and asdict(settings.shard),
            "control": settings.control,
            "treatment": settings.treatment,
            "plan": str(settings.plan or ""),
            "clusters": settings.places.clusters,
            "controllers": settings.places.controllers,
            "kind_image": settings.places.kind_image,
            "count": getattr(config.option, "count", 1),
            "root": str(config.rootpath),
            "directory": str(config.invocation_params.dir),
            "until_decided": settings.until_decided,
            "doses": SEARCH if settings.searching else settings.doses,
            "command": settings.command,
            "variants": [],
            "executables": [],
            "servers": [],
            "process": process_of(settings.controller),
            "machine": {"system": platform.platform(), "processors": os.cpu_count(), "load": os.getloadavg()},
            "versions": _versions(),
        }
    )


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  needed once a run

    found = {"python": platform.python_version()}
    for package in ("holdback", "pytest", "pytest-repeat", "pytest-xdist"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
