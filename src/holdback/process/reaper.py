"""A small process of its own that cleans up behind a run that could not.

A process killed with SIGKILL cleans up nothing, so somebody else must. The reaper is started before
anything else of the run, in a session of its own, and waits for one of three things:

- a word on its standard input: the run ended well, nothing is left to do;
- the end of its standard input without a word, or the owner's death: the owner was killed;
- the death of a watched process (the controller of pytest-xdist, say): the owner gets a second to end
  by itself, then it is killed too.

In the latter cases it kills every process that carries the run's `HOLDBACK_RUN` in its environment, until
none has shown up for a second, runs what the run has left for this case (what it started is not always a process of
this machine), and removes the run's private directory.

It runs as a plain file under `python -I` and imports nothing of holdback: it must work whatever the
owner's import path was.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

__all__ = ["MARK", "READY", "WILLS", "living", "members", "sweep"]

MARK = "HOLDBACK_RUN"
"""The environment variable by which a run's processes are known."""
READY = b"ready\n"
"""What the reaper writes once it stands guard."""

WILLS = "if-killed"
"""The folder in the run's private directory with what to run when it was killed: a JSON list of words a file."""

_LOOK_EVERY = 0.25
_GRACE = 1.0
_QUIET = 1.0
_GIVE_UP = 30.0
_WILL_WITHIN = 120.0


def members(run: str) -> list[psutil.Process]:
    """The living processes that carry this run's mark, without the caller."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _carries(process, run)]


def living() -> set[str]:
    """The runs of this machine that have not ended: those that a reaper guards."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            words = process.cmdline()
            if len(words) > 4 and Path(words[2]).name == Path(__file__).name and words[1] == "-I":
                found.add(words[3])
    return found


def _carries(process: psutil.Process, run: str) -> bool:
    try:
        return process.environ().get(MARK) == run and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False  # gone meanwhile, or another user's, so not ours


def sweep(run: str, *, quiet: float = 0.0, give_up: float = _GIVE_UP) -> list[int]:
    """Kill the run's processes until none has shown up for `quiet` seconds.

    A single look is not enough after a sudden end: a child may have been forked but not have its environment yet.

    Returns:
        The processes that were killed.
    """
    killed: dict[int, None] = {}
    end = time.monotonic() + give_up
    silent_since = time.monotonic()
    while time.monotonic() < end:
        found = members(run)
        for process in found:
            with contextlib.suppress(psutil.Error):
                process.kill()
                killed[process.pid] = None
        if found:
            silent_since = time.monotonic()
        elif time.monotonic() - silent_since >= quiet:
            break
        time.sleep(0.05)
    return list(killed)


def _alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _find(pids: Iterable[int]) -> tuple[list[psutil.Process], bool]:
    """The processes (with their start times, so that a reused pid is not taken for them); whether all were there."""
    found, complete = [], True
    for pid in pids:
        try:
            found.append(psutil.Process(pid))
        except psutil.Error:
            complete = False
    return found, complete


def _word(seconds: float) -> bytes | None:
    """What the owner said within that time; empty when it closed the pipe, None when it is silent."""
    readable, _, _ = select.select([0], [], [], seconds)
    return os.read(0, 64) if readable else None


def _guard(owner: list[psutil.Process], watched: list[psutil.Process]) -> bool:
    """Wait for the end of the run; True when it was a goodbye."""
    while True:
        word = _word(_LOOK_EVERY)
        if word is not None:
            return bool(word)
        if not all(map(_alive, owner)):
            return False
        if not all(map(_alive, watched)):
            return bool(_word(_GRACE))


def _carry_out(wills: Path) -> None:
    """Run what the run has left, each whatever becomes of the others; there is nobody left to tell of a failure."""
    for will in sorted(wills.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            subprocess.run(
                json.loads(will.read_text()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_WILL_WITHIN,
                check=False,
            )


def main(arguments: list[str]) -> None:
    """`reaper RUN DIRECTORY OWNER [WATCHED...]`: guard the run, then clean up if it did not."""
    run, directory, owner_pid, *watched_pids = arguments
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)  # it ends when the run does, and not before
    owner, owner_there = _find([int(owner_pid)])
    watched, watched_there = _find(map(int, watched_pids))
    os.write(1, READY)
    if owner_there and watched_there and _guard(owner, watched):
        return
    if not all(map(_alive, watched)) or not watched_there:
        for process in owner:
            with contextlib.suppress(psutil.Error):
                process.kill()
    sweep(run, quiet=_QUIET)
    _carry_out(Path(directory) / WILLS)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
