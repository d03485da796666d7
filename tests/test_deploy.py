"""deploy/: the manifests of a run in shards, and the image that it runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.steps import ROOT, in_job, objects, project

JOBS = ("holdback-shards", "holdback-verdict")


def pod(job: str) -> dict[str, Any]:
    found: dict[str, Any] = objects()["Job", job]["spec"]["template"]["spec"]
    return found


def test_as_many_shards_as_each_is_told() -> None:
    """The Job has an index for each shard, and all may run at once."""
    shards = objects()["Job", "holdback-shards"]["spec"]
    _, environment = in_job("holdback-shards")
    assert shards["completions"] == shards["parallelism"] == int(environment["SHARDS"])


def test_nothing_is_tried_again() -> None:
    """A second try would hide the failure of the first, and choose among a shard's trials."""
    shards, verdict = (objects()["Job", name]["spec"] for name in JOBS)
    assert (shards["completionMode"], shards["backoffLimitPerIndex"]) == ("Indexed", 0)
    assert shards["podReplacementPolicy"] == "Failed"
    assert verdict["backoffLimit"] == 0
    assert {pod(name)["restartPolicy"] for name in JOBS} == {"Never"}


def test_the_verdict_waits_for_every_shard() -> None:
    """It waits longer than a shard may take, and may itself take longer than that."""
    shards, verdict = (objects()["Job", name]["spec"]["activeDeadlineSeconds"] for name in JOBS)
    (waits,) = re.findall(r"--wait=(\d+)", in_job("holdback-verdict")[0][-1])
    assert shards < int(waits) < verdict


@pytest.mark.parametrize("job", JOBS)
def test_a_pod_may_do_nothing(job: str) -> None:
    """No root, no privilege, no token of the cluster, and an image that is only read."""
    found = pod(job)
    (container,) = found["containers"]
    assert found["automountServiceAccountToken"] is False
    assert found["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {each["mountPath"] for each in container["volumeMounts"]} == {"/evidence", "/tmp"}


@pytest.mark.parametrize("job", JOBS)
def test_a_command_parses(job: str) -> None:
    """By the shell that it is for, and every name in it has a value."""
    (shell, flags, text), environment = in_job(job, JOB_COMPLETION_INDEX="0")
    subprocess.run([shell, "-n", flags, text], check=True)
    assert set(re.findall(r"\$\{?([A-Z_]+)", text)) <= set(environment)


def test_the_image_has_what_the_experiments_need(tmp_path: Path) -> None:
    """Each folder it copies is there, and the experiments it names by default are among them."""
    copied = project(tmp_path / "project")
    _, environment = in_job("holdback-shards")
    assert (copied / environment["EXPERIMENTS"]).is_file()
    assert {each.name for each in copied.iterdir()} == {"pyproject.toml", "conftest.py", "clusters", "fixtures", "e2e"}
    assert (ROOT / "deploy" / "Containerfile").read_text().count("\nUSER 65532:65532\n") == 1
