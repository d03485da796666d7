"""One run of holdback: its name, its private directory, its ports, its children, and the reaper behind it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from holdback.errors import ProcessError
from holdback.process.child import Child, stop_all
from holdback.process.guard import Guard
from holdback.process.ports import Ports
from holdback.process.reaper import MARK, WILLS, sweep

__all__ = ["Run", "open_run"]

# A unix socket's path has at most 103 bytes on macOS, and sockets lie some names below the run's directory.
_LONGEST_BASE = 50
_ROOM = "they must be writable and have room; TMPDIR says where the private one goes"


class Run:
    """One run; made by `open_run`.

    Attributes:
        id: random, different for each run.
        directory: private (0700), short, removed at the end, whatever the end.
        logs: where the children's logs stay.
        environment: what every child carries, and by which the reaper finds it.
    """

    def __init__(self, name: str, directory: Path, logs: Path) -> None:
        self.id = name
        self.directory = directory
        self.logs = logs
        self.environment: Mapping[str, str] = {MARK: name}
        self._ports = Ports()
        self._children: list[Child] = []
        self._closed = False
        self._lock = threading.Lock()
        self._wills = count()

    def port(self) -> int:
        """A free loopback port, reserved against other runs of holdback until this one ends.

        Raises:
            ProcessError: none is left.
        """
        return self._ports.take()

    def folder(self, name: str) -> Path:
        """A new private directory below the run's: a world that is started anew meets nothing of its predecessor.

        Raises:
            ProcessError: it cannot be made.
        """
        names = chain([name], (f"{name}.{number}" for number in count(2)))
        try:
            return next(path for one in names if (path := _made(self.directory / one)))
        except OSError as error:
            raise ProcessError(f"a directory of this run cannot be made: {error}", remedy=_ROOM) from error

    @contextmanager
    def if_killed(self, argv: Sequence[str | Path]) -> Iterator[None]:
        """Within the block, should we be killed, the reaper runs this command when all processes of the run are gone.

        It is for what we start and must undo, and what is no process of this machine.

        Raises:
            ProcessError: it cannot be kept.
        """
        will = self.directory / WILLS / f"{next(self._wills)}.json"
        try:
            will.parent.mkdir(mode=0o700, exist_ok=True)
            will.with_suffix(".part").write_text(json.dumps([str(word) for word in argv]))
            will.with_suffix(".part").rename(will)
        except OSError as error:
            raise ProcessError(f"a file of this run cannot be made: {error}", remedy=_ROOM) from error
        try:
            yield
        finally:
            will.unlink(missing_ok=True)

    @contextmanager
    def starting(self) -> Iterator[Callable[[Child], None]]:
        """Within the block no child is started by others and the run does not end; gives the registration.

        Raises:
            ProcessError: the run is over.
        """
        with self._lock:
            if self._closed:
                raise ProcessError("this run is over", remedy="start children only inside `with open_run(...)`")
            self._children = [child for child in self._children if child.alive()]
            yield self._children.append

    def _stop_children(self) -> None:
        with self._lock:
            self._closed = True
            children = self._children[::-1]
        stop_all(children)

    def _close(self) -> list[Exception]:
        """Undo everything, each step whatever became of the others; what failed."""
        steps: list[Callable[[], object]] = [
            self._stop_children,
            lambda: sweep(self.id),  # what left its process group
            self._ports.release,
            lambda: shutil.rmtree(self.directory),
        ]
        failures = []
        for step in steps:
            try:
                step()
            except Exception as error:  # noqa: BLE001
                failures.append(error)
        return failures


def _made(path: Path) -> Path | None:
    """The directory, if it is new."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return None
    return path


def _base() -> Path:
    preferred = Path(tempfile.gettempdir())
    return preferred if len(os.fsencode(preferred)) <= _LONGEST_BASE else Path("/tmp")  # noqa: S108


@contextmanager
def open_run(
    *, logs: Path, watch: Sequence[int] = (), say: Callable[[str], None] = lambda text: print(text, file=sys.stderr)
) -> Iterator[Run]:
    """Open a run; at its end nothing of it is left but its logs.

    That holds too when we are killed: a separate process, the reaper, then ends every child and removes
    the private directory within five seconds.

    Args:
        logs: directory for the children's logs, made if missing.
        watch: further processes whose death ends the run (the controller of pytest-xdist, say).
        say: told when the reaper was ended from outside.

    Raises:
        ProcessError: the guarding process does not start, or a directory cannot be made.
        ExceptionGroup: what failed at the end. When the block itself failed, its error gets them as notes.
    """
    name = secrets.token_hex(6)
    directory = _base() / f"hb-{name}"
    guard = Guard(name, directory, watch, say)
    try:
        logs.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)
        run = Run(name, directory, logs.resolve())
    except OSError as error:
        guard.alarm()
        raise ProcessError(
            f"this run cannot have its directories: {error}",
            remedy=_ROOM,
        ) from error
    except BaseException:
        guard.alarm()
        raise
    try:
        yield run
    except BaseException as error:
        for failure in _end(run, guard):
            error.add_note(f"while cleaning up: {failure}")
        raise
    if failures := _end(run, guard):
        raise ExceptionGroup("the run did not end cleanly", failures)


def _end(run: Run, guard: Guard) -> list[Exception]:
    try:
        failures = run._close()
    except BaseException:  # a second Ctrl-C: the reaper finishes what we may not
        guard.alarm()
        raise
    if failures:
        guard.alarm()
    else:
        guard.dismiss()
    return failures
