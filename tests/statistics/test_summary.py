import json

import pytest
from scipy import stats

from holdback.errors import EvidenceError
from holdback.statistics import Verdict, look_at, summarise
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
    """With `sequential` the p-value is the anytime-valid one, larger than the fixed one."""
    many = rows("hvvvvvvvvvvvvhh", "vhhhhhhhhhhhhhh")
    fixed, sequential = (summarise(many, sequential=each).experiments[0].p_value for each in (False, True))
    assert fixed is not None
    assert sequential is not None
    assert fixed < sequential <= 0.05
    assert look_at(many)["e"].better == sequential


def test_blocks_count_when_they_are_complete() -> None:
    """A late trial completes its block late: a decision reached before it stands."""
    late = rows("vvvvvv", "hhhhhh")
    first = late.pop(0)
    assert look_at(late)["e"].better == look_at([*late, first][:-1])["e"].better
    harmed = [
        *rows("vvvvv", "hhhhh"),
        Row("e", "control", 99, Outcome.HOLDS),
        Row("e", "treatment", 99, Outcome.VIOLATED),
    ]
    assert look_at(harmed)["e"].decided()
