"""The pinned executables: a go.mod and a go.sum each, in the folder `pins/`.

A pin's go.mod names the package to build in its `tool` line; go.sum lets Go verify every module it takes.
"""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdback.errors import ConfigurationError

__all__ = ["Pin", "host", "needed_go", "pin", "pins", "read_pin"]

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


def read_pin(directory: Path) -> Pin:
    """The pin of one folder.

    Raises:
        ConfigurationError: its go.mod names no tool, or does not require the tool's module.
    """
    text = (directory / "go.mod").read_text(encoding="utf-8")
    tool = re.search(r"^tool (\S+)$", text, re.MULTILINE)
    required = dict(re.findall(r"^(?:require)?\s+(\S+) (v\S+)", text, re.MULTILINE))
    if tool is not None:
        package = tool[1]
        owners = [module for module in required if package == module or package.startswith(module + "/")]
        if owners:
            return Pin(directory.name, directory, package, required[max(owners, key=len)])
    raise ConfigurationError(
        f"{directory / 'go.mod'} pins no executable",
        remedy="it needs a `tool` line and a `require` line for that tool's module: go get -tool PACKAGE@VERSION",
    )


@cache
def pins() -> dict[str, Pin]:
    """Every pinned executable by its name."""
    return {folder.name: read_pin(folder) for folder in sorted(PINS.iterdir()) if (folder / "go.mod").is_file()}


def pin(name: str) -> Pin:
    """The pin of one executable.

    Raises:
        ConfigurationError: there is none of that name.
    """
    try:
        return pins()[name]
    except KeyError:
        known = ", ".join(pins())
        raise ConfigurationError(f"holdback has no executable named {name!r}", remedy=f"known: {known}") from None


def needed_go() -> str:
    """The oldest Go that can build every pin, for instance `1.26.0`."""
    versions = [
        re.findall(r"^go (\S+)$", (each.directory / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)[0]
        for each in pins().values()
    ]
    return str(max(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)]))
