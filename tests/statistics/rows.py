"""Rows as the statistics see them."""

from __future__ import annotations

from dataclasses import dataclass

from holdback.oracles import Finding
from holdback.trials.outcome import Outcome

OUTCOMES = {outcome.value[0]: outcome for outcome in Outcome}


@dataclass(frozen=True, slots=True)
class Row:
    experiment: str
    arm: str
    block: int
    outcome: Outcome
    dose: int | None = None
    findings: tuple[Finding, ...] = ()


def rows(control: str, treatment: str, experiment: str = "e") -> list[Row]:
    """Block i holds the i-th letter of each word: v(iolated), h(eld), u(nknown), i(nvalid)."""
    made = []
    for arm, word in (("control", control), ("treatment", treatment)):
        made += [Row(experiment, arm, block, OUTCOMES[letter]) for block, letter in enumerate(word)]
    return sorted(made, key=lambda row: row.block)
