"""docs/schema.md describes what is really written; tests/plugin/test_session.py compares the run.json of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdback.controllers.kueue.variant import Release, Variant
from holdback.history import store
from holdback.history.events import FaultChange, Note, ObjectChange, Request, Step, encode
from holdback.history.exposure import Exposure
from holdback.oracles import Finding
from holdback.report.evidence import load
from holdback.trials import outcome
from holdback.trials.outcome import Row
from holdback.trials.trial import Plan
from tests.report.sample import report
from tests.schema import TEXT, documented


def names(of: Any) -> list[str]:
    return [field.name for field in fields(of)]


@pytest.mark.parametrize(
    ("heading", "cls"),
    [
        ("A finding", Finding),
        ("An exposure", Exposure),
        ("`kind` = `step`", Step),
        ("`kind` = `fault`", FaultChange),
        ("`kind` = `object`", ObjectChange),
        ("`kind` = `request`", Request),
        ("`kind` = `note`", Note),
    ],
)
def test_every_field_is_documented_in_order(heading: str, cls: Any) -> None:
    """Neither a field nor a line of the document is missing."""
    assert documented(heading) == names(cls)


def test_every_field_of_a_row_is_documented() -> None:
    """The table of a row is that of the dataclass."""
    assert sorted(documented("A line of `trials.jsonl`")) == sorted(names(Row))
    assert documented("A line of `planned.jsonl`") == [*names(Plan), "started"]


def test_every_field_of_a_variant_is_documented() -> None:
    """The table of a variant is what `run.json` has of it."""
    assert documented("A variant in `run.json`") == list(Variant("control", Release("v0.17.0")).to_json())


def test_the_versions_are_those_that_are_written() -> None:
    """A new version needs a word in the document."""
    assert f"Schema of `trials.jsonl`: {outcome.SCHEMA} " in TEXT
    assert f"Schema of `run.json` and `histories/`: {store.SCHEMA}\n" in TEXT


def test_files_have_the_documented_fields(tmp_path: Path) -> None:
    """Lines as they are written: plan, row, a history's first line, the summary."""
    made = report(tmp_path, "v", "h")
    made.summarise(load(tmp_path).summary.to_json())
    plan, row = (json.loads(path.read_text().splitlines()[0]) for path in (made.planned_path, made.trials_path))
    history = [json.loads(line) for line in next(made.histories.iterdir()).read_text().splitlines()]
    summary = json.loads(made.summary_path.read_text())
    same(plan, documented("A line of `planned.jsonl`"))
    same(row, documented("A line of `trials.jsonl`"))
    same(row["findings"][0], documented("A finding"))
    same(history[0], documented("The first line of a history"))
    same(summary, documented("`summary.json`"))
    same(summary["experiments"][0], documented("An experiment in `summary.json`"))
    for event in history[1:]:
        same(event, ["kind", *documented(f"`kind` = `{event['kind']}`")])


def same(found: Iterable[str], told: Iterable[str]) -> None:
    assert sorted(found) == sorted(told)


def test_the_kinds_are_the_events() -> None:
    """Each kind of event has its own heading under the word that is written."""
    written = {
        str(encode(event)["kind"]) for event in (Step(0, "x"), FaultChange(0, "x", "started"), Note(0, "x", "x"))
    }
    written |= {ObjectChange.kind, Request.kind}
    assert written == set(re.findall(r"^## `kind` = `(\w+)`$", TEXT, re.MULTILINE))
