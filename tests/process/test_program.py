from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdback.clock import poll
from holdback.errors import ProcessExited
from holdback.process import Child, Program, Run, await_ready, open_run, start

SERVE = "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with open_run(logs=tmp_path) as opened:
        yield opened


@pytest.fixture
def program(run: Run) -> Program:
    made = Program(lambda: start(run, "server", [sys.executable, "-c", SERVE]), _ready)
    made.await_ready()
    return made


def _ready(child: Child) -> None:
    await_ready(child, lambda: child.log_tail() == "ready", within=30, what="its word")


def test_a_killed_program_is_started_again_as_it_was(program: Program) -> None:
    """After a kill and a start another process does the same under the same name and log, and `check` is content."""
    before, log = program.pid, program.log
    program.kill()
    assert program.down()
    program.check()
    program.start()
    program.await_ready()
    program.check()
    assert program.pid != before
    assert (program.name, program.log) == ("server", log)


def test_starting_one_that_runs_does_nothing(program: Program) -> None:
    """A second start leaves the process alone."""
    before = program.pid
    program.start()
    assert program.pid == before


def test_a_program_that_somebody_else_killed_is_told(program: Program) -> None:
    """A death that we did not bring about is an error of `check`, before and after one that we did."""
    program.child.kill()
    with pytest.raises(ProcessExited, match="server was killed by SIGKILL"):
        program.check()
    program.kill()
    program.start()
    program.child.kill()
    with pytest.raises(ProcessExited):
        program.check()


def test_a_paused_program_stands_still_until_it_is_resumed(program: Program) -> None:
    """`pause` returns when it has stopped, and `resume` lets it go on."""
    program.pause()
    assert program.paused()
    assert not program.down()
    program.resume()
    assert poll(lambda: not program.paused(), within=30)


def test_a_dead_program_cannot_be_paused(program: Program) -> None:
    """Pausing what is gone is an error, and it does not count as paused."""
    program.kill()
    with pytest.raises(ProcessExited):
        program.pause()
    assert not program.paused()
