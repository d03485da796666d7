from itertools import product

import pytest
from scipy import stats

from holdback.statistics.comparison import Table, exact_test


def pairs(helped: int, harmed: int, both: int = 0, neither: int = 0) -> list[Table]:
    """Blocks of one trial of each arm."""
    return (
        [Table(1, 1, 1, 0)] * helped
        + [Table(1, 0, 1, 1)] * harmed
        + [Table(1, 1, 1, 1)] * both
        + [Table(1, 0, 1, 0)] * neither
    )


@pytest.mark.parametrize("table", [Table(20, 20, 20, 0), Table(8, 5, 9, 2), Table(10, 3, 10, 5), Table(3, 3, 3, 0)])
def test_one_block_is_fishers_test(table: Table) -> None:
    """With everything in one block the p-value is scipy's one-sided Fisher test."""
    counts = [
        [table.control_violated, table.control - table.control_violated],
        [table.treatment_violated, table.treatment - table.treatment_violated],
    ]
    assert exact_test([table]) == pytest.approx(stats.fisher_exact(counts, alternative="greater").pvalue)


@pytest.mark.parametrize(("helped", "harmed"), [(5, 0), (4, 0), (9, 2), (2, 9), (198, 0)])
def test_pairs_are_a_sign_test(helped: int, harmed: int) -> None:
    """With one trial of each arm in a block only the disagreeing blocks count, as fair coins (McNemar)."""
    expected = stats.binomtest(helped, helped + harmed, 0.5, alternative="greater").pvalue
    assert exact_test(pairs(helped, harmed, both=7, neither=30)) == pytest.approx(expected, rel=1e-9)


def test_it_counts_every_permutation_within_blocks() -> None:
    """The p-value is the share of the arrangements, block by block, with as much violated control or more."""
    blocks = [Table(2, 2, 1, 0), Table(1, 1, 1, 0), Table(1, 0, 2, 1)]
    observed = sum(block.control_violated for block in blocks)
    arrangements = []
    for block in blocks:
        violated, size = block.control_violated + block.treatment_violated, block.control + block.treatment
        trials = [1] * violated + [0] * (size - violated)
        arrangements.append([sum(order[: block.control]) for order in _orders(trials)])
    sums = [sum(combination) for combination in product(*arrangements)]
    assert exact_test(blocks) == pytest.approx(sum(each >= observed for each in sums) / len(sums))


def _orders(trials: list[int]) -> list[tuple[int, ...]]:
    from itertools import permutations

    return list(permutations(trials))


def test_no_information_proves_nothing() -> None:
    """Without blocks, or where the arms always agree, the p-value is 1."""
    assert exact_test([]) == exact_test(pairs(0, 0, both=10, neither=10)) == 1.0


def test_shared_noise_does_not_fool_it() -> None:
    """Where only the moment decides whether a trial fails, Fisher over all trials is wrong and this test is not.

    Each block has noise of its own (all of it fails, or none) and 9 control trials share 1 block with the
    treatment: shuffling across the blocks sees a difference, shuffling inside them does not.
    """
    blocks = [Table(9, 9, 1, 1), Table(1, 0, 9, 0)]
    everything = Table(10, 9, 10, 1)
    assert exact_test([everything]) < 0.01
    assert exact_test(blocks) == 1.0
