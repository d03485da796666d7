"""Whether an executable that somebody built elsewhere is a Kueue at all."""

from __future__ import annotations

import re
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries.pins import host
from holdback.errors import BinaryError, ConfigurationError

if TYPE_CHECKING:
    from holdback.binaries import Binaries

__all__ = ["check_ready"]

_WITHIN = 20.0
"""Seconds; a Kueue answers in less than one."""
_OPTIONS = ("config", "zap-log-level")
"""Those that we start it with."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def check_ready(path: Path, name: str, binaries: Binaries) -> None:
    """Ask the executable of the arm `name` for its options, before three worlds are started in vain.

    Raises:
        ConfigurationError: it cannot be started here, or has not the options of a Kueue.
    """
    if wrong := _wrong(path, binaries):
        raise ConfigurationError(
            f"{name}: {path} is no Kueue that can run here: {wrong}",
            remedy=f"give the executable of Kueue's cmd/kueue, built for {host()}, or a version or a checkout",
        )


def _wrong(path: Path, binaries: Binaries) -> str:
    with tempfile.TemporaryDirectory(prefix="holdback-") as folder:
        try:
            told = binaries.workshop.commands.run([path, "--help"], cwd=Path(folder), within=_WITHIN)
        except BinaryError as error:
            return error.message
    if told.code == -signal.SIGKILL:
        return f"asked for --help, it had not ended after {_WITHIN:g} s"
    lines = [_COLOURS.sub("", line).strip() for line in (*told.output.splitlines(), *told.lines)]
    missing = [option for option in _OPTIONS if not any(re.match(rf"--?{option}\b", line) for line in lines)]
    if not missing:
        return ""
    first = next((f", but {line[:100]!r}" for line in lines if line), "")
    return f"asked for --help, it does not tell of the option --{missing[0]}{first}"
