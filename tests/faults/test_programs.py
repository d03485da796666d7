from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdback.clock import poll
from holdback.errors import FaultError, NotReady, ProcessExited
from holdback.faults.injection import inject
from holdback.faults.programs import Dead, Paused
from holdback.faults.values import Kill, Pause, Restart
from holdback.process import Child, Program, Run, await_ready, open_run, start
from holdback.traffic.inforce import InForce, Lease, in_force
from tests.faults.test_injection import Ledger

# Counts its starts, so that "ready" is a new word each time.
SERVE = """
import sys, time
from pathlib import Path
count = Path(sys.argv[1])
count.write_text(count.read_text() + "i" if count.exists() else "i")
time.sleep(600)
"""


class Server:
    """A program that is ready when it has counted its start, and what a test may know of it."""

    def __init__(self, run: Run, count: Path) -> None:
        self.count = count
        self.never_ready = False
        self.program = Program(lambda: start(run, "server", [sys.executable, "-c", SERVE, count]), self._ready)
        self.program.await_ready()

    def _ready(self, child: Child) -> None:
        await_ready(child, self._serves, within=0.2 if self.never_ready else 30, what="its start")

    def _serves(self) -> bool:
        return not self.never_ready and self.starts > 0

    @property
    def starts(self) -> int:
        return len(self.count.read_text()) if self.count.exists() else 0


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with open_run(logs=tmp_path / "logs") as opened:
        yield opened


@pytest.fixture
def server(run: Run, tmp_path: Path) -> Server:
    return Server(run, tmp_path / "count")


def test_a_pause_stops_the_process_and_lets_it_go_on(server: Server) -> None:
    """Within the block the process stands still, after it runs, and both are recorded without lanes."""
    ledger, before = Ledger(), server.program.pid
    with inject(ledger, [Pause(server.program)], ledger.record):
        assert server.program.paused()
        server.program.check()
    assert poll(lambda: not server.program.paused(), within=30)
    assert server.program.pid == before
    assert ledger.entries == ["started Pause 0", "ended Pause 0"]


def test_a_kill_lasts_until_the_end_of_its_block(server: Server) -> None:
    """Within the block no process is there, which is no failure of the world; after it one is, and it is another."""
    ledger, before = Ledger(), server.program.pid
    with inject(ledger, [Kill(server.program)], ledger.record):
        assert server.program.down()
        server.program.check()
    assert not server.program.down()
    assert server.program.pid != before
    assert poll(lambda: server.starts == 2, within=30)


def test_a_restart_happens_at_once(server: Server) -> None:
    """When the block begins another process runs already."""
    ledger, before = Ledger(), server.program.pid
    with inject(ledger, [Restart(server.program)], ledger.record):
        assert not server.program.down()
        assert server.program.pid != before
    assert ledger.entries == ["started Restart 0", "ended Restart 0"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_process_comes_back_whatever_ends_the_block(server: Server, error: type[BaseException]) -> None:
    """After an error or Ctrl-C a killed process is up again."""
    ledger = Ledger()
    with pytest.raises(error), inject(ledger, [Kill(server.program)], ledger.record):
        raise error
    assert not server.program.down()


def test_one_that_does_not_get_ready_is_no_end(server: Server) -> None:
    """A process that is up again but not ready fails the end of the fault, which then is not recorded."""
    ledger = Ledger()
    with pytest.raises(NotReady, match="its start"), inject(ledger, [Restart(server.program)], ledger.record):
        server.never_ready = True
    assert ledger.entries == ["started Restart 0"]


def test_a_dead_process_cannot_be_paused(server: Server) -> None:
    """A pause of what is gone does not start."""
    server.program.child.kill()
    with pytest.raises(ProcessExited), in_force("pause", Paused(server.program)):
        pytest.fail("the block must not begin")


@pytest.mark.parametrize("kind", [Paused, Dead])
def test_somebody_elses_end_is_told(server: Server, kind: type[Paused] | type[Dead]) -> None:
    """A process that somebody let go on, or started, before the end of the fault is an error at that end."""
    with (
        pytest.raises(FaultError, match="somebody else ended it before, on server"),
        in_force("it", kind(server.program)),
    ):
        server.program.start()
        server.program.resume()
        assert poll(lambda: not server.program.paused(), within=30)


@pytest.mark.parametrize("kind", [Paused, Dead])
def test_a_lease_brings_the_process_back(server: Server, kind: type[Paused] | type[Dead]) -> None:
    """A fault that nobody ends is undone after its lease, and its end says so."""
    fault = InForce("it", kind(server.program), Lease(seconds=0.1))
    fault.start()
    assert poll(lambda: not server.program.paused() and not server.program.down(), within=30)
    with pytest.raises(FaultError, match=r"lease of 0\.1 s"):
        fault.end()
