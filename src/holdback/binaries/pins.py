"""The pinned executables: a go.mod and a go.sum each, in the folder `pins/`.

A pin's go.mod names the package to build in a `tool` line; go.sum lets Go verify every module it takes. Executables
of one module may share a folder. Where the folder has Go source of its own, that is built instead: a main package of
ours around the module that holds the package.
"""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Pin", "host", "needed_go", "pin", "pins", "pins_in", "read_pins"]

PINS = Path(__file__).parent / "pins"
_STAMPS = {
    "k8s.io/kubernetes/": {
        "k8s.io/component-base/version.gitVersion": "{version}",
        "k8s.io/component-base/version.gitMajor": "{major}",
        "k8s.io/component-base/version.gitMinor": "{minor}",
    },
    "github.com/Shopify/toxiproxy/": {"github.com/Shopify/toxiproxy/v2.Version": "{plain}"},
    "github.com/caddyserver/caddy/": {"github.com/caddyserver/caddy/v2.CustomVersion": "{version}"},
    "sigs.k8s.io/kustomize/": {"sigs.k8s.io/kustomize/api/provenance.version": "{version}"},
}


@dataclass(frozen=True, slots=True)
class Pin:
    """One executable that can be built from pinned modules."""

    name: str
    directory: Path
    package: str
    version: str
    """Of the module that holds the package, with its leading v."""

    @property
    def source(self) -> str:
        """What is built, as Go is told in the pin's folder."""
        return "." if self._own else self.package

    @property
    def _own(self) -> list[Path]:
        return sorted(self.directory.glob("*.go"))

    @property
    def stamps(self) -> dict[str, str]:
        """The Go variables that the linker sets, because without them the executable does not know its version."""
        plain = self.version.removeprefix("v")
        major, minor = plain.split(".")[:2]
        return {
            variable: template.format(version=self.version, plain=plain, major=major, minor=minor)
            for prefix, variables in _STAMPS.items()
            if self.package.startswith(prefix)
            for variable, template in variables.items()
        }

    @property
    def key(self) -> str:
        """Changes when the executable would.

        The Go version is no part of it: an executable once built from these pins serves after an upgrade of Go,
        and even without Go.
        """
        parts = [
            (self.directory / "go.mod").read_bytes(),
            (self.directory / "go.sum").read_bytes(),
            self.package.encode(),
            repr(self.stamps).encode(),
            host().encode(),
            *(path.read_bytes() for path in self._own),
        ]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(hashlib.sha256(part).digest())
        return digest.hexdigest()[:16]


def host() -> str:
    """Name this machine in Go's words, for instance `linux/amd64`."""
    machine = platform.machine().lower()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return f"{platform.system().lower()}/{architecture}"


def read_pins(directory: Path) -> tuple[Pin, ...]:
    """The pins of one folder, one for each `tool` line.

    An only one is called as the folder is, of several each as its package ends.

    Raises:
        ConfigurationError: its go.mod names no tool, or does not require a tool's module.
    """
    text = (directory / "go.mod").read_text(encoding="utf-8")
    block = "".join(re.findall(r"^tool \(([^)]*)\)", text, re.MULTILINE))
    packages = [*re.findall(r"^tool ([^\s(]+)$", text, re.MULTILINE), *block.split()]
    required = dict(re.findall(r"^(?:require)?\s+(\S+) (v\S+)", text, re.MULTILINE))
    owners = {
        package: [module for module in required if package == module or package.startswith(module + "/")]
        for package in packages
    }
    if not owners or not all(owners.values()):
        raise ConfigurationError(
            f"{directory / 'go.mod'} pins no executable",
            remedy="it needs a `tool` line and a `require` line for that tool's module: go get -tool PACKAGE@VERSION",
        )
    names = [directory.name] if len(packages) == 1 else [package.rpartition("/")[2] for package in packages]
    return tuple(
        Pin(name, directory, package, required[max(owners[package], key=len)])
        for name, package in zip(names, packages, strict=True)
    )


def pins_in(root: Path) -> dict[str, Pin]:
    """What the folders below this one pin, by name.

    Raises:
        ConfigurationError: as for `read_pins`.
    """
    folders = sorted(folder for folder in root.iterdir() if (folder / "go.mod").is_file())
    return {pin.name: pin for folder in folders for pin in read_pins(folder)}


@cache
def pins() -> dict[str, Pin]:
    """Every executable that holdback itself needs, by its name."""
    return pins_in(PINS)


def pin(name: str, among: Mapping[str, Pin] | None = None) -> Pin:
    """The pin of one executable, `among` others than holdback's own if given.

    Raises:
        ConfigurationError: there is none of that name.
    """
    known = pins() if among is None else among
    try:
        return known[name]
    except KeyError:
        raise ConfigurationError(
            f"holdback has no executable named {name!r}", remedy=f"known: {', '.join(known)}"
        ) from None


def needed_go() -> str:
    """The oldest Go that can build every pin, for instance `1.26.0`."""
    versions = [
        re.findall(r"^go (\S+)$", (each.directory / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)[0]
        for each in pins().values()
    ]
    return str(max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)]))
