"""`holdback replay` and `holdback shrink` on experiments whose scenarios write their history by hand."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdback.cli import main
from holdback.clock import poll
from holdback.faults.plan import read_plan
from tests.plugin.inner import CONFTEST, ORACLE, SOURCE

pytestmark = pytest.mark.sessions

EXPERIMENT = (
    ORACLE
    + """
import pytest

@holdback.experiment(oracles=[said])
def test_it(trial, link):
    with trial.inject(holdback.Delay(link, 100), holdback.Hold(link.reads)), trial.inject(holdback.Hold(link.writes)):
        strong = any(text.startswith("delay") and int(text.split()[1]) >= 30 for text in trial.faults)
        bad = strong and trial.arm == "control" and trial.index >= FROM
        trial.step("says", word="violated" if bad else "holds", drew=trial.random.random())

@pytest.mark.parametrize("size", ["small", "large"])
@holdback.experiment(oracles=[said])
def test_plain(world, trial, size):
    trial.step("says", word="violated", drew=trial.random.random())
"""
)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


class Project:
    """A project whose experiments were run once, with three trials an arm, from a folder below its root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.experiment = root / "tests" / "test_it.py"
        self.report = root / "holdback-report"
        self.elsewhere = root.parent / "elsewhere"

    def make(self) -> None:
        self.experiment.parent.mkdir(parents=True)
        (self.root / "pytest.ini").write_text("[pytest]\n")
        (self.root / "conftest.py").write_text(CONFTEST)
        self.write()
        command = [sys.executable, "-m", "pytest", "--count=3", "--holdback-seed=5", "--control=v1"]
        done = subprocess.run(command, cwd=self.experiment.parent, capture_output=True, text=True, check=False)
        assert len(self.rows()) == 18, done.stdout + done.stderr
        (self.root / "pytest.ini").write_text("[pytest]\naddopts = -x -ra\n")

    def write(self, start: int = 0) -> None:
        """The experiment, whose control fails from that repetition on."""
        self.experiment.write_text(EXPERIMENT.replace("FROM", str(start)))

    def change(self, old: str, new: str) -> None:
        """Change the experiment."""
        text = self.experiment.read_text()
        assert old in text
        self.experiment.write_text(text.replace(old, new))

    def rows(self, below: str = "") -> list[dict[str, Any]]:
        path = self.report / below / "trials.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]

    def drew(self, trial: str, below: str = "") -> float:
        """The random number that a trial drew."""
        text = (self.report / below / "histories" / f"{trial}.jsonl").read_text()
        events = map(json.loads, text.splitlines())
        return next(float(event["detail"]["drew"]) for event in events if event.get("name") == "says")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("made") / "project")
    with pytest.MonkeyPatch.context() as patch:
        settle(patch)
        project.make()
    return project


@pytest.fixture
def project(made: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project of this test's own, moved to where the run that made its report knows nothing of."""
    settle(monkeypatch)
    shutil.copytree(made.root, tmp_path / "project")
    found = Project(tmp_path / "project")
    found.elsewhere.mkdir()
    run = json.loads((found.report / "run.json").read_text())
    here = {"root": str(found.root), "directory": str(found.experiment.parent)}
    (found.report / "run.json").write_text(json.dumps({**run, **here}))
    return found


def settle(patch: pytest.MonkeyPatch) -> None:
    """A pytest that has our plugin and those it works with, and no other one."""
    patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    patch.setenv("PYTEST_PLUGINS", "holdback.plugin,pytest_repeat,xdist.plugin")
    patch.setenv("PYTHONPATH", str(SOURCE))
    patch.delenv("PYTEST_ADDOPTS", raising=False)


@pytest.fixture
def holdback(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Done]]:
    """The command, from somewhere else; what it imports of the project is forgotten again."""
    monkeypatch.chdir(project.elsewhere)

    def holdback(command: str, *words: str) -> Done:
        try:
            code = main([command, "--report", os.path.relpath(project.report), *words])
        except SystemExit as error:
            code = int(error.code or 0)
        forget()
        return Done(code, *capsys.readouterr())

    def forget() -> None:
        for name, module in tuple(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(project.root)):
                del sys.modules[name]

    yield holdback
    forget()


