"""What the documents say is tried: commands are ones that CI or a test runs, code works, links lead somewhere."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bench.scale.__main__ import parse as parse_scale
from holdback.cli.main import _parser
from holdback.history.events import Event, Step
from holdback.history.history import History
from holdback.oracles import Judgement
from holdback.statistics.interval import trials_for_bound
from holdback.statistics.power import needed_trials
from tests.report.stories import MANAGER, START, change, workload

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPERIMENT = "@holdback.experiment"
OPTIONS = (
    "--control",
    "--treatment",
    "--holdback-seed",
    "--holdback-report",
    "--shard",
    "--until-decided",
    "--dose",
)


@dataclass(frozen=True, slots=True)
class Block:
    document: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.document}-{self.number}"


def blocks(language: str) -> list[Block]:
    found = []
    for document in DOCUMENTS:
        texts = [text for kind, text in BLOCK.findall(document.read_text()) if kind == language]
        found += [Block(document.name, number, text) for number, text in enumerate(texts, start=1)]
    return found


def commands() -> list[list[str]]:
    lines = [line for block in blocks("console") for line in block.text.splitlines() if line.startswith("$ ")]
    assert lines
    return [shlex.split(line.removeprefix("$ ")) for line in lines]


def sessions() -> set[str]:
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    marks = [(each.name, ast.unparse(mark)) for each in functions for mark in each.decorator_list]
    return {name.replace("_", "-") if "name=" in mark else name for name, mark in marks if "session" in mark}


def sessions_in_ci() -> set[str]:
    """Those that `.ci/run` runs or names, as it does with what a fresh machine has no time for."""
    return set(re.findall(r"nox -s ([\w-]+)", (ROOT / ".ci" / "run").read_text()))


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_a_command_is_one_that_works(command: list[str]) -> None:
    """It runs a nox session that CI runs, with options that pytest knows, or a holdback command that parses."""
    if command[:2] == ["pipx", "run"]:
        command = command[2:]
    match command:
        case ["nox", "-s", *rest]:
            named, _, posargs = " ".join(rest).partition(" -- ")
            assert set(named.split()) <= sessions() & sessions_in_ci()
            if named == "scale":  # the one session whose arguments are its own
                assert parse_scale(posargs.split()).pods
            else:
                assert_pytest_knows(posargs.split())
        case ["holdback", *rest]:
            assert _parser().parse_args(rest).run
        case ["bash", script]:
            assert (ROOT / script).is_file()
        case _:
            pytest.fail("neither nox, holdback nor a script: CI cannot have tried it")


def assert_pytest_knows(arguments: list[str]) -> None:
    known = known_options()
    for argument in arguments:
        if argument.startswith("-"):
            assert argument.partition("=")[0] in known
        elif argument.startswith("e2e"):
            assert (ROOT / argument).exists()


@cache
def known_options() -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--help"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", shown.stdout))


@pytest.mark.parametrize("table", [(ROOT / "README.md").read_text()], ids=["README"])
def test_every_option_of_ours_is_in_the_readme(table: str) -> None:
    """What the plugin adds to pytest, and each holdback command, is told to the user."""
    for option in OPTIONS:
        assert option in table
        assert option in known_options()
    for command in _parser()._subparsers._group_actions[0].choices:  # type: ignore[union-attr]
        assert f"`{command}`" in table or f"holdback {command}" in table


@pytest.mark.parametrize("block", [each for each in blocks("python") if EXPERIMENT not in each.text], ids=str)
def test_code_runs(block: Block) -> None:
    """Each Python block that is no experiment runs."""
    exec(compile(block.text, str(block), "exec"), {})  # the project's own documents


def test_the_oracle_to_learn_from_is_right() -> None:
    """It counts evictions on the manager, not the changes that tell of one, and decides only once the trial is over."""
    (block,) = [each for each in blocks("python") if "def evicted_once" in each.text]
    names: dict[str, Any] = {}
    exec(compile(block.text, str(block), "exec"), names)  # the project's own document
    oracle = names["evicted_once"]
    evicted, requeued = workload(true=("Evicted",)), workload(false=("Evicted",))
    told: tuple[Event, ...] = (
        Step(START, "submit", {"workload": "job-a", "manager": MANAGER}),
        *(change(1 + at, where, evicted) for at in range(3) for where in (MANAGER, "worker1")),
        change(5, MANAGER, requeued),
    )
    again = change(6, MANAGER, evicted)
    assert oracle(History(told, closed=False)).judgement is Judgement.UNKNOWN
    assert oracle(History(told)).judgement is Judgement.HOLDS
    found = oracle(History((*told, again), closed=False))
    assert (found.judgement, found.reason) == (Judgement.VIOLATED, "evicted 2 times")
    assert found.events == (1, len(told))


def test_experiments_are_collected(tmp_path: Path) -> None:
    """Each experiment in a document is collected in both arms, with fixtures that exist."""
    experiments = [each for each in blocks("python") if EXPERIMENT in each.text]
    assert experiments
    for number, block in enumerate(experiments):
        (tmp_path / f"test_{number}.py").write_text(block.text)
    # Fixtures are looked up when a test is set up, which --setup-plan does without running them.
    command = [sys.executable, "-m", "pytest", "--setup-plan", "-q", "-p", "fixtures.kueue", "--rootdir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    for number, block in enumerate(experiments):
        for name in re.findall(r"^def (test_\w+)", block.text, re.MULTILINE):
            for arm in ("control", "treatment"):
                assert f"test_{number}.py::{name}[{arm}]" in done.stdout, done.stdout + done.stderr
    assert " error" not in done.stdout, done.stdout


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """Each relative link names a file of the repository."""
    for link in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        if "://" not in link:
            assert (document.parent / link.partition("#")[0]).exists(), link


def test_the_figures_in_the_statistics_are_computed() -> None:
    """The needed counts that the document lists are those that the code gives."""
    text = (ROOT / "docs" / "statistics.md").read_text()
    rates = [int(each) / 100 for each in re.findall(r"(\d+)%", re.search(r"control's rate \|(.*)", text)[1])]  # type: ignore[index]
    counts = [int(each) for each in re.findall(r"\d+", re.search(r"trials an arm \|(.*)", text)[1])]  # type: ignore[index]
    assert counts == [needed_trials(rate) for rate in rates]
    assert (
        f"{trials_for_bound(0.05)} trials for 5%, {trials_for_bound(0.01)} for\n1%, {trials_for_bound(0.001)}" in text
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_path_of_one_machine(document: Path) -> None:
    """Nothing in a document holds only on the machine where it was written."""
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", document.read_text())
