"""How this machine reaches package registries, for a build in a container: settings that it has and an image has not.

Proxies in the environment are passed on by buildah itself. What is given here is mounted for the build and never gets
into an image: it may hold passwords.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodeimage.workbench import Workbench

__all__ = ["HOME", "go_settings", "mounts", "pip_settings"]

HOME = Path("~root").expanduser()
"""Of root, which builds here and in the container: Debian has it at one place."""
_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Of Debian, there as here. Go and apt look there by themselves, pip when it is told."""
_OF_GO = ("GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE")
_OF_PIP = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries")


def mounts(bench: Workbench) -> Iterator[tuple[Path, str]]:
    """What is to be mounted, and where."""
    folder = bench.scratch / "registries"
    folder.mkdir(mode=0o700)
    pip, go = folder / "pip.conf", folder / "go.env"
    pip.write_text(pip_settings(bench.command(sys.executable, "-m", "pip", "config", "list")))
    go.write_text(go_settings(bench.command(bench.workshop.toolchain.go, "env", *_OF_GO)))
    yield pip, "/etc/pip.conf"
    yield go, str(HOME / ".config/go/env")
    if _CERTIFICATES.exists():
        yield _CERTIFICATES, str(_CERTIFICATES)


def pip_settings(listed: str) -> str:
    """A pip.conf with what `pip config list` says of registries; what the environment says counts most."""
    found = {"cert": str(_CERTIFICATES)} if _CERTIFICATES.exists() else {}
    for where in ("global", "user", "site", ":env:"):
        for name, value in re.findall(rf"^{where}\.([\w-]+)=(['\"].*)$", listed, re.MULTILINE):
            if name in _OF_PIP:
                found[name] = "\n    ".join(ast.literal_eval(value).split())
    return "\n".join(["[global]", *(f"{name} = {value}" for name, value in found.items()), ""])


def go_settings(listed: str) -> str:
    """A file for GOENV with what `go env` answers, a line for each name that it was asked for."""
    pairs = zip(_OF_GO, listed.splitlines(), strict=True)
    return "".join(f"{name}={value}\n" for name, value in pairs if value)