def test_a_replayed_trial_is_the_same_trial(project: Project, holdback: Callable[..., Done]) -> None:
    """Alone, with its id, seed, arm, faults and variant's word, in a report of its own; the first stays as it was."""
    before = {path: path.read_bytes() for path in project.report.rglob("*") if path.is_file()}
    done = holdback("replay", "it-control-003")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "VIOLATED: said: it said so\nThe same outcome.\n" in done.stdout
    (again,) = project.rows("replays/it-control-003")
    (first,) = [row for row in project.rows() if row["id"] == "it-control-003"]
    differ = {key for key in first if first[key] != again[key]}
    assert differ <= {"started", "seconds"}
    assert project.drew("it-control-003") == project.drew("it-control-003", "replays/it-control-003")
    run = json.loads((project.report / "replays/it-control-003/run.json").read_text())
    assert (run["seed"], run["control"], run["directory"]) == (5, "v1", str(project.experiment.parent))
    assert run["command"][0] == "pytest"
    assert before == {path: path.read_bytes() for path in before}


def test_a_trial_without_faults_is_replayed_with_its_parameters(
    project: Project, holdback: Callable[..., Done]
) -> None:
    """Of an experiment with parameters only that one is made, and a second replay keeps the first."""
    for _ in range(2):
        done = holdback("replay", "plain-large-treatment-002")
        assert done.returncode == 0, done.stdout + done.stderr
    replayed = "replays/plain-large-treatment-002"
    (again,) = project.rows(replayed)
    assert again["experiment"] == "tests/test_it.py::test_plain[large]"
    assert project.drew(again["id"]) == project.drew(again["id"], replayed)
    assert len(list((project.report / replayed / "earlier").iterdir())) == 1


def test_another_outcome_is_told(project: Project, holdback: Callable[..., Done]) -> None:
    """A trial that holds now was judged all the same; one without a result was not, which is exit code 1."""
    project.write(start=99)
    done = holdback("replay", "it-control-001")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nnow: HOLDS: said: it said so\nAnother outcome: " in done.stdout
    project.change('trial.step("says"', 'trial.step("is quiet"')
    done = holdback("replay", "it-control-001")
    assert done.returncode == 1
    assert "\nnow: UNKNOWN: said: nothing was said\nThe new trial says nothing of the controller.\n" in done.stdout


@pytest.mark.parametrize(
    ("command", "words", "code", "told"),
    [
        ("replay", ["control-00"], 1, "trials have 'control-00'"),
        ("replay", ["it-control-001", "--root", "."], 2, "is not in"),
        ("replay", ["it-control-001", "--", "--no-such-option"], 1, "ended with exit code 4"),
        ("replay", ["it-control-001", "--", "-k", "nothing"], 1, "ended with exit code 4"),
        ("show", ["it-control-001", "--", "-v"], 2, "runs no pytest"),
        ("shrink", ["it-treatment-001"], 1, "did not fail: HOLDS"),
        ("shrink", ["plain-large-control-001"], 1, "failed without any fault"),
        ("shrink", ["it-control-001", "--trials=10"], 2, "--trials=16 or more"),
        ("shrink", ["it-control-001", "--", "--no-such-option"], 1, "pytest ended before the search did"),
    ],
)
def test_what_cannot_be_done_is_told(
    holdback: Callable[..., Done], command: str, words: list[str], code: int, told: str
) -> None:
    """Each with its exit code, in a message and no traceback of ours."""
    done = holdback(command, *words)
    assert done.returncode == code, done.stdout + done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_does_not_import_is_told(project: Project, holdback: Callable[..., Done]) -> None:
    """It is no interruption, though pytest's exit code is the same."""
    project.experiment.write_text("def")
    for command in ("replay", "shrink"):
        done = holdback(command, "it-control-001")
        assert done.returncode == 1, done.stderr
        assert "SyntaxError" in done.stdout + done.stderr
        assert "interrupted" not in done.stderr


