from itertools import product

import numpy as np
import pytest

from holdback.statistics.comparison import Table, exact_test
from holdback.statistics.power import needed_trials, power


@pytest.mark.parametrize(("control", "treatment"), [(0.6, 0.0), (0.9, 0.3)])
def test_power_is_the_chance_that_the_test_itself_succeeds(control: float, treatment: float) -> None:
    """Added up over every way in which 6 blocks can come out, the test reaches alpha just so often."""
    kinds = {
        (1, 0): control * (1 - treatment),
        (0, 1): treatment * (1 - control),
        (1, 1): control * treatment,
        (0, 0): (1 - control) * (1 - treatment),
    }
    reached = 0.0
    for blocks in product(kinds, repeat=6):
        if exact_test(Table(1, first, 1, second) for first, second in blocks) <= 0.05:
            reached += float(np.prod([kinds[block] for block in blocks]))
    assert power(6, control, treatment) == pytest.approx(reached, abs=1e-9)


def test_a_control_at_ten_percent_needs_78_trials() -> None:
    """The published example: with the control at 10%, 78 trials an arm give 90%, and 77 do not."""
    assert needed_trials(0.1) == 78
    assert power(78, 0.1) >= 0.9 > power(77, 0.1)


def test_a_certain_control_needs_five() -> None:
    """Five blocks are the fewest in which luck alone stays below 5%."""
    assert needed_trials(1.0) == 5


def test_no_number_of_trials_shows_what_is_not_there() -> None:
    """Where the treatment is no better, or the bug never shows, no count is promised."""
    assert needed_trials(0.1, 0.1) is None
    assert needed_trials(0.0) is None
    assert power(100, 0.0) == 0.0


def test_a_rare_bug_needs_many_and_the_answer_comes_quickly() -> None:
    """One in ten thousand: about 80,000 trials (the expected 8 failures), found without adding up all counts."""
    assert needed_trials(1e-4) == pytest.approx(79_930, rel=0.01)
