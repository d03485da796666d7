"""Where built things stay: a folder outside every repository, shared by all runs of a user.

An entry is a folder that appears whole, by one rename, or not at all. A lock for each entry makes a second run
wait for the first instead of building the same thing again. A lock belongs to an open file, so that of a
killed run is free at once; what the killed run left half-made is removed by the next one that makes the entry.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from filelock import BaseFileLock, FileLock, Timeout

from holdback.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Cache", "default_cache", "disk_full"]


def default_cache() -> Path:
    """The folder that `HOLDBACK_CACHE` names, else the user's cache folder."""
    named = os.environ.get("HOLDBACK_CACHE")
    return Path(named).expanduser().absolute() if named else platformdirs.user_cache_path("holdback")


@dataclass(frozen=True, slots=True)
class Cache:
    """Entries are found by name and key; whatever changes an entry's content must change its key."""

    root: Path

    def find(self, name: str, key: str) -> Path | None:
        """The entry's folder, None when there is none."""
        entry = self._entry(name, key)
        return entry if entry.is_dir() else None

    def make(self, name: str, key: str, fill: Callable[[Path, Path], None], *, waiting: Callable[[], None]) -> Path:
        """The entry's folder, made now when there is none.

        `fill` gets the folder to fill and a scratch folder beside it. `waiting` is called again and again while
        another run makes the same entry; an exception from it ends the wait.

        Raises:
            BinaryError: the cache folder cannot be written.
        """
        entry = self._entry(name, key)
        if entry.is_dir():
            return entry
        try:
            with self._lock(name, key, waiting):
                if not entry.is_dir():
                    self._sweep(name, key)
                    self._fill(entry, fill)
        except OSError as error:
            raise self._unusable(error) from error
        return entry

    def size(self) -> int:
        """Bytes in all entries."""
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def _entry(self, name: str, key: str) -> Path:
        return self.root / f"{name}-{key}"

    @contextmanager
    def _lock(self, name: str, key: str, waiting: Callable[[], None]) -> Iterator[None]:
        locks = self.root / "locks"
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(locks / f"{name}-{key}.lock")
        _acquire(lock, waiting)
        try:
            yield
        finally:
            lock.release()

    def _sweep(self, name: str, key: str) -> None:
        """Only called under the lock: what is there now belongs to nobody."""
        for left in self.root.glob(f"{name}-{key}.partial-*"):
            shutil.rmtree(left, ignore_errors=True)

    def _fill(self, entry: Path, fill: Callable[[Path, Path], None]) -> None:
        partial = Path(tempfile.mkdtemp(prefix=f"{entry.name}.partial-", dir=self.root))
        try:
            target, scratch = partial / "entry", partial / "scratch"
            target.mkdir()
            scratch.mkdir()
            fill(target, scratch)
            target.rename(entry)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _unusable(self, error: OSError) -> BinaryError:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return disk_full(self.root)
        return BinaryError(
            f"the cache {self.root} cannot be used: {error.strerror} ({error.filename})",
            remedy="make that folder writable, or name another one in HOLDBACK_CACHE",
        )


def disk_full(folder: Path) -> BinaryError:
    """The error for a disk without room; `folder` is where holdback wanted to write."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free // 2**20
    return BinaryError(
        f"no space left on a disk; {folder} has {free} MiB free",
        remedy="free some space (a full build needs about 10 GiB, most of it Go's own caches: `go clean -cache`), "
        "or name a folder on another disk in HOLDBACK_CACHE, and in GOCACHE and GOMODCACHE for Go",
    )


def _acquire(lock: BaseFileLock, waiting: Callable[[], None]) -> None:
    while True:
        try:
            # Short, so that an interrupted run does not stay here until the other run is done.
            lock.acquire(timeout=0.2)
        except Timeout:
            waiting()
        else:
            return
