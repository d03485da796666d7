import pytest

from holdback.statistics.verdict import Arm, Verdict, judge


@pytest.mark.parametrize(
    ("control", "treatment", "p_value", "verdict"),
    [
        pytest.param(Arm(violated=9, held=1), Arm(held=10), 0.05, Verdict.FIXED, id="p just small enough"),
        pytest.param(Arm(violated=9, held=1), Arm(held=10), 0.0501, Verdict.INCONCLUSIVE, id="p just too large"),
        pytest.param(Arm(violated=9, held=1), Arm(violated=1, held=9), 0.05, Verdict.REDUCED, id="rarer"),
        pytest.param(Arm(violated=9, held=1), Arm(violated=1, held=9), 0.0501, Verdict.NOT_FIXED, id="still there"),
        pytest.param(Arm(held=10), Arm(held=10), 1.0, Verdict.NOT_REPRODUCED, id="never seen"),
        pytest.param(Arm(held=10), Arm(violated=1, held=9), 1.0, Verdict.NOT_FIXED, id="only with the fix"),
        pytest.param(Arm(violated=1), Arm(), 0.01, Verdict.INCONCLUSIVE, id="no treatment"),
        pytest.param(Arm(unknown=5), Arm(held=5), 0.01, Verdict.INCONCLUSIVE, id="no decided control"),
        pytest.param(Arm(violated=8, unknown=1, invalid=1), Arm(held=10), 0.01, Verdict.FIXED, id="20% unusable"),
        pytest.param(
            Arm(violated=79, unknown=11, invalid=10), Arm(held=10), 0.01, Verdict.INCONCLUSIVE, id="21% unusable"
        ),
        pytest.param(Arm(violated=8), Arm(held=7, invalid=3), 0.01, Verdict.INCONCLUSIVE, id="30% of the treatment"),
        pytest.param(
            Arm(held=7, invalid=3), Arm(held=10), 1.0, Verdict.INCONCLUSIVE, id="unusable before not reproduced"
        ),
    ],
)
def test_each_rule_at_its_border(control: Arm, treatment: Arm, p_value: float, verdict: Verdict) -> None:
    """The written rules decide, in their order."""
    assert judge(control, treatment, p_value) is verdict


def test_the_words_are_those_of_the_summary_file() -> None:
    """Verdicts are written as people read them."""
    assert sorted(Verdict) == ["FIXED", "INCONCLUSIVE", "NOT FIXED", "NOT REPRODUCED", "REDUCED"]
