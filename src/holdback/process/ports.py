"""Loopback ports that no other run of holdback, and hardly anybody else, will take.

Asking the kernel for port 0 and handing the number to a child is a race: the kernel may give the same
port to any connection in between. So ports are taken from outside the range that the kernel uses for
connections, and each is guarded by a file lock until the run ends or dies.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from holdback.errors import ProcessError

__all__ = ["Ports"]

_RANGE = range(20000, 30000)


def _ephemeral() -> range:
    """The ports that the kernel gives to outgoing connections."""
    if sys.platform == "darwin":
        names = ["net.inet.ip.portrange.first", "net.inet.ip.portrange.last"]
        text = subprocess.run(["sysctl", "-n", *names], capture_output=True, text=True, check=False).stdout
    else:
        file = Path("/proc/sys/net/ipv4/ip_local_port_range")
        text = file.read_text() if file.exists() else ""
    numbers = [int(word) for word in text.split() if word.isdigit()]
    return range(numbers[0], numbers[1] + 1) if len(numbers) == 2 else range(32768, 61000)


def _free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Ports:
    """The ports of one run. Safe to use from several threads.

    Args:
        folder: where the lock files lie; the same for all runs of one user.
        candidates: ports to choose from.
    """

    def __init__(self, folder: Path | None = None, candidates: Sequence[int] | None = None) -> None:
        self._folder = folder or user_cache_path("holdback") / "ports"
        self._folder.mkdir(parents=True, exist_ok=True)
        if candidates is None:
            ephemeral = _ephemeral()
            candidates = [port for port in _RANGE if port not in ephemeral] or _RANGE
        # Each run begins elsewhere, so that runs seldom meet. Nothing of an experiment depends on the number.
        self._untried = random.SystemRandom().sample(candidates, len(candidates))
        self._locks: list[FileLock] = []
        self._mutex = threading.Lock()

    def take(self) -> int:
        """A free port, ours until `release`.

        Raises:
            ProcessError: none is left.
        """
        with self._mutex:
            while self._untried:
                port = self._untried.pop()
                lock = FileLock(self._folder / f"{port}.lock", thread_local=False)
                try:
                    lock.acquire(blocking=False)
                except Timeout:
                    continue
                if _free(port):
                    self._locks.append(lock)
                    return port
                lock.release()
        raise ProcessError(
            "no free loopback port is left among holdback's own",
            remedy="end other runs of holdback on this machine; `ss -ltnp` shows what listens",
        )

    def release(self) -> None:
        """Give all of them back."""
        with self._mutex:
            while self._locks:
                self._locks.pop().release()
