"""A stand-in for `python:3.13-slim`, which deploy/Containerfile starts from: the same Debian, and its own Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeimage import debian
from nodeimage.archive import write_archive

if TYPE_CHECKING:
    from pathlib import Path

    from holdback.binaries.progress import Task
    from nodeimage.workbench import Workbench

__all__ = ["NAME", "write_python"]

NAME = "localhost/holdback/python:3.13"
_SUITE = "trixie"
_PACKAGES = ("ca-certificates", "python3", "python3-venv")
_CONFIG = {"Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "Cmd": ["python3"]}


def write_python(bench: Workbench, target: Path, *, task: Task) -> None:
    """Write the image to the archive `target`; `task` shows what is being done.

    Raises:
        BuildError: a step failed; with the end of what was said.
    """
    root = bench.scratch / "python"
    task.note = "making the root file system"
    debian.bootstrap(bench, root, _SUITE, _PACKAGES)
    task.note = "writing the image"
    write_archive(target, NAME, root, _CONFIG, owned=lambda member: member)
