"""Nothing of a run outlives it, however it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

import holdback.process
from holdback.clock import poll
from holdback.errors import ProcessError
from holdback.process import Child, open_run, start
from holdback.process.reaper import WILLS, living, members

_SOURCES = str(Path(holdback.process.__file__).parents[2])
_OWNER = Path(__file__).with_name("owner.py")
_IDLE = [sys.executable, "-c", "import signal; signal.pause()"]


@dataclass
class Owner:
    process: subprocess.Popen[str]
    id: str
    directory: Path

    def nothing_left(self, within: float = 60.0) -> bool:
        return poll(lambda: not members(self.id) and not self.directory.exists(), within=within) is not None


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Callable[..., Owner]]:
    """Starts owners in sessions of their own and gives them once their children run."""
    started: list[Owner] = []

    def begin(mode: str, *watched: int) -> Owner:
        process = subprocess.Popen(
            [sys.executable, str(_OWNER), str(tmp_path / "logs"), mode, *map(str, watched)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": _SOURCES},
            start_new_session=True,
        )
        assert process.stdout
        facts = json.loads(process.stdout.readline())
        begun = Owner(process, facts["id"], Path(facts["directory"]))
        started.append(begun)
        if mode != "end":
            assert len(members(begun.id)) == 3, "two children and a grandchild"
        return begun

    yield begin
    for one in started:
        one.process.kill()
        one.process.communicate()
        assert one.nothing_left()


def test_sigkill_of_the_owners_group_leaves_nothing(owner: Callable[..., Owner]) -> None:
    """Soon after a kill -9 of the owner's process group, no process and no directory of the run is left."""
    killed = owner("sleep")
    os.killpg(killed.process.pid, signal.SIGKILL)
    assert killed.nothing_left()


def test_ctrl_c_leaves_nothing(owner: Callable[..., Owner]) -> None:
    """Ctrl-C ends the run in order, and when its children are stubborn a second one leaves the rest to the reaper."""
    interrupted = owner("sleep")
    os.killpg(interrupted.process.pid, signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        interrupted.process.wait(0.5)  # it grants its stubborn children their grace
    assert members(interrupted.id), "a terminal's Ctrl-C reaches only the owner"
    os.killpg(interrupted.process.pid, signal.SIGINT)
    assert interrupted.nothing_left()
    _, complaint = interrupted.process.communicate()
    assert "KeyboardInterrupt" in complaint


def test_death_of_a_watched_process_ends_the_run_and_a_hanging_owner(owner: Callable[..., Owner]) -> None:
    """When the process that the run depends on is gone, the run ends, even if its owner does not react."""
    watched = subprocess.Popen(_IDLE)
    hanging = owner("hang", watched.pid)
    watched.kill()  # not waited for: a zombie is dead as well
    assert hanging.nothing_left()
    assert hanging.process.wait(30) == -signal.SIGKILL
    watched.wait()


def reapers(owner: int, run: str) -> list[psutil.Process]:
    """Those that guard this run of a process, which may have others."""
    found = []
    for child in psutil.Process(owner).children():
        with suppress(psutil.Error):  # it has just ended
            if {str(owner), run} <= set(child.cmdline()):
                found.append(child)
    return found


def test_a_reaper_that_is_killed_is_replaced(owner: Callable[..., Owner]) -> None:
    """The run that lost its reaper gets another one, says so, and is cleaned up behind as before."""
    guarded = owner("sleep")
    (reaper,) = reapers(guarded.process.pid, guarded.id)
    reaper.kill()

    def replaced() -> bool:
        return any(each.pid != reaper.pid for each in reapers(guarded.process.pid, guarded.id))

    assert poll(replaced, within=60)
    assert members(guarded.id), "nothing else of the run ended"
    assert guarded.process.stderr
    assert "another process has taken its place" in guarded.process.stderr.readline()
    guarded.process.kill()
    assert guarded.nothing_left()


def test_a_reaper_that_cannot_be_kept_alive_ends_the_run(owner: Callable[..., Owner]) -> None:
    """A run whose reaper is killed again and again ends in order, as by Ctrl-C, and says why."""
    haunted = owner("sleep")

    def ended() -> bool:
        for reaper in reapers(haunted.process.pid, haunted.id) if haunted.process.poll() is None else ():
            with suppress(psutil.NoSuchProcess):
                reaper.kill()
        return haunted.process.poll() is not None

    assert poll(ended, within=60)
    _, complaint = haunted.process.communicate()
    assert "again and again, so the run ends now" in complaint
    assert not members(haunted.id)


def test_a_run_whose_reaper_was_replaced_ends_well(tmp_path: Path) -> None:
    """A goodbye goes to the new one: no reaper is left, and nothing is said to have failed."""
    told: list[str] = []
    with open_run(logs=tmp_path, say=told.append) as run:
        (reaper,) = reapers(os.getpid(), run.id)
        reaper.kill()
        assert poll(lambda: bool(told), within=60)
    assert not reapers(os.getpid(), run.id)


def test_a_run_that_ends_well_takes_strays_with_it(owner: Callable[..., Owner]) -> None:
    """A grandchild that left its process group ends with the run too, when it ends by itself."""
    ended = owner("end")
    assert ended.process.wait(60) == 0
    assert ended.nothing_left(within=0)


def test_what_is_no_process_is_undone_as_well(owner: Callable[..., Owner], tmp_path: Path) -> None:
    """After a kill -9 the reaper runs what the run has left for that case, once no process of it is left; only then."""
    killed = owner("will")
    assert not (tmp_path / "undone").exists()
    os.killpg(killed.process.pid, signal.SIGKILL)
    assert killed.nothing_left()
    assert (tmp_path / "undone").read_text() == "0\n", "processes that were left when it ran"


def test_what_was_undone_in_order_is_not_undone_again(tmp_path: Path) -> None:
    """When the block ends, nothing is left for the reaper."""
    with open_run(logs=tmp_path) as run:
        with run.if_killed(["false"]):
            (will,) = (run.directory / WILLS).iterdir()
            assert json.loads(will.read_text()) == ["false"]
        assert not list((run.directory / WILLS).iterdir())


def test_a_living_run_is_told_from_a_dead_one(tmp_path: Path) -> None:
    """A run lives as long as it is guarded."""
    with open_run(logs=tmp_path) as run:
        assert run.id in living()
    assert run.id not in living()


def test_a_run_is_private_and_leaves_its_logs(tmp_path: Path) -> None:
    """A run's directory is ours alone and goes with it; the logs stay, readable by us alone."""
    with open_run(logs=tmp_path / "a" / "logs") as run:
        assert stat.S_IMODE(run.directory.stat().st_mode) == 0o700
        assert len(str(run.directory)) < 70, "unix sockets need short paths"
        child = start(run, "talker", [sys.executable, "-c", "print('hello')"])
        assert poll(lambda: not child.alive(), within=30)
    assert not run.directory.exists()
    assert (tmp_path / "a" / "logs" / "talker.log").read_text() == "hello\n"
    assert stat.S_IMODE(child.log.stat().st_mode) == 0o600


def test_a_world_started_anew_has_folders_of_its_own(tmp_path: Path) -> None:
    """A folder of the run is new and private however often its name is asked for, and none outlives the run."""
    with open_run(logs=tmp_path) as run:
        folders = [run.folder("worker1") for _ in range(3)]
        assert [folder.name for folder in folders] == ["worker1", "worker1.2", "worker1.3"]
        assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}
        with pytest.raises(ProcessError, match="a directory of this run cannot be made"):
            run.folder("no/such/parent")
    assert not any(folder.exists() for folder in folders)


