"""The summary as Markdown, short enough for a comment on a pull request and fit for `GITHUB_STEP_SUMMARY`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdback.report.evidence import Evidence
from holdback.report.terminal import dose_columns, dose_rows, interval_name, p_value_line, rate
from holdback.report.words import headline, run_facts, skipped_lines, violated_by
from holdback.statistics import ExperimentSummary, Verdict
from holdback.statistics.dose import Response
from holdback.statistics.verdict import Arm
from holdback.statistics.words import halves
from holdback.trials.arms import TREATMENT
from holdback.trials.outcome import Outcome, Row
from holdback.wording import counted

__all__ = ["markdown"]

_MARKS = {Verdict.FIXED: "✅", Verdict.NOT_FIXED: "❌"}
_MOST_TRIALS = 10
"""Trials listed by name; the rest is counted. A comment on GitHub may have 65,536 characters."""
_LONGEST = 300
"""Characters of a reason that are shown."""


def markdown(evidence: Evidence) -> str:
    """The whole text."""
    return "\n".join(_lines(evidence)) + "\n"


def _lines(evidence: Evidence) -> Iterator[str]:
    summary = evidence.summary
    yield f"### holdback: {headline(summary)}"
    yield ""
    if summary.interrupted:
        yield from ("**Interrupted:** this counts only the trials made so far.", "")
    if missing := evidence.run.get("missing"):
        yield from ("**Missing:**", "")
        yield from _listed([_text(str(each)) for each in missing])
    if evidence.damages:
        yield from (f"**{skipped_lines(len(evidence.damages))}:**", "")
        yield from _listed([_code(str(damage)) for damage in evidence.damages])
    for experiment in summary.experiments:
        rows = [row for row in evidence.rows if row.experiment == experiment.name]
        yield from _experiment(experiment, rows, interval_name(summary))
        yield from (_text(p_value_line(experiment, summary).plain), "")
    for run in (evidence.run, *evidence.run.get("merged", ())):
        yield from _run(run)


def _experiment(experiment: ExperimentSummary, rows: Sequence[Row], interval: str) -> Iterator[str]:
    verdict = experiment.verdict
    yield from (f"{_MARKS.get(verdict, '⚠️')} **{verdict.value}** {_code(experiment.name)}", "")
    yield f"| arm | violated | held | unknown | invalid | rate | {interval} |"
    yield "| :-- | --: | --: | --: | --: | --: | --: |"
    for name, arm in experiment.arms.items():
        yield f"| {_text(name)} | {arm.violated} | {arm.held} | {arm.unknown} | {arm.invalid} | {_rate(arm)} |"
    yield ""
    for name in experiment.arms:
        if kinds := violated_by(experiment, name):
            yield from (f"{_text(name)} violated: {_text(kinds)}", "")
    if experiment.response is not None:
        yield from _doses(experiment.response, interval)
    yield _text(" ".join([experiment.words, *experiment.next]))
    yield ""
    if troubles := [row for row in rows if _is_trouble(row)]:
        yield f"<details><summary>{counted(len(troubles), 'trial')} to look at</summary>"
        yield ""
        yield from _listed([_trial(row) for row in troubles])
        yield "</details>"
        yield ""


def _doses(response: Response, interval: str) -> Iterator[str]:
    columns = dose_columns(interval)
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --: |' * len(columns)}"
    yield from (f"| {' | '.join(row)} |" for row in dose_rows(response))
    yield ""
    yield _text(" ".join(halves(response)))
    yield ""


def _is_trouble(row: Row) -> bool:
    return row.outcome in {Outcome.UNKNOWN, Outcome.INVALID} or (
        row.arm == TREATMENT and row.outcome is Outcome.VIOLATED
    )


def _trial(row: Row) -> str:
    return f"{_code(row.id)} {row.outcome.value}: {_code(_short(row.reason))}"


def _listed(items: Sequence[str]) -> Iterator[str]:
    yield from (f"- {item}" for item in items[:_MOST_TRIALS])
    if more := len(items) - _MOST_TRIALS:
        yield from [f"- and {more} more"] if more > 0 else []
    yield ""


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    if facts := run_facts(run):
        yield "<details><summary>What ran</summary>"
        yield ""
        yield from (f"- {_text(name)}: {_code(_short(value))}" for name, value in facts)
        yield from ("", "</details>", "")


def _rate(arm: Arm) -> str:
    return "- | -" if arm.rate is None else f"{rate(arm.rate)} | {rate(arm.low)} to {rate(arm.high)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _code(text: str) -> str:
    """As code: nothing in it is markup, mentions somebody or links to an issue."""
    line = " ".join(text.split()).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}"


def _text(text: str) -> str:
    """As plain text."""
    return re.sub(r"([\\`*_{}\[\]<>|@#~])", r"\\\1", " ".join(text.split()))
