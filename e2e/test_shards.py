"""Shards as the nightly workflow and the Job make them: their very commands, side by side, then the merge."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdback.clock import poll
from holdback.history.store import Store
from holdback.trials.outcome import Outcome, read_rows
from tests.steps import in_job, objects, project, start, step_of

pytestmark = pytest.mark.repeat(1)  # --count asks for trials, and these are none

_EXPERIMENT = "readmission"
"""Shows its bugs in nearly every trial, so that few trials make a verdict."""
_IN_IT = 3
"""So many experiments are in that file."""
_WITHIN = 600.0
_CONTEXT = "HOLDBACK_JOB_CONTEXT"

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
    asked = {"EXPERIMENT": _EXPERIMENT, "SHARDS": "2", "COUNT": "2", "SEED": "11062", "CONTROL": "", "TREATMENT": ""}
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
    assert "INCONCLUSIVE" in told
    assert "Missing" not in told
    merged = outcomes(folder / "merged")
    assert merged["treatment"] == {Outcome.HOLDS}
    # One in 66 control trials does not show the bug.
    assert {Outcome.VIOLATED} <= merged["control"] <= {Outcome.VIOLATED, Outcome.HOLDS}
    assert len(read_rows(Store(folder / "merged"))[0]) == 4 * _IN_IT
    assert summary.read_text().startswith(f"### holdback: all {_IN_IT} experiments are INCONCLUSIVE")


def test_the_commands_of_a_job(folder: Path, started: Start) -> None:
    """The verdict's pod waits for the shards beside it and ends well; no shard is made a second time."""
    asked = {"EVIDENCE": str(folder), "SHARDS": "2", "COUNT": "6", "EXPERIMENTS": f"e2e/test_{_EXPERIMENT}.py"}
    verdict = started(*in_job("holdback-verdict", **asked))
    shards = [started(*in_job("holdback-shards", **asked, JOB_COMPLETION_INDEX=str(index))) for index in (0, 1)]
    run = folder / in_job("holdback-shards")[1]["RUN"]
    assert poll((run / "shard-1").exists, within=_WITHIN)
    assert "mkdir" in ended(started(*in_job("holdback-shards", **asked, JOB_COMPLETION_INDEX="0")), 1)
    for each in shards:
        ended(each, 0)
    told = ended(verdict, 0)
    assert "Verdict: FIXED" in told
    assert len(read_rows(Store(run / "all"))[0]) == 12 * _IN_IT


def test_as_a_real_job() -> None:
    """On a cluster whose nodes have the image the Jobs do the same, and their pods end as their shards did."""
    context = os.environ.get(_CONTEXT)
    if not context:
        pytest.skip(f"{_CONTEXT} names no context of a cluster whose nodes have the image of deploy/Containerfile")
    if not shutil.which("kubectl"):
        pytest.skip("there is no kubectl on the PATH")
    kubectl = ("kubectl", "--context", context)
    manifests = yaml.safe_dump_all(_small(objects()))
    subprocess.run([*kubectl, "apply", "--filename=-"], input=manifests, text=True, check=True)
    try:
        logs = [*kubectl, "logs", "job/holdback-verdict"]
        assert poll(lambda: _over(kubectl), within=900.0, every=2.0), subprocess.run(logs, check=False)
        told = subprocess.run(logs, check=True, capture_output=True, text=True).stdout
        assert "INCONCLUSIVE" in told
        assert "Missing" not in told
        assert "Not finished" not in told
        assert _status(kubectl, "holdback-shards")["succeeded"] == 2
    finally:
        delete = [*kubectl, "delete", "--ignore-not-found", "--cascade=foreground", "--filename=-"]
        subprocess.run(delete, input=manifests, text=True, check=True)


def _small(found: Mapping[tuple[str, str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The manifests with two shards of one trial an arm each, on a volume of one node."""
    data = found["ConfigMap", "holdback-run"]["data"]
    data.update(SHARDS="2", COUNT="2", EXPERIMENTS=f"e2e/test_{_EXPERIMENT}.py")
    found["Job", "holdback-shards"]["spec"].update(completions=2, parallelism=2)
    found["PersistentVolumeClaim", "holdback-evidence"]["spec"]["accessModes"] = ["ReadWriteOnce"]
    for name in ("holdback-shards", "holdback-verdict"):
        (container,) = found["Job", name]["spec"]["template"]["spec"]["containers"]
        container["resources"]["requests"]["cpu"] = "100m"  # the node may have two processors for all of it
    return list(found.values())


def _status(kubectl: Sequence[str], job: str) -> dict[str, Any]:
    done = subprocess.run([*kubectl, "get", "job", job, "--output=yaml"], check=True, capture_output=True, text=True)
    found: dict[str, Any] = yaml.safe_load(done.stdout).get("status", {})
    return found


def _over(kubectl: Sequence[str]) -> bool:
    """Whether the verdict's Job has ended, well or not."""
    status = _status(kubectl, "holdback-verdict")
    return bool(status.get("succeeded") or status.get("failed"))
