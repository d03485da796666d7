"""The workflows of GitHub Actions: what can be known of them without GitHub, and their steps run as they stand."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from holdback.history.store import Store
from tests.report.sample import report
from tests.steps import ROOT, WORKFLOWS, start, step_of

pytestmark = pytest.mark.sessions

NIGHTLY = "nightly.yaml"


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(workflow).values() for step in job["steps"]]


every_workflow = pytest.mark.parametrize("workflow", sorted(WORKFLOWS.iterdir()), ids=lambda path: path.name)


@every_workflow
def test_what_a_workflow_may_do(workflow: Path) -> None:
    """It may read the repository; a job that needs more says so, and may write nothing."""
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}
    for job in jobs(workflow).values():
        assert set(job.get("permissions", {}).values()) <= {"read"}


@every_workflow
def test_what_a_workflow_uses(workflow: Path) -> None:
    """Only GitHub's own actions, each of a major version."""
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    for each in used:
        assert re.fullmatch(r"actions/[\w/-]+@v\d+", each), each


@every_workflow
def test_what_a_workflow_runs_is_sound(workflow: Path) -> None:
    """Each command parses, and takes what users typed from the environment, never into its own text."""
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    for command in commands:
        assert "${{" not in command
        subprocess.run(["bash", "-n", "-c", command], check=True)


def test_every_shard_is_made() -> None:
    """The matrix has as many shards as each of them is told that there are."""
    document = yaml.safe_load((WORKFLOWS / NIGHTLY).read_text())
    shards = document["jobs"]["shard"]["strategy"]["matrix"]["shard"]
    assert shards == list(range(1, document["env"]["SHARDS"] + 1))


def run(
    step: tuple[str, ...], folder: Path, stub: tuple[str, str] | None = None, **environment: str
) -> tuple[int, str]:
    """Run a step's command as a runner would: its exit code, and what it said.

    `stub` is the name and the text of a shell script that stands in for a program of the runner.
    """
    stubs = folder / "stubs"
    stubs.mkdir(exist_ok=True)
    if stub:
        (stubs / stub[0]).write_text(f"#!/bin/sh\n{stub[1]}\n")
        (stubs / stub[0]).chmod(0o755)
    files = {"GITHUB_STEP_SUMMARY": str(folder / "summary"), "GITHUB_OUTPUT": str(folder / "output")}
    child = start(step, folder, {**files, **environment}, stubs=stubs)
    said, _ = child.communicate()
    return child.returncode, said


def outputs_of(tmp_path: Path, **environment: str) -> dict[str, str]:
    (tmp_path / "output").unlink(missing_ok=True)
    step = step_of(NIGHTLY, "build", "Name the experiments, and the cache by all that decides what is in it")
    code, said = run(step, tmp_path, ("go", "echo go1.26.8"), SYSTEM="Linux-X64", PINS="abc", **environment)
    assert code == 0, said
    return dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())


def test_the_caches_are_named_by_what_decides_them(tmp_path: Path) -> None:
    """The pins, the Go and the variants; the shards then use exactly that Go."""
    asked = {"EXPERIMENT": "all", "CONTROL": "", "TREATMENT": "v0.17.4"}
    told = outputs_of(tmp_path, **asked)
    assert told["go"] == "1.26.8"
    assert re.fullmatch(r"holdback-Linux-X64-go1\.26\.8-abc-[0-9a-f]{12}", told["cache"])
    assert outputs_of(tmp_path, **asked) == told
    assert outputs_of(tmp_path, **{**asked, "CONTROL": "v0.17.4", "TREATMENT": ""})["cache"] != told["cache"]


def test_the_experiments_are_files(tmp_path: Path) -> None:
    """All that may be chosen are there, and `all` is all of them."""
    choice = yaml.safe_load((WORKFLOWS / NIGHTLY).read_text())[True]["workflow_dispatch"]["inputs"]["experiment"][
        "options"
    ]
    asked = {"CONTROL": "", "TREATMENT": ""}
    assert json.loads(outputs_of(tmp_path, EXPERIMENT="all", **asked)["experiments"]) == choice[1:]
    for each in choice[1:]:
        assert json.loads(outputs_of(tmp_path, EXPERIMENT=each, **asked)["experiments"]) == [each]
        assert (ROOT / "e2e" / f"test_{each}.py").is_file()


def shard_reports(tmp_path: Path, numbers: tuple[int, ...], treatment: str) -> None:
    """What the download of the shards' evidence leaves."""
    for number in numbers:
        facts = {"id": f"run{number}", "seed": number, "shard": {"number": number, "of": 4, "seed": 5}}
        made = report(tmp_path / f"shards/shard-readmission-{number}", "vvv", treatment, facts=facts)
        rows = [json.loads(line) for line in made.trials_path.read_text().splitlines()]
        made.trials_path.write_text("".join(json.dumps({**row, "seed": row["seed"] * number}) + "\n" for row in rows))
        made.summarise({"run": f"run{number}", "interrupted": False})


@pytest.mark.parametrize(
    ("numbers", "treatment", "code"),
    [((1, 2, 3, 4), "hhh", 0), ((1, 2, 3, 4), "hhv", 1), ((1, 3, 4), "hhh", 1)],
    ids=["fixed", "not fixed", "a shard is missing"],
)
def test_the_verdict_decides(tmp_path: Path, numbers: tuple[int, ...], treatment: str, code: int) -> None:
    """The merge fails the night when the verdict is not FIXED or a shard is missing, and shows it on the page."""
    shard_reports(tmp_path, numbers, treatment)
    merge = step_of(NIGHTLY, "verdict", "Merge the shards")
    found, said = run(merge, tmp_path, EXPERIMENT="readmission", SHARDS="4")
    assert found == code, said
    assert Store(tmp_path / "merged").finished
    shown = (tmp_path / "summary").read_text()
    assert shown.count("### holdback: ") == 1
    assert ("shard 2 of 4 of the run with seed 5" in shown) == (2 not in numbers)


@pytest.mark.parametrize("before", ["", "7"], ids=["no night before", "a night before"])
def test_the_night_before_is_compared(tmp_path: Path, before: str) -> None:
    """What changed since is on the page; where there was no night, or it left no report, that is said."""
    report(tmp_path / "merged", "vvv", "hhh")
    report(tmp_path / "kept", "vvv", "vvv")
    github = f'case "$2 $3" in "list "*) echo {before};; "download 7") cp -r kept before;; *) exit 1;; esac'
    compare = step_of(NIGHTLY, "verdict", "Compare with the night before")
    code, said = run(compare, tmp_path, ("gh", github), EXPERIMENT="readmission", GITHUB_REF_NAME="main")
    assert code == 0, said
    shown = (tmp_path / "summary").read_text()
    if before:
        assert shown.startswith("### Against the night before\n```text\n")
        assert "treatment" in shown
    else:
        assert shown == "There is no report of the night before.\n"
