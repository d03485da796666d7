"""`--dose`: an experiment over several doses, in blocks within each, and the search for the one that matters."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.plugin.inner import ORACLE, lines_of, report_of, rows_of, summary_of
from tests.schema import documented

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sessions

DELAYED = (
    ORACLE
    + """
@holdback.experiment(oracles=[said])
def test_it(trial, link):
    with trial.inject(holdback.Delay(link, 300)):
        delay = max((change.milliseconds for _, change in trial.history(closed=False).faults()), default=0)
        trial.step("says", word="violated" if trial.arm == "control" and delay >= 20 else "holds")
"""
)


def test_each_dose_has_its_cell(inner: pytest.Pytester) -> None:
    """`--count` trials in each arm at each dose; the rows tell the dose, and at 0 no fault was in force."""
    inner.makepyfile(DELAYED)
    result = inner.runpytest("--dose=0,10,50,100", "--count=4", "--holdback-seed=3", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["holdback: seed 3, *, doses 0 10 50 100 ms, *", "*::test_it?control-50ms-2-4? *"])
    rows = rows_of(inner)
    cells = Counter((row["dose"], row["arm"]) for row in rows)
    assert cells == {(dose, arm): 4 for dose in (0, 10, 50, 100) for arm in ("control", "treatment")}
    assert all(row["dose_milliseconds"] == row["dose"] for row in rows)
    assert {row["dose"]: len(row["faults"]) for row in rows} == {0: 0, 10: 1, 50: 1, 100: 1}
    assert len({row["id"] for row in rows}) == 32
    assert {row["id"] for row in rows} == {path.stem for path in (report_of(inner) / "histories").iterdir()}
    assert {(row["dose"], row["outcome"]) for row in rows if row["arm"] == "control"} == {
        (0, "holds"),
        (10, "holds"),
        (50, "violated"),
        (100, "violated"),
    }


def test_blocks_stay_within_a_dose_and_doses_are_mixed(inner: pytest.Pytester) -> None:
    """A block is one trial of each arm at one dose with one seed, and every dose comes once before any comes twice."""
    inner.makepyfile(DELAYED)
    inner.runpytest("--dose=0,10,50", "--count=6", "--holdback-seed=1")
    rows = rows_of(inner)
    pairs = [rows[at : at + 2] for at in range(0, len(rows), 2)]
    for pair in pairs:
        assert {row["arm"] for row in pair} == {"control", "treatment"}
        assert len({(row["dose"], row["block"], row["seed"]) for row in pair}) == 1
    doses = [pair[0]["dose"] for pair in pairs]
    rounds = [doses[at : at + 3] for at in range(0, len(doses), 3)]
    assert all(sorted(each) == [0, 10, 50] for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1


def test_the_verdict_is_of_all_doses_and_the_curve_is_told(inner: pytest.Pytester) -> None:
    """Terminal, Markdown, page and summary.json have the trials by dose, the verdict of all, and the dose for half."""
    inner.makepyfile(DELAYED)
    result = inner.runpytest("--dose=0,10,50,100", "--count=6")
    result.stdout.fnmatch_lines([" 50 ms    6 of 6   54.1% to 100.0%      0 of 6   0.0% to 45.9%*", "Verdict: FIXED"])
    (experiment,) = summary_of(inner)["experiments"]
    assert sorted(experiment) == sorted(documented("An experiment in `summary.json`"))
    assert experiment["words"].startswith("Over all doses together (0, 10, 50, 100 ms): The bug showed in 12 of 24 ")
    assert [each["dose"] for each in experiment["doses"]] == [0, 10, 50, 100]
    assert [each["arms"]["control"]["violated"] for each in experiment["doses"]] == [0, 0, 6, 6]
    half = experiment["half"]["control"]
    assert 10 <= half["low"] < half["dose"] < half["high"] <= 50
    assert experiment["half"]["treatment"] == {"dose": None, "low": 100, "high": None}
    run = json.loads((report_of(inner) / "run.json").read_text())
    assert run["doses"] == [0, 10, 50, 100]
    assert sorted(run) == sorted(documented("`run.json`"))
    told = {name: (report_of(inner) / name).read_text() for name in ("summary.md", "index.html")}
    told["terminal"] = " ".join(result.stdout.str().split())
    for text in told.values():
        assert "Half of the control trials fail at " in text
        assert "Fewer than half of the treatment trials fail at 100 ms still, the highest dose (95%: half of " in text


def test_workers_make_all_cells(inner: pytest.Pytester) -> None:
    """With `-n 2` every cell is whole, and the ids are those of a run without workers."""
    inner.makepyfile(DELAYED)
    inner.runpytest_subprocess("--dose=0,50", "--count=3", "--holdback-seed=1")
    alone = sorted(row["id"] for row in rows_of(inner))
    inner.runpytest_subprocess("-n", "2", "--dose=50,0", "--count=3", "--holdback-seed=1")
    assert sorted(row["id"] for row in rows_of(inner)) == alone
    assert set(Counter(row["block"] for row in rows_of(inner)).values()) == {2}


def test_doses_until_decided(inner: pytest.Pytester) -> None:
    """Both options together end between blocks too, after as many clear ones as without doses."""
    inner.makepyfile(DELAYED)
    assert inner.runpytest("--dose=50,100", "--count=20", "--until-decided").ret == 0
    assert len(rows_of(inner)) == 10
    assert "Decided after 5 of up to 40 trials an arm" in summary_of(inner)["experiments"][0]["words"]


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_search_closes_in_on_the_dose(inner: pytest.Pytester, workers: tuple[str, ...]) -> None:
    """From 100 ms it goes down while the control fails, and then to and fro about the dose at which it begins to."""
    inner.makepyfile(DELAYED)
    result = inner.runpytest_subprocess("--dose=search", "--count=16", *workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["holdback: *, searching for a dose, *"])
    rows = rows_of(inner)
    assert len(rows) == 32
    assert all(len({row["dose"] for row in rows if row["block"] == block}) == 1 for block in range(16))
    settled = lines_of(report_of(inner) / "blocks.jsonl")
    assert settled[0]["dose"] == 100
    assert all(list(line) == documented("A line of `blocks.jsonl`") for line in settled)
    late = Counter(line["dose"] for line in settled[-8:])
    assert set(late) <= {5, 10, 20, 50}
    summary = summary_of(inner)
    assert summary["sequential"] is True
    half = summary["experiments"][0]["half"]["control"]
    assert half["low"] <= 20 <= half["high"] + 10
    assert json.loads((report_of(inner) / "run.json").read_text())["doses"] == "search"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dose=x"], "--dose: 'x' is no dose*"),
        (["--dose=-1"], "--dose: '-1' is no dose*"),
        (["--dose=0,,5"], "--dose: '' is no dose*"),
        (["--dose=1.5"], "--dose: '1.5' is no dose*"),
        (["--dose=search"], "--dose search with a single trial*"),
        (["--dose=search", "--until-decided", "--count=9"], "--until-decided ends*before --dose search*"),
    ],
)
def test_what_is_no_dose_is_refused_at_once(inner: pytest.Pytester, options: list[str], words: str) -> None:
    """A usage error that says what to give, before anything starts."""
    inner.makepyfile(DELAYED)
    result = inner.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {words}", "*->*"])
    assert not report_of(inner).exists()


def test_the_plan_of_a_dosed_trial_replays_with_its_dose(inner: pytest.Pytester) -> None:
    """The plan that is kept has the dose in it, also one of 0, where it has no fault."""
    inner.makepyfile(DELAYED)
    inner.runpytest("--dose=0,50", "--holdback-seed=4")
    kept = {path.stem: path.read_text() for path in (report_of(inner) / "plans").iterdir()}
    assert "milliseconds: 50\n" in kept["it-control-50ms-002"]
    assert "faults: []" in kept["it-control-0ms-001"]
    for trial, dose in (("it-control-50ms-002", 50), ("it-control-0ms-001", 0)):
        (inner.path / "plan.yaml").write_text(kept[trial])
        for options in ((), (f"--dose={dose}",)):
            inner.runpytest("--plan=plan.yaml", *options)
            assert {
                (row["dose_milliseconds"], row["outcome"]) for row in rows_of(inner) if row["arm"] == "control"
            } == {(dose, "violated" if dose else "holds")}


UNDOSED = ORACLE + "@holdback.experiment(oracles=[said])\ndef test_it(world, trial): trial.step('says', word='holds')"


def test_a_scenario_without_a_delay_cannot_be_dosed(inner: pytest.Pytester) -> None:
    """It cannot be known beforehand: the first trial is INVALID with the reason, and no further one is tried."""
    inner.makepyfile(UNDOSED)
    result = inner.runpytest("--dose=0,50", "--count=3")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*--dose asks for * ms, and the scenario has no Delay*", "*->*trial.dose*"])
    assert [row["outcome"] for row in rows_of(inner)] == ["invalid"]


def test_a_scenario_may_take_its_strength_from_the_dose(inner: pytest.Pytester) -> None:
    """`trial.dose` is the dose for faults that are no delays, and None without the option."""
    inner.makepyfile(UNDOSED.replace("trial.step(", "trial.step('took', dose=trial.dose); trial.step("))
    inner.runpytest("--dose=7", "--count=2")
    assert [row["outcome"] for row in rows_of(inner)] == ["holds"] * 4
    assert doses_taken(report_of(inner)) == {7}
    inner.runpytest()
    assert doses_taken(report_of(inner)) == {None}
    assert {row["dose"] for row in rows_of(inner)} == {None}


def doses_taken(report: Path) -> set[int | None]:
    events = [event for path in (report / "histories").iterdir() for event in lines_of(path)]
    return {event["detail"]["dose"] for event in events if event.get("name") == "took"}


def test_help_explains_doses(inner: pytest.Pytester) -> None:
    """`--help` says what a dose does and what a search is."""
    text = " ".join(inner.runpytest("--help").stdout.str().split())
    assert "--dose=MS,MS,... make --count trials in each arm at each of these doses" in text
    assert "the dose at which half of the control's trials fail" in text
