"""A port is given once, however many ask."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdback.process
from holdback.errors import ProcessError
from holdback.process.ports import Ports, _ephemeral

_SOURCES = str(Path(holdback.process.__file__).parents[2])
_TAKER = """
import sys
from pathlib import Path
from holdback.process.ports import Ports
ports = Ports(Path(sys.argv[1]), range(20000, 20800))
print("ready", flush=True)
sys.stdin.readline()
print(*[ports.take() for _ in range(200)], flush=True)
sys.stdin.readline()
"""


def test_two_processes_never_share_a_port(tmp_path: Path) -> None:
    """Two processes that take 200 ports each at the same time, of 800, share none; death gives them back."""
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", _TAKER, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": _SOURCES},
        )
        for _ in range(2)
    ]
    taken: list[int] = []
    for taker in takers:
        assert taker.stdout
        taker.stdout.readline()
    for taker in takers:
        assert taker.stdin
        taker.stdin.write("go\n")
    for taker in takers:
        assert taker.stdout
        taken += map(int, taker.stdout.readline().split())
    assert len(taken) == 400
    assert len(set(taken)) == 400
    guarded = Ports(tmp_path, taken)
    with pytest.raises(ProcessError, match="no free loopback port"):
        guarded.take()
    for taker in takers:
        taker.kill()
        taker.communicate()
    assert Ports(tmp_path, taken).take() in taken


@pytest.fixture
def free() -> Iterator[int]:
    """A port that no other test gets meanwhile."""
    ours = Ports()
    yield ours.take()
    ours.release()


def test_release_gives_ports_back(tmp_path: Path, free: int) -> None:
    """A port is refused to others until it is released."""
    first = Ports(tmp_path, [free])
    assert first.take() == free
    with pytest.raises(ProcessError):
        Ports(tmp_path, [free]).take()
    first.release()
    assert Ports(tmp_path, [free]).take() == free


def test_a_port_in_use_is_passed_over(tmp_path: Path) -> None:
    """A port on which somebody listens is not given."""
    with socket.create_server(("127.0.0.1", 0)) as somebody:
        used = somebody.getsockname()[1]
        with pytest.raises(ProcessError):
            Ports(tmp_path, [used]).take()


def test_ports_are_outside_the_kernels_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel never gives one of our ports to an outgoing connection, unless it may take them all for those."""
    kernels = _ephemeral()
    if kernels.start <= 20000 and kernels.stop >= 30000:
        kernels = range(25000, 61000)  # what a machine with another setting would say
        monkeypatch.setattr("holdback.process.ports._ephemeral", lambda: kernels)
    ports = Ports(tmp_path)
    assert not {ports.take() for _ in range(20)} & set(kernels)
