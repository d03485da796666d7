"""The root file system that an image starts from: a small Debian, made by debootstrap."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from nodeimage.workbench import Workbench, install

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["bootstrap", "with_libraries"]

_USELESS = ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")


def bootstrap(bench: Workbench, root: Path, suite: str, packages: Sequence[str]) -> None:
    """Make that suite of Debian with these packages at `root`.

    Raises:
        BuildError: debootstrap failed: no mirror within reach, say.
    """
    # In a mount namespace of its own: the /proc and /sys that it mounts below go with it, even if it is killed.
    words = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite]
    bench.command("unshare", "--mount", *words, root)
    for folder in _USELESS:
        shutil.rmtree(root / folder, ignore_errors=True)


def with_libraries(bench: Workbench, debian: Path, names: list[str], root: Path) -> None:
    """Copy files out of that Debian to where they are there, with every library that one of them is linked to."""
    listed = bench.command("chroot", debian, "ldd", *(f"/{name}" for name in names))
    libraries = sorted(set(re.findall(r"(/lib\S+) \(0x", listed)))
    for path in [*names, *(library.lstrip("/") for library in libraries)]:
        install(debian / path, root / path)