def test_children_are_asked_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end every child is asked to stop before any is waited for, the youngest first."""
    asked: list[str] = []
    really = Child._terminate
    waits: list[int] = []

    def terminate(child: Child) -> None:
        asked.append(child.name)
        really(child)

    def gone(child: Child, seconds: float) -> bool:
        waits.append(len(asked))
        return poll(lambda: not child.alive(), within=seconds) is not None

    monkeypatch.setattr(Child, "_terminate", terminate)
    monkeypatch.setattr(Child, "_gone_within", gone)
    with open_run(logs=tmp_path) as run:
        children = [start(run, name, _IDLE) for name in ("first", "second", "third")]
    assert asked == ["third", "second", "first"]
    assert waits == [3, 3, 3]
    assert not any(child.alive() for child in children)


def test_a_run_that_is_over_starts_nothing(tmp_path: Path) -> None:
    """A child started after the end of the run would have nobody to stop it, so it is refused."""
    with open_run(logs=tmp_path) as run:
        pass
    with pytest.raises(ProcessError, match="over"):
        start(run, "late", _IDLE)


def test_what_fails_at_the_end_is_told(tmp_path: Path) -> None:
    """A failing end raises a group; when the block failed as well, its own error comes, with the rest as notes."""
    with pytest.raises(ExceptionGroup) as group, open_run(logs=tmp_path) as run:
        run.directory.rmdir()
    assert group.group_contains(FileNotFoundError)
    with pytest.raises(KeyError) as error, open_run(logs=tmp_path) as run:
        run.directory.rmdir()
        raise KeyError("own")
    assert "No such file" in "".join(error.value.__notes__)


def test_a_run_without_room_is_told(tmp_path: Path) -> None:
    """When the run's directories cannot be made, that is an error of ours with a remedy."""
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ProcessError, match="its directories") as error,
        open_run(logs=tmp_path / "file" / "x"),
    ):
        pass
    assert "writable" in error.value.remedy
