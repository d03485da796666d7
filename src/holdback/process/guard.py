"""Our end of the reaper: it is started, kept alive, and let go."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from holdback.errors import ProcessError
from holdback.process.reaper import MARK, READY

__all__ = ["Guard"]

_GOODBYE_WITHIN = 20.0
_MOST_RESTARTS = 5
"""A reaper that dies more often is ended by something that will not stop."""


class Guard:
    """A reaper for a run. One that is ended from outside is replaced at once: no run goes on without its net.

    Args:
        run: the run's name.
        directory: the run's private directory.
        watch: further processes whose death ends the run.
        say: told when the reaper was replaced, or could not be; in that case the run is interrupted as by Ctrl-C.

    Raises:
        ProcessError: the reaper does not start.
    """

    def __init__(self, run: str, directory: Path, watch: Sequence[int], say: Callable[[str], None]) -> None:
        self._words = [run, str(directory), str(os.getpid()), *map(str, watch)]
        self._say = say
        self._lock = threading.Lock()
        self._over = False
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch, name="holdback-guard", daemon=True)
        self._thread.start()

    def dismiss(self) -> None:
        """The run ended well: let the reaper go."""
        self._end(b"goodbye\n")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GOODBYE_WITHIN)
        self._thread.join(_GOODBYE_WITHIN)

    def alarm(self) -> None:
        """Leave without a goodbye: it cleans up behind us at once."""
        self._end(b"")

    def _end(self, word: bytes) -> None:
        with self._lock:
            self._over = True
            _hang_up(self._process, word)

    def _watch(self) -> None:
        for _ in range(_MOST_RESTARTS):
            self._process.wait()
            with self._lock:
                if self._over:
                    return
                _hang_up(self._process, b"")
                try:
                    self._process = self._start()
                except (ProcessError, OSError) as error:
                    self._say(str(error))
                    continue
            self._say("what cleans up behind this run was ended from outside; another process has taken its place")
        self._process.wait()
        with self._lock:
            if not self._over:
                self._give_up()

    def _give_up(self) -> None:
        self._say("what cleans up behind this run was ended from outside again and again, so the run ends now")
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)  # to that thread, as a system call in it must end

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("reaper.py")), *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # It must not carry a mark, or an outer run's reaper would kill it before it has done its work.
            env={name: value for name, value in os.environ.items() if name != MARK},
            cwd="/",
            start_new_session=True,
        )
        assert process.stdout
        if process.stdout.readline() != READY:
            _, complaint = process.communicate()
            raise ProcessError(
                f"the process that guards this run does not start: {complaint.decode(errors='replace').strip()}",
                remedy=f"`{sys.executable} -I -c 'import psutil'` must work",
            )
        process.stdout.close()
        return process


def _hang_up(process: subprocess.Popen[bytes], word: bytes) -> None:
    """Say the word, if there is one, and close our ends of the pipes; the reaper may be dead, and they closed."""
    assert process.stdin
    if process.stdin.closed:
        return
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(word)
        process.stdin.flush()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    if process.stderr:
        process.stderr.close()
