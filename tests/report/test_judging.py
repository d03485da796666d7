import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from holdback.cli import main
from holdback.errors import ConfigurationError, EvidenceError
from holdback.history.history import History
from holdback.history.store import Store
from holdback.oracles import Finding, Judgement, Oracle
from holdback.report.judging import judge_again, load_oracles, print_judgement
from holdback.report.project import find_root
from holdback.statistics import Verdict
from holdback.trials.outcome import Outcome
from tests.report.reports import ROW, stored, treatment
from tests.report.stories import stuck


def saying(judgement: Judgement) -> Oracle:
    def oracle(history: History) -> Finding:
        return Finding("changed", judgement, f"saw {len(history.events)} events")

    return oracle


def test_a_changed_oracle_changes_outcomes_and_verdict(tmp_path: Path) -> None:
    """Every stored history is judged by today's oracles; the changes are told and the verdict is today's."""
    rows = [replace(ROW, id=f"control-{n}", block=n) for n in range(5)]
    rows += [treatment(row, Outcome.HOLDS) for row in rows]
    store = stored(tmp_path, stuck(), *rows)
    before = (tmp_path / "trials.jsonl").read_bytes()
    rejudged = judge_again(store, lambda _: [saying(Judgement.VIOLATED)])
    assert {row.id for _, row in rejudged.changed} == {f"treatment-{n}" for n in range(5)}
    file = io.StringIO()
    summary = print_judgement(rejudged, Console(file=file, width=80, color_system=None))
    assert summary.experiments[0].verdict is Verdict.NOT_FIXED
    assert "treatment-0: holds -> violated (changed: saw" in file.getvalue()
    assert (tmp_path / "trials.jsonl").read_bytes() == before


def test_what_cannot_be_judged_again_keeps_its_outcome(tmp_path: Path) -> None:
    """A trial without history, or with a damaged or unreadable one, is told and stays as it was."""
    other = treatment(ROW, Outcome.HOLDS)
    third = replace(other, id="third")
    store = stored(tmp_path, stuck(), ROW, other, third)
    store.history_path(third.id).write_bytes(bytes(range(256)))
    store.history_path(ROW.id).unlink()
    with store.history_path(other.id).open("a") as file:
        file.write("{torn\n")
    rejudged = judge_again(store, lambda _: [saying(Judgement.UNKNOWN)])
    assert rejudged.now == rejudged.before == (ROW, other, third)
    assert rejudged.kept[:2] == (f"{ROW.id} has no history", f"the history of {other.id} is damaged")
    assert rejudged.kept[2].startswith("the history of third cannot be read: the first line of ")
    assert [damage.line for damage in rejudged.damages] == [len(stuck().events) + 2]


def test_an_empty_report_is_an_error(tmp_path: Path) -> None:
    """A folder without trials gives no verdict, not even a good one."""
    with pytest.raises(EvidenceError, match="no judged trial"):
        print_judgement(judge_again(Store(tmp_path), lambda _: ()), Console(file=io.StringIO()))


EXPERIMENT = """
import holdback
from {helper} import oracle


@holdback.experiment(oracles=[oracle])
def test_x(trial): ...


def test_plain(): ...


class TestX:
    @holdback.experiment(oracles=[oracle])
    def test_y(self, trial): ...
"""


def write_experiment(root: Path, helper: str = "def oracle(history): ...") -> None:
    """An experiment whose oracle is in a module beside it, of a name that no earlier test has imported."""
    name = f"helper_{root.name}"
    (root / "test_x.py").write_text(EXPERIMENT.replace("{helper}", name))
    (root / f"{name}.py").write_text(helper)


def test_oracles_come_from_the_experiments_file(tmp_path: Path) -> None:
    """The file is imported as it is today, with its project's own modules within reach."""
    write_experiment(tmp_path)
    for experiment in ("test_x.py::test_x", "test_x.py::test_x[100]", "test_x.py::TestX::test_y"):
        assert [oracle.__name__ for oracle in load_oracles(experiment, run={}, root=tmp_path)] == ["oracle"]


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        ("test_y.py::test_x", "is not in"),
        ("test_x.py::test_gone", "has no experiment test_gone"),
        ("test_x.py::test_plain", "has no experiment test_plain"),
        ("test_broken.py::test_x", "cannot be imported: SyntaxError"),
    ],
)
def test_oracles_that_cannot_be_had(tmp_path: Path, experiment: str, message: str) -> None:
    """A missing file, function or mark, or a file that does not import, is told as that."""
    write_experiment(tmp_path)
    (tmp_path / "test_broken.py").write_text("def")
    with pytest.raises(ConfigurationError, match=message):
        load_oracles(experiment, run={}, root=tmp_path)


def test_a_folder_without_evidence_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`holdback judge` of what is no report says which folder it means."""
    assert main(["judge", str(tmp_path / "typo")]) == 1
    assert f"there is no evidence in {tmp_path / 'typo'}" in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`holdback judge` prints today's verdict, and only FIXED is a success."""
    write_experiment(
        tmp_path,
        "from holdback.oracles import Finding, Judgement\n"
        "def oracle(history):\n"
        "    stuck = history.scope['clients'] == ['kueue-manager-control']\n"
        "    return Finding('oracle', Judgement.VIOLATED if stuck else Judgement.HOLDS, 'by name')\n",
    )
    rows = [replace(ROW, id=f"control-{n}", block=n) for n in range(5)]
    report = tmp_path / "report"
    stored(report, stuck(), *rows)
    assert main(["judge", str(report), "--root", str(tmp_path)]) == 1
    assert "INCONCLUSIVE" in capsys.readouterr().out
    healthy = replace(stuck(), scope={"clients": ["other"]})
    store = Store(report)
    for row in rows:
        store.record(row.id.replace("control", "treatment"), healthy)
        store.judged(treatment(row, Outcome.VIOLATED).to_json())
    assert main(["judge", str(report), "--root", str(tmp_path)]) == 0
    assert "FIXED" in capsys.readouterr().out


def test_experiments_are_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their root is the one that is given, else the recorded one, else here; an unknown one is told with a remedy."""
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    project.mkdir()
    elsewhere.mkdir()
    write_experiment(project, "def oracle(history): ...")
    monkeypatch.chdir(elsewhere)
    recorded = {"root": str(project)}
    for run in (recorded, {"merged": [recorded]}):
        assert find_root(run, ROW.experiment) == project
        assert load_oracles(ROW.experiment, run=run)
    with pytest.raises(ConfigurationError, match=r"test_x.py, .*, is not in .*/elsewhere\n.*--root"):
        find_root({"root": str(tmp_path)}, ROW.experiment)
    with pytest.raises(ConfigurationError, match="is not in"):
        find_root(recorded, ROW.experiment, elsewhere)
    assert find_root({}, ROW.experiment, project) == project
    monkeypatch.chdir(project)
    assert find_root({"root": str(tmp_path / "gone")}, ROW.experiment) == project
