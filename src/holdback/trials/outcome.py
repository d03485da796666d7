"""A trial's outcome, and the one row that is kept of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from types import UnionType
from typing import Any, get_type_hints

from holdback.errors import EvidenceError
from holdback.history.exposure import Exposure
from holdback.history.history import History
from holdback.history.store import Damage, Store
from holdback.oracles.judgement import Finding, Judgement

__all__ = ["SCHEMA", "UNDECIDABLE", "Outcome", "Row", "conclude", "likeness", "read_rows"]

SCHEMA = 3
"""Version of the row's format; a reader refuses rows of a newer one. 2 added `reactions` and `exposure`, 3 `dose`."""


UNDECIDABLE = "undecidable"
"""Source of a note that leaves the trial UNKNOWN unless an oracle saw a violation."""


class Outcome(StrEnum):
    """What became of a trial."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"
    """No oracle could decide."""
    INVALID = "invalid"
    """It says nothing about the controller: a fault did not fire, or the infrastructure failed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One trial, as `trials.jsonl` has it.

    `experiment` is the test's node id without arm and repetition, `variant` describes what the arm ran, `index`
    numbers the arm's trials from 0, `block` pairs trials of both arms, `started` is wall time, `faults` are those
    that came into force, `dose_milliseconds` is the largest delay among them, `error` the infrastructure's own words.
    `dose` is what took the place of the scenario's own delays, in milliseconds; None where nothing did.
    `reactions` are the seconds from a trigger's event to its fault in force; `exposure` tells how far behind the truth
    the controllers wrote, None where the world keeps no shadows.
    """

    id: str
    experiment: str
    arm: str
    variant: str
    index: int
    block: int
    seed: int
    started: float
    seconds: float
    outcome: Outcome
    reason: str
    dose: int | None = None
    findings: tuple[Finding, ...] = ()
    faults: tuple[str, ...] = ()
    dose_milliseconds: float = 0.0
    reactions: tuple[float, ...] = ()
    exposure: Exposure | None = None
    error: str = ""
    schema: int = SCHEMA

    def to_json(self) -> dict[str, Any]:
        """The row as plain data, every field of it."""
        data: dict[str, Any] = {
            "schema": self.schema,
            "id": self.id,
            "experiment": self.experiment,
            "arm": self.arm,
            "variant": self.variant,
            "index": self.index,
            "block": self.block,
            "seed": self.seed,
            "started": self.started,
            "seconds": self.seconds,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "dose": self.dose,
            "findings": [
                {"oracle": f.oracle, "judgement": f.judgement.value, "reason": f.reason, "events": list(f.events)}
                for f in self.findings
            ],
            "faults": list(self.faults),
            "dose_milliseconds": self.dose_milliseconds,
            "reactions": list(self.reactions),
            "exposure": self.exposure and self.exposure.to_json(),
            "error": self.error,
        }
        forgotten = {f.name for f in fields(self)} ^ data.keys()
        assert not forgotten, f"to_json and the fields differ in {sorted(forgotten)}"
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """The row that `to_json` wrote, by this holdback or an older one; its schema is then this one's.

        Raises:
            EvidenceError: fields are missing, unknown or of a newer schema.
        """
        schema = data.get("schema")
        if not isinstance(schema, int) or not 1 <= schema <= SCHEMA:
            raise EvidenceError(
                f"a row has schema {schema!r}, this holdback reads 1 to {SCHEMA}",
                remedy="read it with the holdback that wrote it (run.json names its version)",
            )
        rest = {**data, "schema": SCHEMA}
        try:
            _check_kinds(rest)
            findings = tuple(
                Finding(f["oracle"], Judgement(f["judgement"]), f["reason"], tuple(f["events"]))
                for f in rest.pop("findings")
            )
            outcome = Outcome(rest.pop("outcome"))
            faults, reactions = tuple(rest.pop("faults")), tuple(rest.pop("reactions", ()))
            exposed = Exposure(**found) if (found := rest.pop("exposure", None)) else None
            return cls(outcome=outcome, findings=findings, faults=faults, reactions=reactions, exposure=exposed, **rest)
        except (KeyError, TypeError, ValueError) as error:
            raise EvidenceError(
                f"a row lacks or mistakes a field: {error}",
                remedy="it was damaged, or written by something else than holdback: docs/schema.md tells its fields",
            ) from error


_PLAIN: Mapping[Any, type | UnionType] = {str: str, int: int, float: int | float, int | None: int | None}
_KINDS = {name: _PLAIN[hint] for name, hint in get_type_hints(Row).items() if hint in _PLAIN}
"""What a row's plain fields are: everything that reads rows sorts, adds and names by them."""


def _check_kinds(data: Mapping[str, Any]) -> None:
    for name, kind in _KINDS.items():
        if name in data and (isinstance(data[name], bool) or not isinstance(data[name], kind)):
            raise TypeError(f"{name} is {data[name]!r}")


def conclude(history: History, findings: Sequence[Finding]) -> tuple[Outcome, str]:
    """The outcome and its reason: a fatal note beats any finding, a violation beats an open question."""
    notes = [note for _, note in history.notes()]
    # The world is asked last and explains most: that a process died, rather than what then did not happen.
    fatal = [note for note in notes if note.fatal]
    if fatal := sorted(fatal, key=lambda note: (note.source != "world", note.source == "scenario")):
        return Outcome.INVALID, f"{fatal[0].source}: {fatal[0].text}"
    if violations := _reasons(findings, Judgement.VIOLATED):
        return Outcome.VIOLATED, violations
    if open_questions := [note.text for note in notes if note.source == UNDECIDABLE]:
        return Outcome.UNKNOWN, open_questions[0]
    if unknown := _reasons(findings, Judgement.UNKNOWN):
        return Outcome.UNKNOWN, unknown
    return Outcome.HOLDS, _reasons(findings, Judgement.HOLDS)


def _reasons(findings: Sequence[Finding], judgement: Judgement) -> str:
    return "; ".join(f"{finding.oracle}: {finding.reason}" for finding in findings if finding.judgement is judgement)


def likeness(reason: str) -> str:
    """A reason without the names, numbers and times that differ from trial to trial."""
    return re.sub(r"\w*\d[\w.]*", "#", reason.partition("\n")[0])


def read_rows(store: Store) -> tuple[tuple[Row, ...], tuple[Damage, ...]]:
    """Every judged trial that the report holds, in the order of their judging, and the lines that could not be read."""
    lines, damages = store.trials()
    rows: list[Row] = []
    for number, data in lines:
        try:
            rows.append(Row.from_json(data))
        except EvidenceError as error:
            damages.append(Damage(store.trials_path, number, error.message))
    return tuple(rows), tuple(damages)
