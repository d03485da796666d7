"""What is killed or interrupted in mid-trial costs that trial, and nothing of the run stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from e2e.lines import whole_lines
from holdback.clock import poll
from holdback.process.reaper import MARK, members

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

_EXPERIMENT = Path(__file__).with_name("test_readmission.py")
_WITHIN = 900.0
_GONE_WITHIN = 60.0
"""Seconds until what still runs is taken to stay; on a quiet machine it is gone in one or two."""


@dataclass(frozen=True)
class Session:
    """A session of pytest that makes trials, in a process group of its own as a terminal would give it."""

    process: subprocess.Popen[bytes]
    report: Path
    output: Path

    def await_trial(self, number: int) -> str:
        """Wait until so many trials have begun; the id of the newest, which is under way."""
        if not poll(lambda: self.process.poll() is not None or len(self._lines("planned")) >= number, within=_WITHIN):
            pytest.fail(f"trial {number} did not begin:\n{self.output.read_text()}")
        planned = self._lines("planned")
        assert len(planned) == number, self.output.read_text()
        return str(planned[-1]["id"])

    def row(self, trial: str) -> dict[str, Any]:
        """What became of a trial."""
        return next(row for row in self._lines("trials") if row["id"] == trial)

    def kill(self, executable: str) -> None:
        """SIGKILL for the first program of that name."""
        self._programs(executable)[0].kill()

    def run(self) -> str:
        """The name of the run, by which its processes are known."""
        return str(self._programs("etcd")[0].environ()[MARK])

    def interrupt(self) -> None:
        """What Ctrl-C does, which is nothing to a session that has ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGINT)

    def _programs(self, executable: str) -> list[psutil.Process]:
        found = []
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error, IndexError):  # gone meanwhile
                if Path(child.cmdline()[0]).name == executable:
                    found.append(child)
        return found

    def _lines(self, name: str) -> list[dict[str, Any]]:
        return whole_lines(self.report / f"{name}.jsonl")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Callable[[int], Session]]:
    """Starts a session of so many trials an arm; it is killed at the end, should it still run."""
    started: list[Session] = []

    def start(count: int) -> Session:
        report, output = tmp_path / "report", tmp_path / "output"
        options = ["-k", "drained", f"--count={count}", f"--holdback-report={report}", "-p", "no:cacheprovider"]
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", str(_EXPERIMENT), *options],
                cwd=_EXPERIMENT.parents[1],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        started.append(Session(process, report, output))
        return started[-1]

    try:
        yield start
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()


def test_a_death_in_mid_trial_costs_that_trial_alone(session: Callable[[int], Session]) -> None:
    """A trial whose Kueue or Toxiproxy dies is INVALID and says so with the end of its log; the next ones are valid.

    Ctrl-C then ends the run in order: what was made is kept and counted, and nothing is left.
    """
    under = session(3)
    first = under.await_trial(1)
    run = under.run()
    under.kill("kueue")
    second = under.await_trial(2)
    under.kill("toxiproxy-server")
    third = under.await_trial(3)
    under.await_trial(4)
    under.interrupt()
    assert under.process.wait(_WITHIN) == pytest.ExitCode.INTERRUPTED, under.output.read_text()
    assert poll(lambda: not members(run), within=_GONE_WITHIN)
    for trial, name in ((first, "kueue-"), (second, "toxiproxy-")):
        row = under.row(trial)
        assert row["outcome"] == "invalid"
        assert row["reason"].startswith(f"world: {name}")
        assert "was killed by SIGKILL; the end of its log:\n{" in row["reason"]
    assert under.row(third)["outcome"] in {"holds", "violated"}
    summary = json.loads((under.report / "summary.json").read_text())
    counted = [sum(counts.values()) for counts in _counts(summary)]
    assert sum(counted) == 3
    assert summary["interrupted"] is True
    told = under.output.read_text()
    assert "INVALID: world: kueue-" in told
    assert "1 trial was begun and not judged." in told


def test_ctrl_c_twice_leaves_what_was_made_and_nothing_else(session: Callable[[int], Session]) -> None:
    """A second Ctrl-C may cut off the summary, not the rows; the exit code is not 0, and soon nothing runs."""
    under = session(2)
    first = under.await_trial(1)
    run = under.run()
    under.await_trial(2)
    under.interrupt()
    poll(lambda: under.process.poll() is not None, within=0.3)
    under.interrupt()
    assert under.process.wait(_WITHIN) != 0
    assert poll(lambda: not members(run), within=_GONE_WITHIN)
    assert under.row(first)["outcome"] in {"holds", "violated"}


def _counts(summary: dict[str, Any]) -> Iterator[dict[str, int]]:
    outcomes = ("violated", "held", "unknown", "invalid")
    for experiment in summary["experiments"]:
        for arm in experiment["arms"].values():
            yield {outcome: arm[outcome] for outcome in outcomes}
