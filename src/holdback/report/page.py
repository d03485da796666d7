"""The report as one HTML file that needs nothing else: no network, no other file, no server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jinja2
import plotly.offline
from markupsafe import Markup

from holdback.report.dose_curve import dose_curve
from holdback.report.evidence import Evidence
from holdback.report.figures import SECTIONS, Material
from holdback.report.packing import pack
from holdback.report.paths import Path
from holdback.report.plotting import Section
from holdback.report.reading import Told, read_histories
from holdback.report.terminal import dose_columns, dose_rows, interval_name, p_value_line, rate
from holdback.report.words import headline, moment, repeat_command, run_facts, skipped_lines, violations
from holdback.statistics import ExperimentSummary
from holdback.trials.outcome import Row
from holdback.wording import counted, noun

__all__ = ["ROOM", "page"]

ROOM = 5_000_000
"""Characters for swim lanes: with Plotly (2 million) and the table of trials the page stays below 10 MB."""


@dataclass(frozen=True, slots=True)
class _Experiment:
    """An experiment as the template sees it.

    `doses` is the curve, with `dose_rows` below its columns; the first of `paths` held, the second was violated.
    """

    summary: ExperimentSummary
    title: str
    p_value: str
    variants: Mapping[str, Sequence[str]]
    violations: Mapping[str, Sequence[str]]
    doses: Section | None
    dose_rows: Sequence[Sequence[str]]
    paths: tuple[Path, Path] | None
    sections: Sequence[Section]


def page(evidence: Evidence, *, progress: Callable[[int, int], None], room: int = ROOM) -> str:
    """The whole page.

    Args:
        evidence: the run.
        progress: told how many histories of how many were read.
        room: characters that the swim lanes may take; what does not fit is left out, and the page says so.
    """
    told = read_histories(evidence, room=room, progress=progress)
    parcels = list(told.parcels)
    run = evidence.run
    return _template().render(
        headline=headline(evidence.summary),
        skipped_lines=skipped_lines,
        summary=evidence.summary,
        interval=interval_name(evidence.summary),
        dose_columns=dose_columns(interval_name(evidence.summary)),
        evidence=evidence,
        experiments=[_experiment(each, evidence, told) for each in evidence.summary.experiments],
        told=told,
        parcels=parcels,
        groups=sorted(Counter((row.arm, row.outcome.value) for row in evidence.rows).items()),
        runs=[(run_facts(each), repeat_command(each)) for each in (run, *run.get("merged", ()))],
        plotly=_plotly(),
        plotly_version=plotly.__version__,
    )


@cache
def _plotly() -> str:
    """Plotly's script, packed."""
    return pack(plotly.offline.get_plotlyjs())


def _template() -> jinja2.Template:
    assets = files("holdback.report").joinpath("assets")

    def read(name: str) -> str:
        return assets.joinpath(name).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "counted": counted,
        "noun": noun,
        "rate": rate,
        "moment": moment,
        "short": _short,
        "dose": _dose,
        "json": _json,
    }
    environment.globals["asset"] = lambda name: Markup(read(name))  # noqa: S704  our own style and script
    return environment.get_template("page.html.j2")


def _experiment(summary: ExperimentSummary, evidence: Evidence, told: Told) -> _Experiment:
    rows = [row for row in evidence.rows if row.experiment == summary.name]
    material = Material(rows, told.timings[summary.name])
    response = summary.response
    return _Experiment(
        summary=summary,
        title=_title(summary.name),
        p_value=p_value_line(summary, evidence.summary).plain,
        variants={arm: _variants(rows, arm) for arm in summary.arms},
        violations={arm: violations(summary, arm) for arm in summary.arms},
        doses=dose_curve(response, adaptive=evidence.summary.sequential) if response else None,
        dose_rows=list(dose_rows(response)) if response else [],
        paths=told.paths.get(summary.name),
        sections=[section for make in SECTIONS if (section := make(material)) is not None],
    )


def _variants(rows: Sequence[Row], arm: str) -> list[str]:
    return list(dict.fromkeys(row.variant for row in rows if row.arm == arm and row.variant))


def _title(experiment: str) -> str:
    """The test's name as a sentence: tests are named by what must hold."""
    name = experiment.rpartition("::")[2].removeprefix("test_").replace("_", " ")
    return name[:1].upper() + name[1:]


def _dose(row: Row) -> str:
    """The dose that was asked for, else the longest delay that came into force; empty where there was neither."""
    dose = row.dose_milliseconds or None if row.dose is None else row.dose
    return "" if dose is None else f"{dose:g} ms"


def _short(reason: str, trial: str) -> str:
    """A reason without the trial's own long name, which every object has in its name."""
    return reason.replace(trial, "…")


def _json(text: str) -> Markup:
    """JSON inside a script element: a string in it must not be able to end the element."""
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704  nothing else in JSON is markup
