"""One child process: started in a session of its own, watched, and stopped with all that it started."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from holdback.clock import SystemClock, poll
from holdback.errors import NotReady, ProcessError, ProcessExited

if TYPE_CHECKING:
    from holdback.process.run import Run

__all__ = ["Child", "await_ready", "child", "start", "stop_all"]

_TAIL_BYTES = 64 * 1024
_GRACE = 5.0
_KILL_WITHIN = 30.0
"""Seconds: what waits for a disk dies only when it has been served."""
_PORT_TAKEN = re.compile(r".*:(\d{2,5})\b.*address already in use", re.IGNORECASE)
_DISK_FULL = "no space left on device"
_STACK_TRACES = 500
"""Lines: a program that panics writes its reason, and then the stacks of all its goroutines."""


class Child:
    """A process that `start` began, and its process group. Safe to use from several threads."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path, log_start: int) -> None:
        self.name = name
        self.pid = process.pid
        self.log = log
        self._process = process
        self._log_start = log_start
        self._paused = False
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Child({self.name!r}, pid={self.pid})"

    def alive(self) -> bool:
        """Whether it runs (a paused one does)."""
        with self._lock:
            if self._process.returncode is None and self._ended():
                self._reap()
            return self._process.returncode is None

    def check(self) -> None:
        """Say so if it is gone, or somebody else than we paused it: what then does not happen is no finding.

        Raises:
            ProcessExited: with its exit code or signal and the end of its log.
            ProcessError: it is stopped.
        """
        with self._lock:
            self._check_there()
            if not self._paused and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED:
                raise ProcessError(
                    f"{self.name} (pid {self.pid}) was stopped from outside, by SIGSTOP or the like",
                    remedy=f"find out who did it; `kill -CONT {self.pid}` lets it go on",
                )

    def log_tail(self, lines: int = 20) -> str:
        """The last lines it wrote, read from the end however long the log is; none if the log is gone."""
        try:
            return self._tail(lines)
        except FileNotFoundError:
            return ""

    def _tail(self, lines: int) -> str:
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(self._log_start, size - _TAIL_BYTES)
            file.seek(begin)
            text = file.read().decode(errors="replace").splitlines()
        if begin > self._log_start:
            text = text[1:]  # the first one is cut
        return "\n".join(text[-lines:])

    def stop(self, grace: float = _GRACE) -> None:
        """End it and its process group: SIGTERM, and after `grace` seconds SIGKILL. Again is harmless.

        Raises:
            ExceptionGroup: it does not even die of SIGKILL.
        """
        stop_all([self], grace)

    def kill(self) -> None:
        """SIGKILL, for it and its process group; returns when it is gone.

        Raises:
            ProcessError: it does not die.
        """
        self._signal(signal.SIGKILL)
        if not self._gone_within(_KILL_WITHIN):
            raise ProcessError(
                f"{self.name} (pid {self.pid}) does not die of SIGKILL",
                remedy="it hangs in the kernel, mostly on a broken disk or network file system",
            )

    def pause(self) -> None:
        """SIGSTOP: it keeps its connections and answers nothing.

        Raises:
            ProcessExited: it is gone.
        """
        with self._lock:
            self._check_there()
            self._paused = True
            self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused one go on.

        Raises:
            ProcessExited: it is gone.
        """
        with self._lock:
            self._check_there()
            self._signal(signal.SIGCONT)
            self._paused = False

    def _check_there(self) -> None:
        if not self.alive():
            raise self._exited()

    def _ended(self) -> bool:
        """Whether it is dead and not yet reaped; as long as it is not reaped, its pid cannot be reused."""
        if hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE

    def _reap(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM when only zombies are left
            os.killpg(self.pid, signal.SIGKILL)  # what it started must not outlive it
        self._process.wait()

    def _signal(self, *signals: signal.Signals) -> None:
        with self._lock:
            if not self.alive():
                return
            for number in signals:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, number)

    def _terminate(self) -> None:
        self._signal(signal.SIGTERM, signal.SIGCONT)  # a paused process gets SIGTERM only when it goes on

    def _gone_within(self, seconds: float) -> bool:
        return poll(lambda: not self.alive(), within=seconds, every=0.01) is not None

    def _exited(self) -> ProcessExited:
        code = self._process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        tail, clues = self.log_tail(), self.log_tail(_STACK_TRACES)
        remedy = f"its whole log is {self.log}"
        if taken := _PORT_TAKEN.search(clues):
            remedy = f"another program took port {taken[1]} (`ss -ltnp` shows which): end it or start again; {remedy}"
        elif _DISK_FULL in clues:
            remedy = f"make room on the disks of {self.log.parent} and of the run's directory; {remedy}"
        return ProcessExited(f"{self.name} {how}; the end of its log:\n{tail or '(empty)'}", remedy=remedy)


def stop_all(children: Sequence[Child], grace: float = _GRACE) -> None:
    """End them all in about the time of the slowest: everyone is asked first, then awaited, then killed.

    Raises:
        ExceptionGroup: those that do not die.
    """
    clock = SystemClock()
    for one in children:
        one._terminate()
    deadline = clock.monotonic() + grace
    failures: list[Exception] = []
    for one in children:
        if not one._gone_within(max(0.0, deadline - clock.monotonic())):
            try:
                one.kill()
            except ProcessError as error:
                failures.append(error)
    if failures:
        raise ExceptionGroup("processes that do not end", failures)


def start(
    run: Run,
    name: str,
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Child:
    """Start a child of the run; what it writes goes to `NAME.log` in the run's logs.

    It has a session of its own, so that a terminal's Ctrl-C reaches only us and we end it in order.

    Args:
        run: stops it at its end, if nobody did before.
        name: what messages and its log call it.
        argv: the executable and its arguments.
        env: additions to our own environment.
        cwd: its working directory.

    Raises:
        ProcessError: the executable cannot be started, or the run is over.
    """
    log = run.logs / f"{name}.log"
    try:
        with open(log, "ab", opener=_private) as output, run.starting() as register:
            log_start = output.tell()
            process = subprocess.Popen(
                [str(word) for word in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(env or {}), **run.environment},
                cwd=cwd,
                start_new_session=True,
            )
            started = Child(name, process, log, log_start)
            register(started)
    except OSError as error:
        raise ProcessError(
            f"{name} cannot be started: {error}",
            remedy=f"check that {argv[0]} exists, is executable and fits this machine, and that {log} can be written",
        ) from error
    return started


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@contextmanager
def child(
    run: Run,
    name: str,
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[Child]:
    """`start` it, and stop it at the end of the block."""
    started = start(run, name, argv, env=env, cwd=cwd)
    try:
        yield started
    finally:
        started.stop()


def await_ready(child: Child, probe: Callable[[], bool], *, within: float, what: str, every: float = 0.05) -> None:
    """Wait until `probe` says yes, or the child dies.

    Args:
        child: whose death ends the waiting at once.
        probe: asked every `every` seconds; must not raise for a mere "not yet".
        within: seconds.
        what: what is awaited, for the message.
        every: seconds.

    Raises:
        ProcessExited: the child is gone.
        NotReady: it was not ready in time.
    """

    def ready() -> bool:
        child.check()
        return probe()

    if poll(ready, within=within, every=every) is None:
        tail = child.log_tail() or "(empty)"
        raise NotReady(
            f"{child.name} was not ready ({what}) within {within:g} s; the end of its log:\n{tail}",
            remedy=f"the machine may be overloaded; the whole log is {child.log}",
        )
    child.check()  # it may be dead and somebody else have answered
