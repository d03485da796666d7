import math

import pytest

from holdback.statistics import ALPHA, Verdict, summarise
from holdback.statistics.dose import Curve, Half, Response
from holdback.statistics.verdict import Arm
from holdback.statistics.words import chance, halves
from tests.statistics.rows import rows


@pytest.mark.parametrize(
    ("control", "treatment", "verdict", "said"),
    [
        ("v" * 10, "h" * 10, Verdict.FIXED, "0 of 10: the true rate is below 25.9% with 95% confidence"),
        ("v" * 10, "h" * 9 + "v", Verdict.REDUCED, "does not remove it"),
        ("vvhh", "vhvh", Verdict.NOT_FIXED, "still there"),
        ("hhhh", "hhhh", Verdict.NOT_REPRODUCED, "nothing can be said about the fix"),
        ("vhhhh", "hhhhh", Verdict.INCONCLUSIVE, "too little to tell"),
        ("vvii", "hhhh", Verdict.INCONCLUSIVE, "Of 4 control trials, 0 came out unknown and 2 invalid"),
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


@pytest.mark.parametrize(
    ("half", "said"),
    [
        (Half(20.04, 11.6, 32.2), "Half of the control trials fail at 20 ms (95%: 11.6 to 32.2 ms)."),
        (Half(20.04, 0, math.inf), "Half of the control trials fail at 20 ms (95%: below 10 to above 100 ms)."),
        (Half(1234.6, 1e3, 5e3), "Half of the control trials fail at 1230 ms (95%: 1000 to 5000 ms)."),
        (Half(0, 0, 12.3), "More than half of the control trials fail at 10 ms already, the lowest dose (95%: half of"),
        (Half(0, 0, math.inf), "More than half of the control trials fail at 10 ms already, the lowest dose."),
        (
            Half(math.inf, 60, math.inf),
            "Fewer than half of the control trials fail at 100 ms still, the highest dose (95",
        ),
        (Half(math.inf, 0, math.inf), "Fewer than half of the control trials fail at 100 ms still, the highest dose."),
    ],
)
def test_the_dose_for_half_is_told_as_far_as_it_is_known(half: Half, said: str) -> None:
    """Within the doses tried with its interval, beyond them only on which side; no number for what is open."""
    response = Response({dose: {"control": Arm(), "treatment": Arm()} for dose in (0, 10, 100)})
    vars(response)["curves"] = {"control": Curve((), (), (), (), half)}
    (sentence,) = halves(response)
    assert sentence.startswith(said)


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
