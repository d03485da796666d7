"""Runs what deploy/ and the workflows say, as it stands there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from nodeimage.experiments import copied

__all__ = ["BASH", "JOB", "ROOT", "WORKFLOWS", "in_job", "objects", "project", "start", "step_of"]

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"
JOB = ROOT / "deploy" / "job.yaml"
BASH = ("bash", "-eo", "pipefail", "-c")
"""How a runner of GitHub Actions calls bash."""


def step_of(workflow: str, job: str, name: str) -> tuple[str, ...]:
    """The command line of a named step."""
    steps = yaml.safe_load((WORKFLOWS / workflow).read_text())["jobs"][job]["steps"]
    (command,) = (step["run"] for step in steps if step.get("name") == name)
    return (*BASH, str(command))


def objects() -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of deploy/job.yaml by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(JOB.read_text())}


def in_job(name: str, **environment: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command line of a Job's container, and its environment, with changes to what the ConfigMap says."""
    (container,) = objects()["Job", name]["spec"]["template"]["spec"]["containers"]
    own = {each["name"]: each["value"] for each in container["env"]}
    return (*container["command"], *container["args"]), {
        **objects()["ConfigMap", "holdback-run"]["data"],
        **own,
        **environment,
    }


def project(folder: Path) -> Path:
    """Make a folder with what the image has of the repository: the last stage of its Containerfile copies it."""
    stage = (ROOT / "deploy" / "Containerfile").read_text().rpartition("\nFROM ")[2]
    folder.mkdir()
    for name in copied(stage):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def start(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, stubs: Path | None = None
) -> subprocess.Popen[str]:
    """Start a command in a folder: stubs come first on its PATH, then the programs of this Python."""
    path = [*([str(stubs)] if stubs else []), str(Path(sys.executable).parent), os.environ["PATH"]]
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment, "PATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
