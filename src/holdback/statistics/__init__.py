"""What the trials prove: pure functions from counts to intervals, p-values, verdicts and words."""

from holdback.statistics.counting import RowLike
from holdback.statistics.search import next_dose
from holdback.statistics.stopping import certain
from holdback.statistics.summary import ExperimentSummary, Summary, summarise
from holdback.statistics.verdict import ALPHA, Arm, Verdict, judge

__all__ = [
    "ALPHA",
    "Arm",
    "ExperimentSummary",
    "RowLike",
    "Summary",
    "Verdict",
    "certain",
    "judge",
    "next_dose",
    "summarise",
]
