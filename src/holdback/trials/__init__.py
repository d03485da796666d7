"""Arms, the order of trials, and what is made of one."""

from holdback.trials.arms import ARMS, CONTROL, TREATMENT, experiment
from holdback.trials.outcome import Outcome, Row, read_rows
from holdback.trials.trial import Plan, Trial, World

__all__ = ["ARMS", "CONTROL", "TREATMENT", "Outcome", "Plan", "Row", "Trial", "World", "experiment", "read_rows"]
