import pytest

from holdback.statistics.correction import holm


def test_the_textbook_example() -> None:
    """Four p-values become four, three, two and one times themselves in rising order, never falling."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_one_experiment_is_left_alone() -> None:
    """A single p-value needs no correction, and none stay none."""
    assert holm([0.04]) == (0.04,)
    assert holm([]) == ()


def test_never_above_one() -> None:
    """An adjusted p-value is still a probability."""
    assert holm([0.6, 0.9]) == (1.0, 1.0)
