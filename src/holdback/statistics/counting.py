"""What is counted of an experiment's trials, by arm and by block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdback.errors import EvidenceError
from holdback.oracles.judgement import Finding, Judgement
from holdback.statistics.comparison import Table, exact_test
from holdback.statistics.sequential import Look, look
from holdback.statistics.verdict import Arm
from holdback.trials.arms import ARMS
from holdback.trials.outcome import Outcome

__all__ = ["OUTCOMES", "Counts", "RowLike", "Violations", "by_experiment"]

OUTCOMES = ("violated", "held", "unknown", "invalid")
_COUNTED_AS = {
    Outcome.VIOLATED: "violated",
    Outcome.HOLDS: "held",
    Outcome.UNKNOWN: "unknown",
    Outcome.INVALID: "invalid",
}


class RowLike(Protocol):
    """What the statistics need to know of a trial (`holdback.trials.outcome.Row` has it)."""

    @property
    def experiment(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def block(self) -> Hashable:
        """Equal for the trials that were scheduled side by side, in random order."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def dose(self) -> int | None: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


@dataclass(frozen=True, slots=True)
class Violations:
    """So many violated trials of an arm were violated by just these oracles."""

    oracles: tuple[str, ...]
    trials: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"oracles": list(self.oracles), "trials": self.trials}


def _nothing_yet() -> dict[str, Counter[str]]:
    return {arm: Counter() for arm in ARMS}


@dataclass(slots=True)
class Counts:
    """What is counted of one experiment while its rows go by.

    `anytime`: how many trials there are may depend on what was seen, so its figures have to allow it.
    """

    anytime: bool = False
    arms: dict[str, Counter[str]] = field(default_factory=_nothing_yet)
    blocks: dict[Hashable, dict[str, Counter[str]]] = field(default_factory=dict)
    violated_by: dict[str, Counter[tuple[str, ...]]] = field(default_factory=lambda: {arm: Counter() for arm in ARMS})
    doses: dict[int, dict[str, Counter[str]]] = field(default_factory=dict)

    def add(self, row: RowLike) -> None:
        """Count a trial.

        Raises:
            EvidenceError: its arm does not exist.
        """
        outcome = _COUNTED_AS[row.outcome]
        if row.arm not in self.arms:
            raise EvidenceError(
                f"a trial of {row.experiment} has arm {row.arm!r}", remedy=f"arms are {', '.join(ARMS)}"
            )
        self.arms[row.arm][outcome] += 1
        if row.outcome is Outcome.VIOLATED:
            self.violated_by[row.arm][_violated(row.findings)] += 1
        if row.dose is not None:
            self.doses.setdefault(row.dose, _nothing_yet())[row.arm][outcome] += 1
        if outcome in ("violated", "held"):
            block = self.blocks.pop(row.block, None) or _nothing_yet()
            block[row.arm][outcome] += 1
            self.blocks[row.block] = block  # at the end: blocks stand in the order of their completion

    def arm(self, name: str) -> Arm:
        """How the trials of an arm came out."""
        return self._arm(self.arms[name])

    def cells(self) -> dict[float, dict[str, Arm]]:
        """Likewise at each dose that was asked for, rising."""
        return {
            dose: {name: self._arm(counted) for name, counted in arms.items()}
            for dose, arms in sorted(self.doses.items())
        }

    def violations(self, name: str) -> tuple[Violations, ...]:
        """What the violated trials of an arm were violated by, the most frequent first."""
        return tuple(Violations(oracles, trials) for oracles, trials in self.violated_by[name].most_common())

    def _arm(self, counted: Counter[str]) -> Arm:
        return Arm(**{outcome: counted[outcome] for outcome in OUTCOMES}, anytime=self.anytime)

    def tables(self) -> list[Table]:
        """The blocks in which both arms were decided; the others cannot tell the arms apart."""
        tables = (
            Table(
                control=block["control"].total(),
                control_violated=block["control"]["violated"],
                treatment=block["treatment"].total(),
                treatment_violated=block["treatment"]["violated"],
            )
            for block in self.blocks.values()
        )
        return [table for table in tables if table.control and table.treatment]

    def sequence(self) -> tuple[list[bool], list[bool]]:
        """Whether the control, and the treatment, was violated in each completed block."""
        tables = self.tables()
        return [table.control_violated > 0 for table in tables], [table.treatment_violated > 0 for table in tables]

    def look(self) -> Look:
        """What the completed blocks say, however often one looks."""
        return look(*self.sequence())

    def p_value(self) -> float | None:
        """Against "the arms do not differ"; None where an arm has no decided trial."""
        if not all(self.arm(name).decided for name in ARMS):
            return None
        return self.look().better if self.anytime else exact_test(self.tables())


def _violated(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(sorted({each.oracle for each in findings if each.judgement is Judgement.VIOLATED}))


def by_experiment(rows: Iterable[RowLike], *, anytime: bool = False) -> dict[str, Counts]:
    """The counts of each experiment, in the order of their first row.

    Raises:
        EvidenceError: a row names an arm that does not exist.
    """
    counts: dict[str, Counts] = {}
    for row in rows:
        counts.setdefault(row.experiment, Counts(anytime)).add(row)
    return counts
