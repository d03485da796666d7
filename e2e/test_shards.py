"""Shards as the nightly workflow and the Job make them: their very commands, side by side, then the merge."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from holdback.clock import poll
from holdback.history.store import Store
from holdback.trials.outcome import Outcome, read_rows
from tests.steps import in_job, project, start, step_of

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

_EXPERIMENT = "readmission"
"""Shows its bugs in nearly every trial."""
_ONE_OF_IT = f"e2e/test_{_EXPERIMENT}.py::test_a_drained_workload_is_admitted_again"
"""Five violated trials of ten make a verdict; with three experiments in a run it would take six of each."""
_IN_IT = 3
"""So many experiments are in that file."""
_WITHIN = 1800.0
"""Seconds until a command is taken to hang; one takes two minutes on a quiet machine."""

Start = Callable[[Sequence[str], Mapping[str, str]], subprocess.Popen[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of what the image has of the repository."""
    return project(tmp_path / "project")


@pytest.fixture
def started(folder: Path) -> Iterator[Start]:
    """Starts commands in the copy; those that still run at the end are killed."""
    children: list[subprocess.Popen[str]] = []

    def begin(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        children.append(start(command, folder, environment))
        return children[-1]

    try:
        yield begin
    finally:
        for each in children:
            each.kill()
            each.communicate()


def ended(child: subprocess.Popen[str], code: int) -> str:
    """Wait for a command to end with a code; what it said."""
    said, _ = child.communicate(timeout=_WITHIN)
    assert child.returncode == code, said
    return said


def outcomes(report: Path) -> dict[str, set[Outcome]]:
    """How the trials of each arm came out."""
    found: dict[str, set[Outcome]] = {}
    for row in read_rows(Store(report))[0]:
        found.setdefault(row.arm, set()).add(row.outcome)
    return found


def test_the_commands_of_a_night(folder: Path, started: Start) -> None:
    """Shards with too few trials for a verdict end well; their merge does not, and has the trials of both."""
    asked = {"EXPERIMENT": _EXPERIMENT, "SHARDS": "2", "COUNT": "4", "SEED": "11062", "CONTROL": "", "TREATMENT": ""}
    shard = step_of("nightly.yaml", "shard", "Make this shard's trials")
    shards = [started(shard, {**asked, "SHARD": str(number)}) for number in (1, 2)]
    for number, each in enumerate(shards, start=1):
        assert f"This is shard {number} of 2" in ended(each, 0)
        # As the upload and the download of the evidence leave it.
        (folder / "shards").mkdir(exist_ok=True)
        (folder / f"shard-{number}").rename(folder / "shards" / f"shard-{_EXPERIMENT}-{number}")
    summary = folder / "summary"
    merge = step_of("nightly.yaml", "verdict", "Merge the shards")
    told = ended(started(merge, {**asked, "GITHUB_STEP_SUMMARY": str(summary)}), 1)
    # Of four control trials none may show the bug: one in 66 does not, on a busy machine one in 20.
    experiments = Store(folder / "merged").summary()["experiments"]
    assert len(experiments) == _IN_IT
    assert {each["verdict"] for each in experiments} <= {"INCONCLUSIVE", "NOT REPRODUCED"}
    assert "Missing" not in told
    merged = outcomes(folder / "merged")
    assert Outcome.VIOLATED in merged["control"]
    assert Outcome.HOLDS in merged["treatment"]
    assert Outcome.VIOLATED not in merged["treatment"]
    assert len(read_rows(Store(folder / "merged"))[0]) == 8 * _IN_IT
    assert summary.read_text().startswith("### holdback: ")


def test_the_commands_of_a_job(folder: Path, started: Start) -> None:
    """The verdict's pod waits for the shards beside it and ends well; no shard is made a second time."""
    asked = {"EVIDENCE": str(folder), "SHARDS": "2", "COUNT": "10", "EXPERIMENTS": _ONE_OF_IT}
    verdict = started(*in_job("holdback-verdict", **asked))
    shards = [started(*in_job("holdback-shards", **asked, JOB_COMPLETION_INDEX=str(index))) for index in (0, 1)]
    run = folder / in_job("holdback-shards")[1]["RUN"]
    assert poll((run / "shard-1").exists, within=_WITHIN)
    assert "mkdir" in ended(started(*in_job("holdback-shards", **asked, JOB_COMPLETION_INDEX="0")), 1)
    for each in shards:
        ended(each, 0)
    told = ended(verdict, 0)
    assert "Verdict: FIXED" in told
    assert len(read_rows(Store(run / "all"))[0]) == 20
