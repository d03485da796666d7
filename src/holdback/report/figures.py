"""The figures in which each trial of an experiment is a point, as Plotly figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go

from holdback.report.plotting import COLOURS, Section, layout
from holdback.report.timings import Timing
from holdback.trials.arms import ARMS
from holdback.trials.outcome import Row
from holdback.wording import counted

__all__ = ["SECTIONS", "Material", "SectionOf", "durations", "exposures", "reactions"]


@dataclass(frozen=True, slots=True)
class Material:
    """What is known of one experiment: its rows, and how long its trials took."""

    rows: Sequence[Row]
    timings: Sequence[Timing]


SectionOf = Callable[[Material], Section | None]
"""Makes a section of an experiment; None when its trials have nothing to show there."""


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
    timed = {timing.row.id for timing in material.timings}
    never = Counter(row.arm for row in material.rows if row.id not in timed)
    counts = ", ".join(f"{arm}: {never[arm]}" for arm in ARMS if never[arm])
    left_out = f" Trials that never came that far are not shown ({counts})." if counts else ""
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
    points = [_Point(row.arm, row, seconds * 1000) for row in material.rows for seconds in row.reactions]
    if not points:
        return None
    words = (
        "Milliseconds from the observed event that triggered a fault until the fault was in force, "
        "a point for each fault."
    )
    return Section("How soon faults followed their triggers", words, _boxes(points, "milliseconds", unit="ms"))


SECTIONS: tuple[SectionOf, ...] = (durations, exposures, reactions)
"""The figures that stand below an experiment's paths, in their order. A new one is a function added here."""


@dataclass(frozen=True, slots=True)
class _Point:
    """A trial's figure; `group` is the box that it belongs to, `text` is told when one points at it."""

    group: str
    row: Row
    value: float
    text: str = ""


def _boxes(points: Sequence[_Point], axis: str, *, unit: str = "s") -> str:
    """A box for each group, with all its points, which are in that unit; control groups come first."""
    groups: dict[str, list[_Point]] = defaultdict(list)
    for point in sorted(points, key=lambda point: ARMS.index(point.row.arm)):
        groups[point.group].append(point)
    figure = go.Figure(layout=layout(height=110 + 70 * len(groups)))
    for group, mine in groups.items():
        figure.add_box(
            name=escape(group, quote=False),
            orientation="h",
            x=[point.value for point in mine],
            boxpoints="all",
            jitter=0.6,
            pointpos=0,
            marker={"color": COLOURS[mine[0].row.arm], "size": 5, "opacity": 0.7},
            line={"width": 1},
            fillcolor="rgba(127,127,127,0.12)",
            text=[escape(": ".join(filter(None, (point.row.id, point.text))), quote=False) for point in mine],
            hovertemplate=f"%{{x:.3~f}} {unit}<br>%{{text}}<extra></extra>",
        )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title=axis, rangemode="tozero")
    figure.update_yaxes(automargin=True, autorange="reversed")
    return str(figure.to_json())
