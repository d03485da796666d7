"""`holdback show`: one trial, told from its evidence."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from holdback.errors import EvidenceError
from holdback.history.history import History
from holdback.history.store import Damage, Store
from holdback.oracles.judgement import Judgement
from holdback.report.kueue import DESCRIBERS
from holdback.report.timeline import Entry, Tone, timeline
from holdback.trials.outcome import Outcome, Row, read_rows

__all__ = ["find_trial", "print_trial"]

_STYLES: dict[Tone, str] = {
    "step": "bold",
    "fault": "magenta",
    "truth": "",
    "shadow": "dim",
    "request": "dim",
    "refused": "red",
    "note": "yellow",
}
_OUTCOMES = {Outcome.HOLDS: "green", Outcome.VIOLATED: "bold red", Outcome.UNKNOWN: "yellow", Outcome.INVALID: "yellow"}
_MANY = 10
"""Trials that are named when one was not found."""


@dataclass(frozen=True, slots=True)
class _Evidence:
    """All that is stored of one trial."""

    id: str
    row: Row | None
    history: History
    damages: tuple[Damage, ...]


def print_trial(store: Store, name: str, console: Console, *, shadow: bool = False, requests: bool = False) -> None:
    """Print a trial's outcome, findings and timeline; `name` is its id or a part of it.

    Raises:
        EvidenceError: there is no such trial, more than one, or its history cannot be read.
    """
    evidence = _evidence(store, name)
    entries = timeline(evidence.history, DESCRIBERS, shadow=shadow, requests=requests)
    console.print(_head(evidence))
    console.print(_table(entries, _cited(evidence.row)))
    for damage in evidence.damages:
        console.print(Text(f"A damaged line was skipped: {damage}", style="yellow"))


def find_trial(ids: Sequence[str], name: str) -> str:
    """The one id that is `name`, begins or ends with it, or has it somewhere, in this order of preference.

    Raises:
        EvidenceError: none or several; the message names those that come near.
    """
    found: list[str] = []
    for fits in (str.__eq__, str.startswith, str.endswith, str.__contains__):
        found = [each for each in ids if fits(each, name)]
        if len(found) == 1:
            return found[0]
    if found:
        raise EvidenceError(f"{len(found)} trials have {name!r}", remedy=f"give more of one of {_some(found)}")
    if not ids:
        raise EvidenceError("the report holds no trial", remedy="run an experiment, or name its report with --report")
    near = difflib.get_close_matches(name, ids, n=_MANY, cutoff=0.4) or ids
    raise EvidenceError(f"no trial has {name!r}", remedy=f"there are {_some(near)}")


def _evidence(store: Store, name: str) -> _Evidence:
    rows, damages = read_rows(store)
    of = {row.id: row for row in rows}
    planned, more = store.planned()
    ids = list(dict.fromkeys([*of, *(str(plan.get("id")) for _, plan in planned)]))
    if not ids:
        raise EvidenceError(
            f"there is no trial in {store.directory}", remedy="run an experiment, or name its report with --report"
        )
    found = find_trial(ids, name)
    row = of.get(found)
    if not store.history_path(found).exists():
        raise EvidenceError(
            f"trial {found} left no history: {row.reason if row else 'it was interrupted'}",
            remedy="look at another trial; those in trials.jsonl with a variant have one",
        )
    history, torn = store.history(found)
    return _Evidence(found, row, history, (*damages, *more, *torn))


def _some(ids: Sequence[str]) -> str:
    rest = len(ids) - _MANY
    return ", ".join(ids[:_MANY]) + (f" and {rest} more" if rest > 0 else "")


def _cited(row: Row | None) -> frozenset[int]:
    """The events by which oracles show what is wrong; without such, those by which one says that it cannot decide."""
    findings = row.findings if row else ()
    for judgement in (Judgement.VIOLATED, Judgement.UNKNOWN):
        if events := frozenset(event for each in findings if each.judgement is judgement for event in each.events):
            return events
    return frozenset()


def _head(evidence: _Evidence) -> RenderableType:
    row = evidence.row
    if row is None:
        return Text(f"Trial {evidence.id}: interrupted, not judged\n")
    started = datetime.fromtimestamp(row.started, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    lines = [
        Text.assemble(f"Trial {row.id}: ", (row.outcome.value.upper(), _OUTCOMES[row.outcome])),
        Text(f"{row.experiment}, {row.arm}" + (f" ({row.variant})" if row.variant else "")),
        Text(f"{started}, {row.seconds:.1f} s, seed {row.seed}, faults: {', '.join(row.faults) or 'none'}"),
        *(Text(f"{each.oracle}: {each.judgement.value}: {each.reason}") for each in row.findings),
    ]
    if row.error:
        lines.append(Text(row.error, style="yellow"))
    return Group(*lines, Text())


def _table(entries: Sequence[Entry], cited: frozenset[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("lane", no_wrap=True)
    table.add_column("what", overflow="fold")
    for entry in entries:
        mark = "*" if cited.intersection(entry.events) else ""
        table.add_row(f"{entry.seconds:.3f}", mark, entry.lane, Text(entry.text), style=_STYLES[entry.tone])
    if cited:
        table.caption, table.caption_justify = "* shows what an oracle found", "left"
    return table
