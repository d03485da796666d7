"""What the trials prove: pure functions from counts to intervals, p-values, verdicts and words."""

from holdback.statistics.summary import ExperimentSummary, RowLike, Summary, look_at, summarise
from holdback.statistics.verdict import ALPHA, Arm, Verdict, judge

__all__ = [
    "ALPHA",
    "Arm",
    "ExperimentSummary",
    "RowLike",
    "Summary",
    "Verdict",
    "judge",
    "look_at",
    "summarise",
]
