"""The image of deploy/Containerfile, built as it stands there. Only what it starts from is a stand-in of ours.

Buildah builds it, which is what `podman build` calls: unlike a Docker engine it can lend Go's caches to a build, and so
a second build takes minutes. The archive that comes out has the name that deploy/job.yaml gives the image.
"""

from __future__ import annotations

import hashlib
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from holdback.errors import ConfigurationError
from nodeimage import python
from nodeimage.registries import HOME, mounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdback.binaries.progress import Task
    from nodeimage.workbench import Workbench

__all__ = ["copied", "digest", "write_experiments"]

_ROOT = Path(__file__).parents[1]
_CONTAINERFILE = _ROOT / "deploy" / "Containerfile"
_NAME = "holdback:latest"
_OF_GO = {"GOCACHE": str(HOME / ".cache/go-build"), "GOMODCACHE": str(HOME / "go/pkg/mod")}
"""Where Go keeps its caches, by the variable that says so here."""
_WIDTH = 80
"""Of a note, so that it stays on its line."""


def copied(text: str) -> list[str]:
    """The names of what a Containerfile, or a part of one, copies out of the repository."""
    lines = (line.split() for line in text.splitlines() if line.startswith("COPY ") and "--from" not in line)
    return list(dict.fromkeys(name for words in lines for name in words[1:-1]))


def digest() -> bytes:
    """Changes when something does that the image is made of, as far as it is in the repository."""
    sum_ = hashlib.sha256(_CONTAINERFILE.read_bytes())
    for path in _files():
        sum_.update(f"{path.relative_to(_ROOT)} {path.stat().st_mode:o} {path.stat().st_size}\n".encode())
        sum_.update(path.read_bytes())
    return sum_.digest()


def _files() -> Iterator[Path]:
    for name in copied(_CONTAINERFILE.read_text()):
        there = _ROOT / name
        below = there.rglob("*") if there.is_dir() else [there]
        yield from sorted(path for path in below if path.is_file() and "__pycache__" not in path.parts)


def write_experiments(bench: Workbench, base: Path, target: Path, *, task: Task) -> None:
    """Build the image and write it to the archive `target`.

    Args:
        bench: the scratch folder; buildah keeps everything in there.
        base: the archive of the image to start from.
        target: what `ctr images import` is to read.
        task: shows what is being done.

    Raises:
        ConfigurationError: there is no buildah.
        BuildError: a step failed; with the end of what was said.
    """
    if shutil.which("buildah") is None:
        raise ConfigurationError(
            "there is no `buildah` on the PATH, which builds the image of the experiments",
            remedy="on Debian: apt-get install buildah",
        )
    storage = bench.scratch / "storage"
    # What buildah mounts is its own, so none is left behind. It tells of its steps on standard output.
    buildah: list[str | Path] = ["unshare", "--mount", "sh", "-c", 'exec buildah "$@" >&2', "buildah"]
    buildah += ["--storage-driver=overlay", "--root", storage / "root", "--runroot", storage / "state"]

    def hear(line: str) -> None:
        if line.strip():
            task.note = line.strip()[:_WIDTH]

    bench.command(*buildah, "pull", "--quiet", f"docker-archive:{base}", heard=hear)
    volumes = [f"--volume={here}:{there}" for here, there in _lent(bench)]
    bench.command(*buildah, "build", *_flags(), *volumes, _ROOT, heard=hear)
    task.note = "writing the image"
    bench.command(*buildah, "push", "--quiet", f"localhost/{_NAME}", f"docker-archive:{target}:{_NAME}")


def _flags() -> list[str]:
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        # Neither a network nor a runtime of its own: so it needs no engine, and works wherever root is.
        "--isolation=chroot",
        "--network=host",
        "--pull-never",
        f"--build-arg=PYTHON={python.NAME}",
        f"--file={_CONTAINERFILE}",
        f"--tag=localhost/{_NAME}",
        # By itself it asks for more than a root without CAP_SYS_RESOURCE may give.
        f"--ulimit=nofile={files}:{files}",
    ]


def _lent(bench: Workbench) -> Iterator[tuple[Path, str]]:
    """Mounted during the build, and no part of the image."""
    told = bench.command(bench.workshop.toolchain.go, "env", *_OF_GO).splitlines()
    for here, there in zip(told, _OF_GO.values(), strict=True):
        Path(here).mkdir(parents=True, exist_ok=True)
        yield Path(here), there
    yield from mounts(bench)
