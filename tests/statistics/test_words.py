import pytest

from holdback.statistics import ALPHA, Verdict, summarise
from holdback.statistics.words import chance
from tests.statistics.rows import rows


@pytest.mark.parametrize(
    ("control", "treatment", "verdict", "said"),
    [
        ("v" * 10, "h" * 10, Verdict.FIXED, "0 of 10: the true rate is below 25.9% with 95% confidence"),
        ("v" * 10, "h" * 9 + "v", Verdict.REDUCED, "does not remove it"),
        ("vvhh", "vhvh", Verdict.NOT_FIXED, "still there"),
        ("hhhh", "hhhh", Verdict.NOT_REPRODUCED, "nothing can be said about the fix"),
        ("vhhhh", "hhhhh", Verdict.INCONCLUSIVE, "too little to tell"),
        ("vvii", "hhhh", Verdict.INCONCLUSIVE, "Of 4 control trials 0 are unknown and 2 invalid"),
        ("uuuu", "hhhh", Verdict.INCONCLUSIVE, "control has no trial that could be decided"),
    ],
)
def test_each_verdict_is_explained(control: str, treatment: str, verdict: Verdict, said: str) -> None:
    """A verdict comes with the reason for it, and all but FIXED with a next step."""
    (experiment,) = summarise(rows(control, treatment)).experiments
    assert experiment.verdict is verdict
    assert said in experiment.words
    assert bool(experiment.next) == (verdict is not Verdict.FIXED)


def test_the_missing_trials_are_named() -> None:
    """One of five violated: at that rate 38 trials an arm give 90%, so 33 more are asked for."""
    (experiment,) = summarise(rows("vhhhh", "hhhhh")).experiments
    assert "33 more trials an arm (--count=38)" in experiment.next[0]


def test_chances_are_readable() -> None:
    """Ordinary p-values keep two digits, tiny ones become a power of ten that they stay below."""
    assert [chance(p) for p in (1.0, ALPHA, 0.031, 0.00097, 2.5e-60, 0.0)] == [
        "1",
        "0.05",
        "0.031",
        "less than 1e-3",
        "less than 1e-59",
        "less than 1e-300",
    ]
