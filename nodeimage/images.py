"""The images that can be built, each an archive in the cache of executables, and what makes another build necessary."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.binaries import Binaries
from holdback.binaries.pins import pin, pins, pins_in
from holdback.binaries.workshop import Source
from nodeimage import experiments
from nodeimage.node import EXECUTABLES, write_node
from nodeimage.python import write_python
from nodeimage.workbench import NodeBench, Workbench

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdback.binaries.progress import Task
    from holdback.process import Run

__all__ = ["IMAGES", "NODE", "Image", "binaries"]

_HERE = Path(__file__).parent
_PINNED = {**pins(), **pins_in(_HERE / "pins")}
_VERSION = pin("kube-apiserver").version
NODE = f"holdback/node:{_VERSION}"


def binaries(environment: Mapping[str, str] | None = None) -> Binaries:
    """Holdback's executables and those of the node; `environment` is added to that of the build's children."""
    return Binaries(pinned=_PINNED, environment=environment)


@dataclass(frozen=True, slots=True)
class Image:
    """One image. `entry` is its name in the cache, and its key there changes when the image would."""

    entry: str
    title: str
    key: Callable[[], str]
    fill: Callable[[Run, Binaries, Path, Path, Task], None]
    """Writes the archive that it is given; the folder after it is for scratch."""

    @property
    def there(self) -> bool:
        """Whether it is built."""
        return binaries().workshop.cache.find(self.entry, self.key()) is not None

    def made(self, run: Run, executables: Binaries) -> Path:
        """The archive, built now if need be.

        Raises:
            BinaryError: it cannot be built.
        """

        def fill(entry: Path, scratch: Path, task: Task) -> None:
            self.fill(run, executables, entry / self._archive, scratch, task)

        return executables.workshop.make(self.entry, self.key(), fill, title=self.title) / self._archive

    @property
    def _archive(self) -> str:
        return f"{self.entry.removeprefix('kind-')}.tar"


def _key(parts: Iterable[bytes], own: Sequence[str]) -> str:
    """Of what is made of these parts by these files of ours."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    for path in sorted(path for pattern in own for path in _HERE.glob(pattern)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _node_key() -> str:
    own = ("files/*", "pause/*", "archive.py", "containers.py", "debian.py", "node.py")
    return _key((pin(name, _PINNED).key.encode() for name in EXECUTABLES), own)


def _fill_node(run: Run, executables: Binaries, target: Path, scratch: Path, task: Task) -> None:
    task.note = "building executables"
    workshop = executables.workshop
    parts = {**executables.get(*EXECUTABLES), "pause": scratch / "pause"}
    own = Source("pause", _HERE / "pause", ".", {}, "nothing else will do")
    workshop.compile(own, parts["pause"], scratch, task)
    kind = pin("kind")
    source = workshop.module(kind.package, kind.version, cwd=kind.directory, scratch=scratch)
    bench = NodeBench(run, workshop, scratch, parts, source)
    write_node(bench, target, name=NODE, version=_VERSION, key=_node_key(), task=task)


def _python_key() -> str:
    return _key((), ("archive.py", "debian.py", "python.py"))


def _fill_python(run: Run, executables: Binaries, target: Path, scratch: Path, task: Task) -> None:
    write_python(Workbench(run, executables.workshop, scratch), target, task=task)


_PYTHON = Image("kind-python", "a stand-in for python:3.13-slim", _python_key, _fill_python)


def _experiments_key() -> str:
    return _key((_python_key().encode(), experiments.digest()), ("experiments.py",))


def _fill_experiments(run: Run, executables: Binaries, target: Path, scratch: Path, task: Task) -> None:
    task.note = "waiting for what it starts from"
    base = _PYTHON.made(run, executables)
    cache = executables.workshop.cache.root
    before = [path for path in cache.glob("kind-experiments-*") if ".partial-" not in path.name]
    experiments.write_experiments(Workbench(run, executables.workshop, scratch), base, target, task=task)
    for old in before:  # each change of the sources makes another one, of a gigabyte
        shutil.rmtree(old, ignore_errors=True)


IMAGES = {
    "node": Image("kind-node", NODE, _node_key, _fill_node),
    "experiments": Image("kind-experiments", "the image of deploy/Containerfile", _experiments_key, _fill_experiments),
}
"""By the names that the command line has for them."""
