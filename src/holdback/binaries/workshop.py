"""Building with Go: into the cache, with visible progress, and nothing left behind by a build that was given up."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries.commands import Commands, Finished
from holdback.binaries.pins import host
from holdback.binaries.refusals import explain
from holdback.binaries.toolchain import Toolchain, find_go
from holdback.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdback.binaries.cache import Cache
    from holdback.binaries.progress import Progress, Task

__all__ = ["Source", "Workshop"]

_AT_ONCE = 2
"""Go compiles packages in parallel by itself, but links and downloads one by one: two builds fill the gaps."""


@dataclass(frozen=True, slots=True)
class Source:
    """A Go main package to build.

    `name` is how messages call it, `alternatives` how else the user can get the executable.
    """

    name: str
    directory: Path
    package: str
    stamps: Mapping[str, str]
    alternatives: str

    @property
    def ldflags(self) -> str:
        """Without symbol tables, which nobody reads here, and with the version stamped in."""
        return " ".join(["-s", "-w", *(f"-X {variable}={value}" for variable, value in self.stamps.items())])


class Workshop:
    """What every build shares: the cache, the toolchain, and the children that must end with us.

    `environment` is added to the environment of every child.
    """

    def __init__(self, cache: Cache, progress: Progress, environment: Mapping[str, str] | None = None) -> None:
        self.cache = cache
        self.progress = progress
        self.commands = Commands(environment)

    @cached_property
    def toolchain(self) -> Toolchain:
        """Looked for when first needed.

        Raises:
            ToolchainError: there is no usable Go.
        """
        return find_go(self.commands)

    def make(self, name: str, key: str, fill: Callable[[Path, Path, Task], None], *, title: str = "") -> Path:
        """The cache entry of that name and key, made by `fill` (entry folder, scratch folder, task) if need be.

        `title` is what a person sees meanwhile, the name if there is none.

        Raises:
            BinaryError: it cannot be made.
        """
        found = self.cache.find(name, key)
        if found is not None:
            return found
        with self.progress.task(title or name) as task:

            def waiting() -> None:
                task.note = "waiting for another run that builds it"
                self.commands.check()

            return self.cache.make(name, key, lambda entry, scratch: fill(entry, scratch, task), waiting=waiting)

    def compile(self, source: Source, output: Path, scratch: Path, task: Task) -> None:
        """Build a static executable that does not depend on where its source lies.

        Raises:
            BuildError: the compiler or the module proxy refused; the message has their words.
            ToolchainError: there is no usable Go.
        """
        task.note = "compiling"
        counter = _Counter(task)
        argv = ["build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly"]
        argv += ["-ldflags", source.ldflags, "-o", str(output), source.package]
        result = self.go(argv, cwd=source.directory, scratch=scratch, heard=counter.hear)
        if result.code != 0:
            raise explain(source.name, result.lines, alternatives=source.alternatives, cache=self.cache.root)

    def module(
        self, module: str, version: str, *, cwd: Path, scratch: Path, title: str = "", alternatives: str = ""
    ) -> Path:
        """The folder with a module's source in Go's module cache; it is read-only.

        Args:
            module: its path.
            version: with its leading v.
            cwd: a folder whose go.sum has the module's sum; any other if it is in none.
            scratch: as for `go`.
            title: how a message calls what it is wanted for, the module if there is none.
            alternatives: as in `Source`.

        Raises:
            BuildError: the module proxy does not give it.
            ToolchainError: there is no usable Go.
        """
        result = self.go(["mod", "download", "-json", f"{module}@{version}"], cwd=cwd, scratch=scratch)
        answer = json.loads(result.output) if result.output.startswith("{") else {}
        if result.code != 0 or "Dir" not in answer:
            lines = [*str(answer.get("Error", "")).splitlines(), *result.lines]
            raise explain(title or module, lines, alternatives=alternatives, cache=self.cache.root)
        return Path(answer["Dir"])

    def go(
        self, argv: Sequence[str], *, cwd: Path, scratch: Path, heard: Callable[[str], None] = lambda _: None
    ) -> Finished:
        """Run one Go command, isolated from settings that would change what it builds."""
        system, _, architecture = host().partition("/")
        env = {
            "CGO_ENABLED": "0",
            "GOOS": system,
            "GOARCH": architecture,
            "GOWORK": "off",  # a workspace around the folder would replace pinned modules
            "GOFLAGS": "",
            "GOTMPDIR": str(scratch),  # what a killed build leaves is then removed with the scratch folder
        }
        return self.commands.run([self.toolchain.go, *argv], cwd=cwd, env=env, heard=heard)

    def in_parallel(self, jobs: Iterable[Callable[[], None]]) -> None:
        """Run all; the first failure, or a Ctrl-C, ends the others at once and is raised."""
        with self.commands.stoppable(), ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="holdback-build") as pool:
            futures = [pool.submit(job) for job in jobs]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                self.commands.stop()
                raise


class _Counter:
    """Turns what `go build -v` says into a note: how many modules came, how many packages were compiled."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._modules = 0
        self._packages = 0

    def hear(self, line: str) -> None:
        if line.startswith("go: downloading "):
            self._modules += 1
        elif re.fullmatch(r"\S+", line):
            self._packages += 1
        self._task.note = (
            f"{counted(self._modules, 'module')} downloaded, {counted(self._packages, 'package')} compiled"
        )
