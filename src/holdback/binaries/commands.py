"""Child commands of a build: run to their end, and ended with us.

A build has many children of its own, so each command gets a session of its own and is killed with its whole
process group. Commands may run in several threads; `stop` ends them all, from any thread.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdback.errors import BinaryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Commands", "Finished", "Stopped"]


class Stopped(Exception):  # no error: the main thread has one, or a Ctrl-C, and shows that
    """The build was given up while this command ran or was about to."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that ended by itself."""

    code: int
    output: str
    lines: tuple[str, ...]
    """What it said on standard error."""


class Commands:
    """Starts commands and knows which of them run."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(environment or {})
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False
        self._lock = threading.Lock()

    def run(
        self,
        argv: Sequence[str | Path],
        *,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        heard: Callable[[str], None] = lambda _: None,
        within: float | None = None,
    ) -> Finished:
        """Run to the end; `heard` gets each line of standard error as it comes.

        What has not ended after `within` seconds is killed, which its exit code tells.

        Raises:
            BinaryError: the command could not be started.
            Stopped: `stop` was called.
        """
        lines = []
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
            child = self._start(argv, cwd, {**os.environ, **self._environment, **(env or {})}, output.fileno())
            limit = threading.Timer(within or 0, _kill, [child])
            try:
                if within is not None:
                    limit.start()
                assert child.stderr is not None
                for line in child.stderr:
                    lines.append(line.rstrip("\n"))
                    heard(lines[-1])
                child.wait()
            finally:
                limit.cancel()
                self._end(child)
            self.check()
            output.seek(0)
            return Finished(child.returncode, output.read(), tuple(lines))

    def check(self) -> None:
        """Raise Stopped once `stop` was called."""
        if self._stopped:
            raise Stopped

    @contextlib.contextmanager
    def stoppable(self) -> Iterator[None]:
        """Around work in several threads: a `stop` in it holds until all of them have ended."""
        try:
            yield
        finally:
            self._stopped = False

    def stop(self) -> None:
        """Kill every running command with its children; until `stoppable` ends, later ones do not start."""
        with self._lock:
            self._stopped = True
            for child in self._running:
                _kill(child)

    def _start(
        self, argv: Sequence[str | Path], cwd: Path, env: Mapping[str, str], output: int
    ) -> subprocess.Popen[str]:
        with self._lock:
            self.check()
            try:
                child = subprocess.Popen(
                    argv,
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.PIPE,
                    encoding="utf-8",
                    errors="replace",
                    start_new_session=True,
                )
            except OSError as error:
                raise BinaryError(
                    f"{argv[0]} cannot be started: {error.strerror}", remedy="holdback doctor shows what is there"
                ) from error
            self._running.add(child)
            return child

    def _end(self, child: subprocess.Popen[str]) -> None:
        """Leave nothing of the child, however its reader ended."""
        with self._lock:
            if child.returncode is None:
                _kill(child)
            child.wait()
            self._running.discard(child)
        if child.stderr is not None:
            child.stderr.close()


def _kill(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
