"""What Go said when it refused, made into an error with cause and remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from holdback.binaries.cache import disk_full
from holdback.errors import BinaryError, BuildError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["explain"]

_MODULE = r"(?P<module>[\w.~-]+(?:/[\w.~-]+)+)"
_VERSION = r"(?P<version>v\d[\w.+-]*)"
_NAMED = re.compile(rf"{_MODULE}@{_VERSION}: (?P<why>.*)")
_DOWNLOADING = re.compile(rf"^go: downloading {_MODULE} {_VERSION}$")
_REFUSAL = re.compile(
    r"reading https?://|module lookup disabled|unknown revision|invalid version|no matching versions|"
    r"server response|dial tcp|Get \"https?://|not found: |proxyconnect|i/o timeout|TLS handshake"
)
_SHOWN = 15


def explain(what: str, lines: Sequence[str], *, alternatives: str, cache: Path) -> BinaryError:
    """The error for a Go command that failed while `what` was built.

    `alternatives` says how else the user can get `what`.
    """
    text = "\n".join(lines)
    if "no space left on device" in text or "disk quota exceeded" in text:
        return disk_full(cache)
    if "SECURITY ERROR" in text or "checksum mismatch" in text:
        return BuildError(
            f"{what}: a module is not the one that was pinned\n{_tail(lines)}",
            remedy="do not use it; ask the owner of your module proxy, and check GOPROXY and GOSUMDB (`go env`)",
        )
    if _REFUSAL.search(text):
        return _refused(what, lines, alternatives)
    return BuildError(f"{what} does not compile:\n{_tail(lines)}", remedy=f"correct the source, or {alternatives}")


def _refused(what: str, lines: Sequence[str], alternatives: str) -> BuildError:
    named = [match for line in lines if (match := _NAMED.search(line))]
    begun = [match for line in lines if (match := _DOWNLOADING.match(line))]
    match = next(iter(named or reversed(begun)), None)
    module = f"{match['module']} {match['version']}" if match else "a module"
    return BuildError(
        f"{what}: the module proxy does not give {module}\n{_tail(lines)}",
        remedy=f"{alternatives}, or set GOPROXY to a module proxy that has it (now: see `go env GOPROXY`)",
    )


def _tail(lines: Sequence[str]) -> str:
    """The end of what Go said, without the names of the packages that went well and of downloads."""
    told = [line for line in lines if not re.fullmatch(r"\S+", line) and not _DOWNLOADING.match(line)]
    return "\n".join(f"    {line}" for line in told[-_SHOWN:])
