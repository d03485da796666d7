"""The cache: entries appear whole, once, and survive what kills a run."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from holdback.binaries.cache import Cache, default_cache
from holdback.clock import poll
from holdback.errors import BinaryError

MAKER = Path(__file__).with_name("maker.py")


class Start(Protocol):
    def __call__(self, root: Path, log: Path, mode: str, **env: str) -> subprocess.Popen[str]: ...


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts the maker program; what still runs after the test is killed."""
    started = []

    def make(root: Path, log: Path, mode: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, MAKER, root, log, mode],
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield make
    for process in started:
        process.kill()
        process.communicate()


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split() if path.exists() else []


def leftovers(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if "partial" in path.name]


def test_two_runs_at_once_make_an_entry_once(tmp_path: Path, start: Start) -> None:
    """The second run waits for the first and takes what it made."""
    log = tmp_path / "log"
    first = start(tmp_path / "cache", log, "wait")
    assert poll(lambda: lines(log) or None, within=60)
    second = start(tmp_path / "cache", log, "quick")
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(1)  # it must not make the entry, nor end without it
    (tmp_path / "go-on").touch()
    outputs = [process.communicate(timeout=60)[0] for process in (first, second)]
    assert len(lines(log)) == 1
    assert outputs[0] == outputs[1]
    assert (Path(outputs[0].strip()) / "whole").exists()


def test_a_run_killed_half_way_leaves_nothing_that_counts(tmp_path: Path, start: Start) -> None:
    """The next run makes the entry anew and removes what the killed one left."""
    root, log = tmp_path / "cache", tmp_path / "log"
    killed = start(root, log, "wait")
    assert poll(lambda: lines(log) or None, within=60)
    killed.kill()
    killed.communicate()
    assert leftovers(root)
    assert Cache(root).find("thing", "key") is None
    output, _ = start(root, log, "quick").communicate(timeout=60)
    assert [path.name for path in Path(output.strip()).iterdir()] == ["whole"]
    assert not leftovers(root)


def test_an_interrupted_build_ends_its_compiler(tmp_path: Path, start: Start) -> None:
    """After Ctrl-C neither Go nor a child of it runs on, and nothing half-made is left."""
    root, log, pids = tmp_path / "cache", tmp_path / "log", tmp_path / "pids"
    fake = tmp_path / "bin" / "go"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = env ] && echo go1.99.0 && exit\nsleep 30 &\necho $$ $! > {pids}.new\n'
        f"mv {pids}.new {pids}\nwait\n",
        encoding="utf-8",
    )
    fake.chmod(0o755)
    run = start(root, log, "go", PATH=f"{fake.parent}:{os.environ['PATH']}")
    assert poll(lambda: lines(pids) or None, within=60)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode != 0
    assert poll(lambda: not any(alive(int(pid)) for pid in lines(pids)), within=20)
    assert not leftovers(root)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE  # whoever adopted it may be slow to bury it
    except psutil.NoSuchProcess:
        return False


def test_a_failed_entry_is_not_there(tmp_path: Path) -> None:
    """An exception while an entry is filled leaves no entry and no leftovers."""
    cache = Cache(tmp_path)

    def fill(entry: Path, scratch: Path) -> None:
        (entry / "half").touch()
        (scratch / "more").touch()
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cache.make("thing", "key", fill, waiting=lambda: None)
    assert cache.find("thing", "key") is None
    assert not leftovers(tmp_path)


def test_a_wait_can_be_given_up(tmp_path: Path) -> None:
    """An exception from `waiting` ends the wait for another holder of the lock."""
    cache = Cache(tmp_path)

    def give_up() -> None:
        raise KeyboardInterrupt

    def nested(entry: Path, scratch: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            Cache(tmp_path).make("thing", "key", lambda entry, scratch: None, waiting=give_up)

    assert cache.make("thing", "key", nested, waiting=lambda: None).is_dir()


def test_a_full_disk_is_said_plainly(tmp_path: Path) -> None:
    """ENOSPC while an entry is filled names the folder, its free space, and the way out."""

    def fill(entry: Path, scratch: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(BinaryError, match=r"no space left .* MiB free") as caught:
        Cache(tmp_path).make("thing", "key", fill, waiting=lambda: None)
    assert "HOLDBACK_CACHE" in caught.value.remedy


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    """A cache below a plain file cannot be made, and the message says which."""
    (tmp_path / "file").touch()
    with pytest.raises(BinaryError, match=str(tmp_path / "file")):
        Cache(tmp_path / "file" / "cache").make("thing", "key", lambda entry, scratch: None, waiting=lambda: None)


def test_the_environment_moves_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLDBACK_CACHE names the folder."""
    monkeypatch.setenv("HOLDBACK_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
