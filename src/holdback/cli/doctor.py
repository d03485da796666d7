"""`holdback doctor`: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdback.binaries import Binaries, Found
from holdback.binaries.pins import pin, pins
from holdback.cli.arms import add_options, variants
from holdback.cli.build import NEEDED
from holdback.controllers.kueue.servers import doubts
from holdback.controllers.kueue.source import find_kueue
from holdback.errors import ConfigurationError, HoldbackError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from holdback.cli.types import Subcommands
    from holdback.controllers.kueue.variant import Variant

__all__ = ["add"]

_GIB = 2**30
_ROOM = 10 * _GIB
_TABLE_WIDTH = 70
"""Columns below which the table has no room left for what to do."""
_STYLES = {"ok": "green", "to build": "yellow", "on demand": "dim", "warning": "bold yellow", "missing": "bold red"}


@dataclass(frozen=True, slots=True)
class _Line:
    """One thing examined. `state` is a key of `_STYLES`; `missing` means that the experiments cannot run."""

    what: str
    state: str
    version: str = ""
    detail: str = ""


def add(subcommands: Subcommands) -> None:
    """Add the subcommand's parser."""
    parser = subcommands.add_parser(
        "doctor",
        help="show what is there, what is missing, and what to do",
        description="Looks at everything the experiments need. Changes nothing. Exit code 1: something is missing "
        "that holdback cannot build by itself.",
    )
    add_options(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    arms = variants(arguments)
    lines = list(_examine(Binaries(), arms))
    console = Console(highlight=False)
    if console.width < _TABLE_WIDTH:
        for line in lines:
            console.print(
                Text.assemble(f"{line.what}: ", (line.state, _STYLES[line.state]), f" {line.version}".rstrip())
            )
            console.print(Padding(Text(line.detail), (0, 0, 0, 2)))
    else:
        console.print(_table(lines))
    return 1 if any(line.state == "missing" for line in lines) else 0


def _examine(binaries: Binaries, arms: list[Variant]) -> Iterator[_Line]:
    go = _go(binaries)
    yield go
    can_build = go.state == "ok"
    for name in pins():
        yield _binary(binaries, name, can_build=can_build)
    for arm in arms:
        yield _kueue(binaries, arm, can_build=can_build)
    git = shutil.which("git")
    patched = any(arm.patches for arm in arms)
    yield _Line("git", "ok" if git else "missing" if patched else "on demand", "", git or "needed to apply patches")
    yield _cache(binaries)


def _go(binaries: Binaries) -> _Line:
    try:
        toolchain = binaries.workshop.toolchain
    except HoldbackError as error:
        return _Line("go", "warning", "", str(error))
    return _Line("go", "ok", toolchain.version, str(toolchain.go))


def _binary(binaries: Binaries, name: str, *, can_build: bool) -> _Line:
    try:
        found = binaries.find(name)
        version = binaries.version(found) if found else ""
    except HoldbackError as error:
        return _Line(name, "missing", "", str(error))
    if found is None:
        return _absent(name, pin(name).version, needed=name in NEEDED, can_build=can_build)
    where = found.how if found.how == "cache" else f"{found.how}: {found.path}"
    if not _asks_for_token(binaries, found):
        return _Line(name, "missing", version, f"{where}\nit asks for no token: unset the variable")
    if name == "kube-apiserver" and (other := doubts(version)):
        return _Line(name, "warning", version, f"{where}\n{other}")
    return _Line(name, "ok", version, where)


def _absent(what: str, version: str, *, needed: bool, can_build: bool) -> _Line:
    if not needed:
        return _Line(what, "on demand", version, "built when asked for")
    if can_build:
        return _Line(what, "to build", version, "`holdback build` makes it")
    return _Line(what, "missing", version, "install Go (first line), then `holdback build`")


def _asks_for_token(binaries: Binaries, found: Found) -> bool:
    """False for a Toxiproxy of somebody else's, which no world would use."""
    if found.name != "toxiproxy-server" or found.how == "cache":
        return True
    usage = binaries.workshop.commands.run([found.path, "-help"], cwd=Path.cwd())
    return "-token-file" in "\n".join([usage.output, *usage.lines])


def _kueue(binaries: Binaries, arm: Variant, *, can_build: bool) -> _Line:
    what = f"kueue ({arm.name})"
    try:
        build = find_kueue(arm, binaries)
    except ConfigurationError as error:
        return _Line(what, "missing", "", str(error))
    except HoldbackError:
        build = None  # without Go no build can be looked for; the line of Go says why
    if build is None:
        line = _absent(what, "", needed=True, can_build=can_build)
        return replace(line, detail=f"{arm.describe()}: {line.detail}")
    return _Line(what, "ok", "", arm.describe())


def _cache(binaries: Binaries) -> _Line:
    cache = binaries.workshop.cache
    there = cache.root
    while not there.exists():
        there = there.parent
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return _Line("cache", "missing", "", f"{cache.root} cannot be written; HOLDBACK_CACHE names another folder")
    free = shutil.disk_usage(there).free
    text = f"{cache.root} ({cache.size() / _GIB:.1f} GiB), {free / _GIB:.0f} GiB free on its disk"
    if free < _ROOM:
        return _Line("cache", "warning", "", f"{text}; a full build needs {_ROOM // _GIB}. HOLDBACK_CACHE moves it")
    return _Line("cache", "ok", "", text)


def _table(lines: list[_Line]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("what", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("version", no_wrap=True)
    table.add_column("where, or what to do", overflow="fold")
    for line in lines:
        table.add_row(line.what, Text(line.state, _STYLES[line.state]), line.version, Text(line.detail))
    return table
