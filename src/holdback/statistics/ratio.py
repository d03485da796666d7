"""How much more one arm takes than the other, from paired measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from holdback.statistics.interval import CONFIDENCE

__all__ = ["Ratio", "paired_ratio"]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Treatment over control: the geometric mean of the pairs, and its interval; 0 to infinity from a single pair."""

    estimate: float
    low: float
    high: float


def paired_ratio(pairs: Sequence[tuple[float, float]], confidence: float = CONFIDENCE) -> Ratio | None:
    """The ratio of pairs (control, treatment), each measured side by side; None without a pair of positive numbers.

    Student's interval for the mean of the logarithms: times and counts vary by factors rather than by differences,
    and pairing takes out what both arms of a round have in common.
    """
    logs = [math.log(treatment / control) for control, treatment in pairs if control > 0 and treatment > 0]
    if not logs:
        return None
    count, mean = len(logs), math.fsum(logs) / len(logs)
    if count == 1:
        return Ratio(math.exp(mean), 0.0, math.inf)
    variance = math.fsum((each - mean) ** 2 for each in logs) / (count - 1)
    reach = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * math.sqrt(variance / count)
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))
