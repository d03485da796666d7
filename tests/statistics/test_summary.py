import json

import pytest
from scipy import stats

from holdback.errors import EvidenceError
from holdback.oracles import Finding, Judgement
from holdback.statistics import Verdict, summarise
from holdback.statistics.counting import Violations
from holdback.statistics.design import Design
from holdback.trials.outcome import Outcome
from tests.statistics.rows import Row, rows


def test_the_shape_of_the_summary_file() -> None:
    """`summary.json` has the promised keys, and plain values that JSON can carry."""
    data = json.loads(json.dumps(summarise(rows("vvvvvuh", "hhhhhhi", "one")).to_json()))
    (experiment,) = data["experiments"]
    assert (experiment["name"], experiment["verdict"]) == ("one", "FIXED")
    assert experiment["p_value"] == pytest.approx(1 / 32)
    assert list(experiment["arms"]) == ["control", "treatment"]
    counts = {
        arm: {key: figures[key] for key in ("violated", "held", "unknown", "invalid")}
        for arm, figures in experiment["arms"].items()
    }
    assert counts == {
        "control": {"violated": 5, "held": 1, "unknown": 1, "invalid": 0},
        "treatment": {"violated": 0, "held": 6, "unknown": 0, "invalid": 1},
    }


def test_only_blocks_with_both_arms_decided_are_compared() -> None:
    """A violated control beside an invalid treatment shows nothing about the difference."""
    (experiment,) = summarise(rows("vvvvvv", "hhhhhi")).experiments
    assert experiment.blocks == 5
    assert experiment.p_value == pytest.approx(1 / 32)
    assert experiment.arms["control"].violated == 6


def test_the_p_value_is_the_one_of_the_blocks() -> None:
    """Disagreeing blocks are counted as in McNemar's test."""
    (experiment,) = summarise(rows("vvvvvvvhhh", "vhhhhhhvhh")).experiments
    assert experiment.p_value == pytest.approx(stats.binomtest(6, 7, alternative="greater").pvalue)


def test_several_experiments_share_the_error() -> None:
    """Five of five is enough alone, but not as one of three; the next step then names the larger count."""
    alone = summarise(rows("vvvvv", "hhhhh", "a"))
    assert alone.experiments[0].verdict is Verdict.FIXED
    together = summarise([*rows("vvvvv", "hhhhh", "a"), *rows("vvvvv", "hhhhh", "b"), *rows("vvvvv", "hhhhh", "c")])
    assert [each.verdict for each in together.experiments] == [Verdict.INCONCLUSIVE] * 3
    assert [each.p_adjusted for each in together.experiments] == [pytest.approx(3 / 32)] * 3
    assert "--count=6" in together.experiments[0].next[0]
    enough = summarise([row for name in "abc" for row in rows("v" * 6, "h" * 6, name)])
    assert enough.fixed


def test_an_experiment_without_a_p_value_takes_no_share_of_the_error() -> None:
    """A broken experiment does not make the others inconclusive."""
    summary = summarise([*rows("vvvvv", "hhhhh", "good"), *rows("iii", "iii", "broken")])
    assert [each.verdict for each in summary.experiments] == [Verdict.FIXED, Verdict.INCONCLUSIVE]
    assert summary.experiments[1].p_value is None
    assert not summary.fixed


def test_no_rows_are_no_success() -> None:
    """A run without a trial has no experiment and is not fixed."""
    assert summarise([]).experiments == ()
    assert not summarise([]).fixed


def test_an_unknown_arm_is_refused() -> None:
    """A row with an arm that does not exist is never silently left out."""
    with pytest.raises(EvidenceError, match="sideways"):
        summarise([Row("e", "sideways", 0, Outcome.HOLDS)])


def test_a_run_that_was_looked_at_pays_for_it() -> None:
    """Its p-value and its intervals are those that hold at every look, wider than the exact ones."""
    many = rows("hvvvvvvvvvvvvhh", "vhhhhhhhhhhhhhh")
    fixed, adaptive = (summarise(many, Design(adaptive=each)).experiments[0] for each in (False, True))
    assert fixed.p_value is not None
    assert adaptive.p_value is not None
    assert fixed.p_value < adaptive.p_value <= 0.05
    for arm in ("control", "treatment"):
        assert adaptive.arms[arm].low < fixed.arms[arm].low
        assert adaptive.arms[arm].high > fixed.arms[arm].high


@pytest.mark.parametrize(
    ("control", "treatment", "said"),
    [
        ("v" * 5, "h" * 5, "Decided after 5 of up to 200 trials an arm."),
        ("v" * 8, "v" * 8, "Decided after 8 of up to 200 trials an arm: the fix does not even halve"),
        ("v" * 4, "h" * 4, "Not decided by 4 of up to 200 trials an arm."),
        ("h" * 200, "h" * 200, "Not decided by 200 of up to 200 trials an arm."),
    ],
)
def test_a_run_until_decided_says_when_it_was(control: str, treatment: str, said: str) -> None:
    """The words tell after how many trials the verdict was certain, or that it was not."""
    (experiment,) = summarise(rows(control, treatment), Design(adaptive=True, most=200)).experiments
    assert said in experiment.words


def test_no_failure_is_worth_less_where_one_looked() -> None:
    """0 of 5 bounds the rate by 58.5% when five was not settled beforehand, and the words say of which kind that is."""
    (experiment,) = summarise(rows("v" * 5, "h" * 5), Design(adaptive=True)).experiments
    assert "0 of 5: the true rate is below 58.5% with 95% confidence at every look" in experiment.words


def test_violated_trials_are_counted_by_the_oracles_that_saw_them() -> None:
    """Each violated trial counts once, under all oracles that found it violated; other trials do not count."""

    def seen(*violated: str, outcome: Outcome = Outcome.VIOLATED) -> Row:
        said = {name: Judgement.VIOLATED if name in violated else Judgement.HOLDS for name in ("late", "orphan")}
        findings = tuple(Finding(name, judgement, "") for name, judgement in said.items())
        return Row("e", "control", 0, outcome, findings=findings)

    rows = [seen("late"), seen("late", "orphan"), seen("orphan", "late"), seen("late", outcome=Outcome.INVALID)]
    (experiment,) = summarise([*rows, seen("late"), seen(outcome=Outcome.HOLDS), seen("late")]).experiments
    assert experiment.violations["control"] == (Violations(("late",), 3), Violations(("late", "orphan"), 2))
    assert sum(each.trials for each in experiment.violations["control"]) == experiment.arms["control"].violated
    assert experiment.violations["treatment"] == ()
    assert experiment.to_json()["arms"]["control"]["violations"][1] == {"oracles": ["late", "orphan"], "trials": 2}
