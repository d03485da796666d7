"""The figures about all trials of an experiment, as Plotly figures; the page's script adds the reader's colours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go

from holdback.report.timings import Timing
from holdback.statistics.dose import Curve, Response
from holdback.statistics.verdict import Arm
from holdback.statistics.words import halves
from holdback.trials.arms import ARMS
from holdback.trials.outcome import Outcome, Row
from holdback.wording import counted

__all__ = ["SECTIONS", "Material", "Section", "SectionOf", "dose_response", "durations", "exposures", "reactions"]

_COLOURS = {"control": "#d97706", "treatment": "#3b82f6"}
"""Readable on light and on dark ground, and apart for colour-blind readers."""
_FAINT = {"control": "rgba(217,119,6,0.16)", "treatment": "rgba(59,130,246,0.16)"}
"""The same, for areas that others shine through."""


@dataclass(frozen=True, slots=True)
class Material:
    """What is known of one experiment: its rows, and how long its trials took.

    `adaptive`: what was made later depends on what was seen before.
    """

    rows: Sequence[Row]
    timings: Sequence[Timing]
    adaptive: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A figure with a heading, and a sentence that says how to read it. `figure` is Plotly's JSON."""

    title: str
    words: str
    figure: str


SectionOf = Callable[[Material], Section | None]
"""Makes a section of an experiment; None when its trials have nothing to show there."""


def dose_response(material: Material) -> Section | None:
    """The rate of violated trials at each dose and the curve through it; only where there was more than one dose."""
    response = Response(_cells(material))
    if len(response.cells) < 2:
        return None
    figure = go.Figure(layout=_layout(height=400))
    for arm, curve in response.curves.items():
        _add_curve(figure, arm, curve)
    for arm in ARMS:
        _add_points(figure, arm, {dose: arms[arm] for dose, arms in response.cells.items()})
    figure.update_xaxes(title="dose: milliseconds of delay", rangemode="tozero")
    figure.update_yaxes(title="violated", tickformat=".0%", range=[-0.03, 1.03])
    kind = "the 95% interval that holds at every look" if material.adaptive else "the exact 95% interval"
    words = (
        f"Share of decided trials that were violated, with {kind} of the true rate at each dose, and the fitted curve: "
        "the whole true curve lies in the band with 95% confidence."
    )
    return Section("Dose and response", " ".join([words, *halves(response)]), figure.to_json())


def _cells(material: Material) -> dict[float, dict[str, Arm]]:
    """By the dose that was asked for, else by the largest delay that came into force."""
    rows: dict[float, dict[str, list[Row]]] = defaultdict(lambda: {arm: [] for arm in ARMS})
    for row in material.rows:
        rows[row.dose_milliseconds if row.dose is None else row.dose][row.arm].append(row)
    return {
        dose: {arm: _count(found, anytime=material.adaptive) for arm, found in arms.items()}
        for dose, arms in sorted(rows.items())
    }


def _add_curve(figure: go.Figure, arm: str, curve: Curve) -> None:
    """The fitted curve, and its band as one outline: along the lower edge, and back along the upper one."""
    figure.add_scatter(
        name=f"{arm}, band",
        x=[*curve.doses, *reversed(curve.doses)],
        y=[*curve.lows, *reversed(curve.highs)],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=_FAINT[arm],
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        name=f"{arm}, fitted",
        x=list(curve.doses),
        y=list(curve.rates),
        mode="lines",
        line={"color": _COLOURS[arm], "width": 2},
        hovertemplate="%{x:.3g} ms: %{y:.1%} fitted<extra>" + arm + "</extra>",
        showlegend=False,
    )


def _add_points(figure: go.Figure, arm: str, cells: Mapping[float, Arm]) -> None:
    points = [(dose, counts, counts.rate) for dose, counts in cells.items() if counts.rate is not None]
    figure.add_scatter(
        name=arm,
        x=[dose for dose, _, _ in points],
        y=[rate for _, _, rate in points],
        mode="markers",
        marker={"size": 9, "symbol": "circle" if arm == "control" else "diamond", "color": _COLOURS[arm]},
        cliponaxis=False,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [counts.high - rate for _, counts, rate in points],
            "arrayminus": [rate - counts.low for _, counts, rate in points],
            "thickness": 1.2,
            "width": 4,
        },
        text=[f"{counts.violated} of {counts.decided}" for _, counts, _ in points],
        hovertemplate="%{x:g} ms: %{text} violated<extra>" + arm + "</extra>",
    )