def test_a_plan_is_shrunk_to_what_matters(project: Project, holdback: Callable[..., Done]) -> None:
    """Of three faults in two injections the delay is left, near its threshold; what is written replays and fails."""
    done = holdback("shrink", "it-control-002")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "  the whole plan: VVVVV fails (5 trials so far)\n  no fault at all: . holds (6 trials so far)\n" in done.stdout
    )
    assert "It still fails in 5 of 5 trials made afresh: the true rate is above 55% with 95% confidence." in done.stdout
    assert "no fault at all, to compare with: ..... holds" in done.stdout
    assert "Without any fault it fails in 0 of 5 trials." in done.stdout
    file = project.report / "shrinks/it-control-002/shrunk.yaml"
    plan = read_plan(file)
    assert len(plan) == 2
    (fault,) = plan.faults
    assert fault.target == "kueue-{arm}>worker1"
    assert 30 <= fault.settings["milliseconds"] <= 37
    assert "above 55%" in file.read_text()
    rows = project.rows("shrinks/it-control-002")
    assert {row["arm"] for row in rows} == {"control"}
    assert f"({len(rows)} trials so far)" in done.stdout
    last = [row for row in rows if row["outcome"] == "violated"][-1]
    done = holdback("replay", last["id"], "--report", str(file.parent))
    assert "VIOLATED: said: it said so\nThe same outcome.\n" in done.stdout
    (again,) = project.rows(f"shrinks/it-control-002/replays/{last['id']}")
    assert again["dose_milliseconds"] == fault.settings["milliseconds"]


def test_a_plan_that_fails_now_and_then_is_not_shrunk(project: Project, holdback: Callable[..., Done]) -> None:
    """Why is said, with the counts, and nothing is written."""
    project.write(start=2)
    done = holdback("shrink", "it-control-002")
    assert done.returncode == 1
    assert "does not fail 5 times in a row: 0 of 1 trial failed" in done.stderr
    assert not (project.report / "shrinks/it-control-002/shrunk.yaml").exists()


def test_a_bug_in_the_scenario_is_no_result(project: Project, holdback: Callable[..., Done]) -> None:
    """Trials whose scenario raises what is no error of ours do not count, and refuse the plan."""
    project.change("strong = any", "strong = anything")
    done = holdback("shrink", "it-control-001")
    assert done.returncode == 1
    assert "0 of 0 trials failed, 2 had no result (the scenario or its fixtures have a bug)" in done.stderr


def test_ctrl_c_keeps_the_best_so_far(project: Project) -> None:
    """It is printed and in its file, with how sure it is; the exit code is that of an interruption."""
    project.change(
        "strong = any", "import time; time.sleep(60 if trial.faults == () or trial.index > 8 else 0); strong = any"
    )
    command = [sys.executable, "-m", "holdback", "shrink", "it-control-001", "--report", str(project.report)]
    output = project.elsewhere / "output"
    with output.open("w") as file:
        process = subprocess.Popen(command, cwd=project.elsewhere, stdout=file, stderr=file, start_new_session=True)
    try:
        planned = project.report / "shrinks/it-control-001/planned.jsonl"
        assert poll(lambda: planned.exists() and len(planned.read_text().splitlines()) >= 6, within=120)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 130, output.read_text()
    finally:
        process.kill()
        process.wait()
    assert "3 of 3 faults:\n" in output.read_text()
    assert "It still fails in 5 of 5 trials: the true rate is above 55%" in output.read_text()
    assert len(read_plan(project.report / "shrinks/it-control-001/shrunk.yaml").faults) == 3
