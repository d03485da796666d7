"""One place that answers where an executable is, building it if need be."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries.cache import Cache, default_cache
from holdback.binaries.pins import Pin, pin, pins
from holdback.binaries.progress import Progress
from holdback.binaries.workshop import Source, Workshop
from holdback.errors import ConfigurationError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdback.binaries.progress import Task

__all__ = ["Binaries", "Found"]

_ENVTEST = "KUBEBUILDER_ASSETS"
_ON_PATH = {"kind"}
"""What people have for their own work, and want to be taken: it must fit their Docker, not our pins."""
_VERSION_ARGUMENTS: Mapping[str, Sequence[str]] = {
    "caddy": ["version"],
    "kustomize": ["version"],
    "toxiproxy-server": ["-version"],
}


@dataclass(frozen=True, slots=True)
class Found:
    """An executable that is there. `how` says which of the places it was found in, in words."""

    name: str
    path: Path
    how: str


class Binaries:
    """Finds executables: an explicit path, `KUBEBUILDER_ASSETS`, the PATH, the cache; what is nowhere is built.

    An explicit path is one in `explicit` or in the environment (`HOLDBACK_ETCD`, `HOLDBACK_KUBE_APISERVER`, ...); the
    PATH counts for kind alone. `environment` is added to the environment of the build's children. `pinned` are the
    executables that it knows, holdback's own if not given. `used` is told of each the first time that it is got.
    """

    def __init__(
        self,
        *,
        explicit: Mapping[str, Path] | None = None,
        cache: Path | None = None,
        progress: Progress | None = None,
        environment: Mapping[str, str] | None = None,
        pinned: Mapping[str, Pin] | None = None,
        used: Callable[[Found], None] = lambda _: None,
    ) -> None:
        self._pinned = pins() if pinned is None else pinned
        self._explicit = dict(explicit or {})
        for name in self._explicit:
            pin(name, self._pinned)
        self._used = used
        self._told: set[str] = set()
        self.workshop = Workshop(Cache(cache or default_cache()), progress or Progress(), environment)

    def get(self, *names: str) -> dict[str, Path]:
        """Paths of these executables; what is missing is built now, two at a time.

        Raises:
            ConfigurationError: a name holdback does not know, or an explicit path that is no executable.
            BinaryError: something can neither be found nor built.
        """
        found = {name: self.find(name) for name in names}
        missing = [name for name, where in found.items() if where is None]
        if missing:
            self._build(missing)
            found = {name: self.find(name) for name in names}
        there = {name: where for name, where in found.items() if where is not None}
        for name in there.keys() - self._told:
            self._told.add(name)
            self._used(there[name])
        return {name: where.path for name, where in there.items()}

    def find(self, name: str) -> Found | None:
        """Where the executable is, None when it has to be built.

        Raises:
            ConfigurationError: a name holdback does not know, or an explicit path that is no executable.
        """
        wanted = pin(name, self._pinned)
        variable = _variable(name)
        if name in self._explicit:
            return Found(name, _executable(self._explicit[name], f"the path given for {name}"), "given")
        if os.environ.get(variable):
            return Found(name, _executable(Path(os.environ[variable]), variable), variable)
        assets = os.environ.get(_ENVTEST)
        if assets and not Path(assets).is_dir():
            raise ConfigurationError(
                f"{_ENVTEST} is {assets}: there is no such folder",
                remedy="correct it, or unset it to use our own cache",
            )
        if assets and name in {"etcd", "kube-apiserver"} and (Path(assets) / name).exists():
            return Found(name, _executable(Path(assets) / name, _ENVTEST), _ENVTEST)
        if name in _ON_PATH and (own := shutil.which(name)):
            return Found(name, Path(own), "PATH")
        entry = self.workshop.cache.find(name, wanted.key)
        return Found(name, entry / name, "cache") if entry else None

    def version(self, found: Found) -> str:
        """The version that the executable itself reports, for instance `v1.35.4`; `unknown` if it reports none."""
        arguments = _VERSION_ARGUMENTS.get(found.name, ["--version"])
        result = self.workshop.commands.run([found.path, *arguments], cwd=Path.cwd())
        reported = re.search(r"\d+\.\d+\.\d+[\w.+-]*", "\n".join([result.output, *result.lines]))
        return f"v{reported[0]}" if reported else "unknown"

    def _build(self, names: Sequence[str]) -> None:
        try:
            self.workshop.toolchain  # noqa: B018 - one clear error now rather than one in each build
        except ToolchainError as error:
            raise ToolchainError(
                f"{', '.join(names)} must be built, but {error.message}", remedy=f"{error.remedy}; or {_ready(names)}"
            ) from error
        self.workshop.in_parallel([partial(self._build_one, pin(name, self._pinned)) for name in names])

    def _build_one(self, wanted: Pin) -> None:
        source = Source(
            wanted.name,
            wanted.directory,
            wanted.source,
            wanted.stamps,
            alternatives=_ready([wanted.name]),
        )

        def fill(entry: Path, scratch: Path, task: Task) -> None:
            self.workshop.compile(source, entry / wanted.name, scratch, task)

        self.workshop.make(wanted.name, wanted.key, fill)


def _ready(names: Sequence[str]) -> str:
    """How else these executables can be had."""
    variables = ", ".join(map(_variable, names))
    own = "".join(f"have {name} on the PATH, or " for name in names if name in _ON_PATH)
    return f"{own}name {'a ready executable' if len(names) == 1 else 'ready executables'} in {variables}"


def _variable(name: str) -> str:
    return f"HOLDBACK_{name.upper().replace('-', '_')}"


def _executable(path: Path, origin: str) -> Path:
    path = path.expanduser().absolute()
    if not path.is_file():
        raise ConfigurationError(
            f"{origin} is {path}: there is no such file", remedy="correct the path or leave it out"
        )
    if shutil.which(path) is None:
        raise ConfigurationError(f"{origin} is {path}: it is not executable", remedy=f"chmod +x {path}")
    return path
