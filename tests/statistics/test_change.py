import pytest
from scipy import stats

from holdback.statistics.change import change
from holdback.statistics.verdict import Arm


def test_the_p_value_is_fishers() -> None:
    """Two-sided, as scipy computes it, and as R. A. Fisher's tea lady has it: 8 cups, 3 of 4 right, p = 0.486."""
    assert change(Arm(violated=3, held=1), Arm(violated=1, held=3)).p_value == pytest.approx(0.4857, abs=1e-4)
    found = change(Arm(violated=0, held=200), Arm(violated=9, held=191))
    assert found.p_value == pytest.approx(stats.fisher_exact([[0, 200], [9, 191]]).pvalue)
    assert found.difference == pytest.approx(0.045)


def test_unknown_and_invalid_trials_do_not_count() -> None:
    """Only decided trials are compared; an arm without any cannot be."""
    assert change(Arm(violated=1, held=1, invalid=98), Arm(violated=1, held=1)).p_value == 1.0
    nothing = change(Arm(invalid=5), Arm(violated=5))
    assert nothing.p_value is None
    assert nothing.difference is None
