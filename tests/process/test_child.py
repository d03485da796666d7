"""A child is watched, described and ended reliably."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from holdback.clock import poll
from holdback.errors import NotReady, ProcessError, ProcessExited
from holdback.process import Child, Run, await_ready, child, open_run, start
from holdback.process.child import stop_all

_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
_IDLE = "import signal; print('up', flush=True); signal.pause()"
_SOON = 30.0
"""Seconds that a busy machine may take for what is done at once."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    with open_run(logs=tmp_path_factory.mktemp("logs")) as opened:
        yield opened


def python(code: str) -> Sequence[str]:
    return [sys.executable, "-c", code]


def up(run: Run, name: str, code: str) -> Child:
    """The child, once it has set itself up."""
    started = start(run, name, python(code))
    await_ready(started, lambda: "up" in started.log_tail(), within=_SOON, what="up", every=0.01)
    return started


def test_an_early_end_is_reported_as_that(run: Run) -> None:
    """A child that exits is reported at once, with its exit code and the end of its log, not as a timeout."""
    begun = time.monotonic()
    broken = start(run, "broken", python("print('no such flag'); raise SystemExit(7)"))
    with pytest.raises(ProcessExited, match=r"(?s)broken ended with exit code 7.*no such flag"):
        await_ready(broken, lambda: False, within=2 * _SOON, what="an answer")
    assert time.monotonic() - begun < _SOON


def test_a_signal_is_named(run: Run) -> None:
    """A child that was killed is reported with the name of the signal."""
    victim = up(run, "victim", _IDLE)
    os.kill(victim.pid, signal.SIGKILL)
    assert poll(lambda: not victim.alive(), within=_SOON)
    with pytest.raises(ProcessExited, match="victim was killed by SIGKILL"):
        victim.check()


def test_an_answer_from_somebody_else_is_not_taken(run: Run) -> None:
    """A probe that succeeds although the child is dead does not make it ready."""
    dead = start(run, "dead", python(""))

    def answered_by_another() -> bool:
        return poll(lambda: not dead.alive(), within=_SOON) is not None

    with pytest.raises(ProcessExited):
        await_ready(dead, answered_by_another, within=_SOON, what="an answer")


def test_not_ready_in_time(run: Run) -> None:
    """A child that lives but never answers is reported with what was awaited and the end of its log."""
    slow = up(run, "slow", _IDLE)
    with pytest.raises(NotReady, match=r"(?s)slow was not ready \(an answer\) within 0.1 s.*up"):
        await_ready(slow, lambda: False, within=0.1, what="an answer")


def test_a_taken_port_is_named(run: Run) -> None:
    """When somebody took a child's port the remedy names the port, whatever else has colons in the message."""
    message = "E1130 15:35:17.887 listen tcp 127.0.0.1:23456: bind: address already in use"
    unlucky = start(run, "unlucky", python(f"raise SystemExit({message!r})"))
    assert poll(lambda: not unlucky.alive(), within=_SOON)
    with pytest.raises(ProcessExited) as error:
        unlucky.check()
    assert "took port 23456 " in error.value.remedy


@pytest.mark.parametrize("goroutines", [0, 60])
def test_a_full_disk_is_named(run: Run, goroutines: int) -> None:
    """When a child ends for want of room the remedy says to make some, also above the stacks of a panic."""
    code = f"raise SystemExit('wal: write: no space left on device' + '\\n\\tmain.go:1 +0x1' * {goroutines})"
    unlucky = start(run, f"full-{goroutines}", python(code))
    assert poll(lambda: not unlucky.alive(), within=_SOON)
    with pytest.raises(ProcessExited) as error:
        unlucky.check()
    assert "make room" in error.value.remedy


def test_the_tail_of_a_huge_log_is_cheap(run: Run) -> None:
    """Only the end of a log is read, in whole lines, however long it is."""
    writer = up(run, "writer", _IDLE)
    os.truncate(writer.log, 1 << 40)  # sparse; reading it all would take hours
    with writer.log.open("a") as log:
        log.write("x" * 70_000 + "\nlast but one\nlast\n")
    assert writer.log_tail(lines=3).splitlines() == ["last but one", "last"]
    writer.log.unlink()


def test_a_second_child_of_the_same_name_has_its_own_tail(run: Run) -> None:
    """After a restart the log goes on in the same file, but the tail is the new child's."""
    for word in ("old", "new"):
        talker = start(run, "talker", python(f"print({word!r})"))
        assert poll(lambda talker=talker: not talker.alive(), within=_SOON)  # type: ignore[misc]
    assert talker.log_tail() == "new"
    assert talker.log.read_text() == "old\nnew\n"


