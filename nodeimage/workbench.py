"""What all steps of the build share: the executables, a way to run commands, a place for scratch."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdback.binaries.workshop import Workshop
    from holdback.process import Run

__all__ = ["FILES", "NodeBench", "Workbench", "install"]

FILES = Path(__file__).with_name("files")
"""What of the image is our own."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """For one build."""

    run: Run
    workshop: Workshop
    scratch: Path

    def command(self, *words: str | Path, heard: Callable[[str], None] = lambda _: None) -> str:
        """Run a command to its end; what it wrote. `heard` gets each line that it says on standard error.

        Raises:
            BuildError: it failed; with the end of what it said.
        """
        done = self.workshop.commands.run(words, cwd=self.scratch, heard=heard)
        if done.code != 0:
            said = "\n".join(f"    {line}" for line in (*done.output.splitlines(), *done.lines)[-15:])
            raise BuildError(
                f"{Path(words[0]).name} failed while an image was built:\n{said}",
                remedy="its words above name the cause; docs/clusters.md says what a build needs",
            )
        return done.output


@dataclass(frozen=True, slots=True)
class NodeBench(Workbench):
    """For the node image. `kind` is the folder with kind's own source, whose node files are taken as they are."""

    executables: Mapping[str, Path]
    kind: Path


def install(source: Path, target: Path, *, mode: int | None = None) -> None:
    """Copy a file, or all that is in a folder, making what is missing on the way; `mode` for every file of it."""
    if source.is_dir():
        for each in sorted(source.iterdir()):
            install(each, target / each.name, mode=mode)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    shutil.copymode(source, target)
    if mode is not None:
        target.chmod(mode)
