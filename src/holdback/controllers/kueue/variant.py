"""What an arm runs: a Kueue from somewhere, patched or not, with feature gates and configuration.

A variant is written as one word: a version (`v0.17.3`), a folder (a checkout of Kueue), an executable file, or
a TOML file:

```toml
version = "v0.17.0"                 # or: checkout = "../kueue"; or: binary = "bin/manager"
manifests = "v0.17.0"               # only with binary: the version whose manifests it is installed with
patches = ["patches/guard.patch"]   # not with binary; paths are relative to this file

[feature_gates]
MultiKueueBatchJobWithManagedBy = true

[configuration]                     # merged into Kueue's Configuration
multiKueue.workerLostTimeout = "5m"
```
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdback.controllers.kueue.checkout import content_hash
from holdback.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DEFAULT_VERSION",
    "PIN",
    "Checkout",
    "Patch",
    "Ready",
    "Release",
    "Variant",
    "default_word",
    "digest",
    "read_variant",
]

PIN = Path(__file__).parent / "pin"
"""A go.mod and go.sum that pin the default version's source."""


def _pinned_version() -> str:
    found = re.search(r"sigs\.k8s\.io/kueue (v\S+)", (PIN / "go.mod").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


DEFAULT_VERSION = _pinned_version()

_ACCEPTED = (
    "give a version (v0.17.3), a folder with a checkout of Kueue, an executable file, or a .toml file "
    "(see clusters/kueue/treatment.toml)"
)
_KEYS = {"version", "checkout", "binary", "manifests", "patches", "feature_gates", "configuration"}


@dataclass(frozen=True, slots=True)
class Release:
    """A version of the Go module sigs.k8s.io/kueue."""

    version: str

    @property
    def identity(self) -> str:
        """Go's checksum database allows one content for each version."""
        return self.version

    def __str__(self) -> str:
        return self.version


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with Kueue's source, as it is at the moment of the build."""

    path: Path

    @property
    def identity(self) -> str:
        """A hash of the source as it is now."""
        return f"checkout {content_hash(self.path)}"

    def __str__(self) -> str:
        return f"checkout {self.path}"


@dataclass(frozen=True, slots=True)
class Ready:
    """An executable built elsewhere; it is installed with the manifests of the version `manifests`."""

    path: Path
    manifests: str

    @property
    def identity(self) -> str:
        """A hash of the file as it is now, and the manifests' version."""
        with self.path.open("rb") as file:
            return f"binary {hashlib.file_digest(file, 'sha256').hexdigest()} {self.manifests}"

    def __str__(self) -> str:
        return f"binary {self.path} with the manifests of {self.manifests}"


@dataclass(frozen=True, slots=True)
class Patch:
    """A unified diff, read when the variant was read."""

    path: Path
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Variant:
    """One arm's Kueue. `name` is the arm's."""

    name: str
    source: Release | Checkout | Ready
    patches: tuple[Patch, ...] = ()
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> str:
        """One line for reports."""
        parts = [f"Kueue {self.source}", *(patch.path.name for patch in self.patches)]
        text = " + ".join(parts)
        if self.feature_gates:
            text += ", gates " + ",".join(
                f"{gate}={str(on).lower()}" for gate, on in sorted(self.feature_gates.items())
            )
        if self.configuration:
            text += f", configuration {_json(self.configuration)}"
        return text

    def to_json(self) -> dict[str, Any]:
        """Plain data for `run.json`: what the arm ran, and its fingerprint, for whoever wants to run it again."""
        return {
            "arm": self.name,
            "description": self.describe(),
            "source": str(self.source),
            "patches": [patch.path.name for patch in self.patches],
            "feature_gates": dict(self.feature_gates),
            "configuration": json.loads(_json(self.configuration)),
            "fingerprint": self.fingerprint,
        }

    @property
    def fingerprint(self) -> str:
        """Tell variants apart that run differently, on whatever machine and under whatever name.

        It reads a checkout or a ready executable whole.
        """
        return digest(
            self.code,
            _json([self.feature_gates, self.configuration]),
        )

    @property
    def code(self) -> str:
        """Tell variants apart that run different code; gates and configuration do not count."""
        return digest(self.source.identity, *(patch.text for patch in self.patches))


def digest(*parts: str) -> str:
    """Hash several texts, short; where one ends and the next begins counts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _json(value: object) -> str:
    """In one order; what TOML has and JSON has not (dates) as text."""
    return json.dumps(value, sort_keys=True, default=str)


def read_variant(word: str, name: str) -> Variant:
    """The variant that `word` means, for the arm `name`.

    Raises:
        ConfigurationError: it means none; the message says what is accepted.
    """
    path = Path(word).expanduser()
    if word.endswith(".toml"):
        return _from_toml(path, name)
    if _is_version(word):
        return Variant(name, Release(word))
    if path.is_dir():
        return Variant(name, _checkout(path, name))
    if path.is_file():
        return Variant(name, _ready(path, name, DEFAULT_VERSION))
    hint = f"did you mean v{word}? Else " if _is_version(f"v{word}") else ""
    raise ConfigurationError(
        f"{name}: {word!r} is no version, and there is no such file or folder", remedy=hint + _ACCEPTED
    )


def default_word(arm: str, *, existing: bool = False) -> str | None:
    """The variant file that a checkout of holdback has for an arm; None if it must be `existing` and is not."""
    path = Path("clusters", "kueue", f"{arm}.toml")
    return None if existing and not path.is_file() else str(path)


def _is_version(word: str) -> bool:
    return re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", word) is not None


def _checkout(path: Path, name: str) -> Checkout:
    path = path.resolve()
    if not (path / "cmd" / "kueue").is_dir() or not (path / "go.mod").is_file():
        raise ConfigurationError(
            f"{name}: {path} is no checkout of Kueue: it needs go.mod and cmd/kueue", remedy=_ACCEPTED
        )
    return Checkout(path)


def _ready(path: Path, name: str, manifests: str) -> Ready:
    path = path.resolve()
    if not path.is_file():
        raise ConfigurationError(f"{name}: there is no file {path}", remedy=_ACCEPTED)
    if shutil.which(path) is None:
        raise ConfigurationError(f"{name}: {path} is not executable", remedy=f"chmod +x {path}; or {_ACCEPTED}")
    return Ready(path, manifests)


def _from_toml(path: Path, name: str) -> Variant:
    table = _Table(path, name, _load(path, name))
    table.refuse_unknown()
    folder = path.resolve().parent
    source = _source(table, folder)
    patches = table.texts("patches")
    if patches and isinstance(source, Ready):
        raise table.wrong("a binary cannot be patched", "give version or checkout instead of binary")
    return Variant(
        name,
        source,
        tuple(_patch(folder / patch, table) for patch in patches),
        table.gates(),
        table.table("configuration"),
    )


def _load(path: Path, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{name}: {path} cannot be read: {error.strerror}", remedy=_ACCEPTED) from error
    except ValueError as error:  # broken TOML, or not UTF-8
        raise ConfigurationError(f"{name}: {path} is no TOML: {error}", remedy="correct the file") from error


def _source(table: _Table, folder: Path) -> Release | Checkout | Ready:
    given = [key for key in ("version", "checkout", "binary") if key in table.values]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise table.wrong(f"it needs exactly one of version, checkout, binary, and has {found}", "keep one of them")
    if "manifests" in table.values and given != ["binary"]:
        raise table.wrong("manifests goes with binary only", "leave it out: they come from the version under test")
    value = table.text(given[0])
    match given[0]:
        case "version":
            return Release(table.version("version"))
        case "checkout":
            return _checkout(folder / Path(value).expanduser(), table.name)
        case _:
            manifests = table.version("manifests") if "manifests" in table.values else DEFAULT_VERSION
            return _ready(folder / Path(value).expanduser(), table.name, manifests)


def _patch(path: Path, table: _Table) -> Patch:
    try:
        return Patch(path, path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise table.wrong(f"the patch {path} cannot be read: {error}", "correct `patches`") from error


@dataclass(frozen=True, slots=True)
class _Table:
    """A TOML file's content, asked for by type."""

    path: Path
    name: str
    values: Mapping[str, Any]

    def wrong(self, what: str, remedy: str) -> ConfigurationError:
        return ConfigurationError(f"{self.name}: {self.path}: {what}", remedy=remedy)

    def refuse_unknown(self) -> None:
        unknown = sorted(set(self.values) - _KEYS)
        if unknown:
            raise self.wrong(f"unknown key {', '.join(unknown)}", f"known: {', '.join(sorted(_KEYS))}")

    def text(self, key: str) -> str:
        value = self.values[key]
        if not isinstance(value, str) or not value:
            raise self.wrong(f"{key} must be a text", f'for instance {key} = "..."')
        return value

    def version(self, key: str) -> str:
        value = self.text(key)
        if not _is_version(value):
            raise self.wrong(f"{key} is {value!r}, which is no version", f'for instance {key} = "{DEFAULT_VERSION}"')
        return value

    def texts(self, key: str) -> list[str]:
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.wrong(f"{key} must be a list of texts", f'for instance {key} = ["a.patch"]')
        return values

    def table(self, key: str) -> dict[str, Any]:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.wrong(f"{key} must be a table", f"write it as [{key}]")
        return value

    def gates(self) -> dict[str, bool]:
        gates = self.table("feature_gates")
        for gate, on in gates.items():
            if not isinstance(on, bool):
                raise self.wrong(f"feature gate {gate} is {on!r}", f"write {gate} = true or {gate} = false")
        return gates