def test_stop_escalates_and_may_be_repeated(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child deaf to SIGTERM is killed after its grace; several share one grace; stopping again does nothing."""
    deaf = [up(run, f"deaf{number}", _DEAF) for number in range(3)]
    really, granted = Child._gone_within, dict[str, float]()

    def gone(child: Child, seconds: float) -> bool:
        granted.setdefault(child.name, seconds)  # the first time; the second is after SIGKILL
        return really(child, seconds)

    monkeypatch.setattr(Child, "_gone_within", gone)
    begun = time.monotonic()
    stop_all(deaf, grace=0.5)
    assert time.monotonic() - begun >= 0.5
    assert 0 < granted["deaf0"] <= 0.5
    assert (granted["deaf1"], granted["deaf2"]) == (0, 0), "one grace for all"
    assert not any(one.alive() for one in deaf)
    deaf[0].stop()
    deaf[0].kill()


def test_a_paused_child_stops_by_sigterm(run: Run) -> None:
    """A paused child does nothing, goes on when resumed, and if still paused gets the chance to end by itself."""
    counter = up(run, "counter", "import time\nwhile True: print('up', flush=True); time.sleep(0.01)")
    counter.pause()
    assert counter.alive()
    assert poll(lambda: psutil.Process(counter.pid).status() == psutil.STATUS_STOPPED, within=_SOON)
    size = counter.log.stat().st_size
    time.sleep(0.1)
    assert counter.log.stat().st_size == size
    counter.resume()
    assert poll(lambda: counter.log.stat().st_size > size, within=_SOON)
    counter.pause()
    counter.stop(grace=_SOON)
    with pytest.raises(ProcessExited, match="SIGTERM"):
        counter.check()
    with pytest.raises(ProcessExited):
        counter.pause()


def test_a_child_that_somebody_else_stopped_is_told(run: Run) -> None:
    """A child is fine while we paused it ourselves, and not when it was stopped from outside."""
    idle = up(run, "stopped", _IDLE)
    idle.pause()
    assert poll(lambda: psutil.Process(idle.pid).status() == psutil.STATUS_STOPPED, within=_SOON)
    idle.check()
    idle.resume()
    idle.check()
    os.kill(idle.pid, signal.SIGSTOP)
    assert poll(lambda: psutil.Process(idle.pid).status() == psutil.STATUS_STOPPED, within=_SOON)
    with pytest.raises(ProcessError, match=f"stopped .pid {idle.pid}. was stopped from outside") as error:
        idle.check()
    assert f"kill -CONT {idle.pid}" in error.value.remedy
    os.kill(idle.pid, signal.SIGCONT)
    assert poll(lambda: psutil.Process(idle.pid).status() != psutil.STATUS_STOPPED, within=_SOON)
    idle.check()


def test_a_grandchild_goes_with_its_parent(run: Run) -> None:
    """What a child started in its process group is killed when the child ends, however that happens."""
    silent = "import signal; signal.pause()"  # it shares the log with its parent, and might be the first to write
    code = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {silent!r}]).pid, flush=True)"
    parent = start(run, "parent", python(code))
    assert poll(lambda: not parent.alive(), within=_SOON)
    grandchild = int(parent.log_tail())
    assert poll(lambda: not psutil.pid_exists(grandchild) or _zombie(grandchild), within=_SOON)


def _zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_what_a_child_inherits(run: Run) -> None:
    """A child has the run's mark, our additions, no standard input, and a session of its own."""
    code = "import os, sys; print(os.environ['HOLDBACK_RUN'], os.environ['A'], repr(sys.stdin.read()), os.getsid(0))"
    heir = start(run, "heir", python(code), env={"A": "b"})
    assert poll(lambda: not heir.alive(), within=_SOON)
    assert heir.log_tail() == f"{run.id} b '' {heir.pid}"


def test_no_such_executable(run: Run) -> None:
    """An executable that is not there is an error of ours, with its name."""
    with pytest.raises(ProcessError, match="ghost cannot be started"):
        start(run, "ghost", ["/no/such/file"])


def test_the_block_ends_the_child(run: Run) -> None:
    """`child` stops it when the block is left by an error."""
    with pytest.raises(KeyError), child(run, "guest", python(_IDLE)) as guest:
        raise KeyError
    assert not guest.alive()
    assert guest.pid not in {process.pid for process in psutil.Process().children()}, "no zombie is left"


def test_pids_are_not_confused(run: Run) -> None:
    """Signals to a child that has ended go nowhere: its pid may be somebody else's by now."""
    gone = start(run, "gone", python(""))
    assert poll(lambda: not gone.alive(), within=_SOON)
    bystander = subprocess.Popen(python(_IDLE), stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        gone.pid = bystander.pid
        gone.kill()
        gone.stop()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_tail_of_nothing(run: Run, tmp_path: Path) -> None:
    """A child that wrote nothing has an empty tail."""
    silent = start(run, "silent", python("import signal; signal.pause()"), cwd=tmp_path)
    assert silent.log_tail() == ""
    silent.kill()