def durations(material: Material) -> Section | None:
    """How long it took until an oracle's property held, a point for each trial."""
    if not material.timings:
        return None
    oracles = list(dict.fromkeys(timing.oracle for timing in material.timings))
    points: list[_Point] = []
    for timing in sorted(material.timings, key=lambda timing: oracles.index(timing.oracle)):
        group = timing.row.arm if len(oracles) == 1 else f"{timing.oracle}, {timing.row.arm}"
        points.append(_Point(group, timing.row, timing.seconds))
    spans = dict.fromkeys(f"from {timing.since} until {timing.oracle} held" for timing in material.timings)
    never = [f"{arm}: {count}" for arm in ARMS if (count := _violated(material.rows, arm))]
    left_out = f" Violated trials, which never came that far, are not shown ({', '.join(never)})." if never else ""
    words = f"Seconds {', '.join(spans)}; a point for each trial.{left_out}"
    return Section("How long it took", words, _boxes(points, "seconds"))


def exposures(material: Material) -> Section | None:
    """How far behind the truth the controllers wrote, a point for each trial; only where shadows were recorded."""
    points = [
        _Point(
            f"{row.arm}, {row.outcome.value}",
            row,
            row.exposure.seconds,
            f"{row.exposure.behind} of {counted(row.exposure.writes, 'write')} behind, "
            f"at most {counted(row.exposure.events, 'change')}"
            + (f" on {row.exposure.lane}" if row.exposure.lane else ""),
        )
        for row in material.rows
        if row.exposure is not None
    ]
    if not points:
        return None
    words = (
        "The age of the oldest change that the controller had not been told of when it wrote: the most in each trial, "
        "by our own watch through its lane. Where both arms were exposed alike, the fix makes the difference, not luck."
    )
    return Section("How stale the controller's view was", words, _boxes(points, "seconds behind the truth"))


def reactions(material: Material) -> Section | None:
    """How soon after its trigger a fault was in force; only where faults waited for one."""
    points = [_Point(row.arm, row, seconds) for row in material.rows for seconds in row.reactions]
    if not points:
        return None
    words = (
        "Seconds from the observed event that triggered a fault until the fault was in force, a point for each fault."
    )
    return Section("How soon faults followed their triggers", words, _boxes(points, "seconds"))


SECTIONS: tuple[SectionOf, ...] = (dose_response, durations, exposures, reactions)
"""The figures of an experiment, in the order of the page. A new one is a function added here."""


@dataclass(frozen=True, slots=True)
class _Point:
    """A trial's figure; `group` is the box that it belongs to, `text` is told when one points at it."""

    group: str
    row: Row
    value: float
    text: str = ""


def _boxes(points: Sequence[_Point], axis: str) -> str:
    """A box for each group, with all its points; control groups come first."""
    groups: dict[str, list[_Point]] = defaultdict(list)
    for point in sorted(points, key=lambda point: ARMS.index(point.row.arm)):
        groups[point.group].append(point)
    figure = go.Figure(layout=_layout(height=110 + 70 * len(groups)))
    for group, mine in groups.items():
        figure.add_box(
            name=escape(group, quote=False),
            orientation="h",
            x=[point.value for point in mine],
            boxpoints="all",
            jitter=0.6,
            pointpos=0,
            marker={"color": _COLOURS[mine[0].row.arm], "size": 5, "opacity": 0.7},
            line={"width": 1},
            fillcolor="rgba(127,127,127,0.12)",
            text=[escape(": ".join(filter(None, (point.row.id, point.text))), quote=False) for point in mine],
            hovertemplate="%{x:.3f} s<br>%{text}<extra></extra>",
        )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title=axis, rangemode="tozero")
    figure.update_yaxes(automargin=True, autorange="reversed")
    return str(figure.to_json())


def _count(rows: Sequence[Row], *, anytime: bool) -> Arm:
    outcomes = [row.outcome for row in rows]
    return Arm(violated=outcomes.count(Outcome.VIOLATED), held=outcomes.count(Outcome.HOLDS), anytime=anytime)


def _violated(rows: Sequence[Row], arm: str) -> int:
    return sum(row.arm == arm and row.outcome is Outcome.VIOLATED for row in rows)


def _layout(height: int) -> dict[str, object]:
    return {
        "template": "none",
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "legend": {"orientation": "h", "y": 1.12, "x": 0},
        "hoverlabel": {"align": "left"},
        "dragmode": False,
    }
