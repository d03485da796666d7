"""The picture of how the rate of violated trials rises with the dose, as a Plotly figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import plotly.graph_objects as go

from holdback.report.plotting import COLOURS, Section, layout
from holdback.statistics.dose import Curve, Response
from holdback.statistics.verdict import Arm
from holdback.statistics.words import halves
from holdback.trials.arms import ARMS

__all__ = ["dose_curve"]

_FAINT = {"control": "rgba(217,119,6,0.16)", "treatment": "rgba(59,130,246,0.16)"}
"""The arms' colours for areas that others shine through."""
_BESIDE = {"control": -0.007, "treatment": 0.007}
"""So far, as a share of the axis, the arms' points stand from their dose: intervals on each other cannot be read."""
_DECADE = 10
"""Where the highest dose is so many times the lowest, a linear axis would crowd all the others at its beginning."""
_ROOM = 0.12
"""Of the axis, for each dose that is written at it: enough on a phone."""
_LADDERS = ((1, 2, 5), (1, 3), (1,))
"""Round doses in each decade, from many to few."""


def dose_curve(response: Response, *, adaptive: bool = False) -> Section | None:
    """The rate at each dose and the curve through them; None where there was but one dose.

    `adaptive`: what was made later depends on what was seen before.
    """
    if len(response.cells) < 2:
        return None
    axis = _Axis(tuple(response.cells))
    figure = go.Figure(layout=layout(height=400))
    for arm, curve in response.curves.items():
        _add_curve(figure, axis, arm, curve)
    for arm in ARMS:
        _add_points(figure, axis, arm, {dose: arms[arm] for dose, arms in response.cells.items()})
    figure.update_xaxes(**axis.settings())
    figure.update_yaxes(title="violated trials", tickformat=".0%", range=[-0.03, 1.03])
    kind = "the 95% interval that holds at every look" if adaptive else "the exact 95% interval"
    words = (
        f"Share of decided trials that were violated, with {kind} of the true rate at each dose, and the fitted curve: "
        "the whole true curve lies in the band with 95% confidence."
    )
    return Section("Dose and response", " ".join([words, *halves(response)]), figure.to_json())


@dataclass(frozen=True, slots=True)
class _Axis:
    """Where doses (milliseconds, two or more, rising) stand.

    By their size, or, where they span a decade or more, by its inverse hyperbolic sine: that goes as the logarithm from
    the lowest dose on, and has a place for 0, which the logarithm has not.
    """

    doses: Sequence[float]

    @property
    def lowest(self) -> float:
        """The lowest dose that is one."""
        return next(dose for dose in self.doses if dose > 0)

    @property
    def logarithmic(self) -> bool:
        return self.doses[-1] >= _DECADE * self.lowest

    def place(self, dose: float) -> float:
        return math.asinh(2 * dose / self.lowest) if self.logarithmic else dose

    def beside(self, dose: float, arm: str) -> float:
        """Where an arm's point of that dose stands."""
        return self.place(dose) + _BESIDE[arm] * self._length

    def settings(self) -> dict[str, object]:
        """For Plotly."""
        margin = 0.03 * self._length
        settings: dict[str, object] = {
            "title": "dose: milliseconds of delay" + (" (logarithmic)" if self.logarithmic else ""),
            "range": [self._start - margin, self._start + self._length + margin],
            "zeroline": False,
        }
        if self.logarithmic:
            marked = self._marked()
            settings |= {"tickvals": [*map(self.place, marked)], "ticktext": [f"{dose:g}" for dose in marked]}
        return settings

    @property
    def _start(self) -> float:
        """A linear axis begins at 0, tried or not: from there its doses are what they seem."""
        return self.place(self.doses[0]) if self.logarithmic else 0.0

    @property
    def _length(self) -> float:
        return self.place(self.doses[-1]) - self._start

    def _marked(self) -> Sequence[float]:
        """The doses that were tried, if there is room to write them, else round ones."""
        choices = [self.doses, *map(self._round, _LADDERS)]
        return next((doses for doses in choices if self._has_room(doses)), choices[-1])

    def _has_room(self, doses: Sequence[float]) -> bool:
        return all(self.place(high) - self.place(low) >= _ROOM * self._length for low, high in pairwise(doses))

    def _round(self, ladder: Sequence[int]) -> list[float]:
        return [0.0] * (self.doses[0] == 0) + [dose for dose in _rungs(ladder, self.doses[-1]) if dose >= self.lowest]


def _rungs(ladder: Sequence[int], most: float) -> Iterator[float]:
    """Round doses up to `most`, from 1 ms on, the finest that can be asked for."""
    for decade in range(math.floor(math.log10(most)) + 1):
        yield from (float(step * 10**decade) for step in ladder if step * 10**decade <= most)


def _add_curve(figure: go.Figure, axis: _Axis, arm: str, curve: Curve) -> None:
    """The fitted curve, and its band as one outline: along the lower edge, and back along the upper one."""
    places = [*map(axis.place, curve.doses)]
    figure.add_scatter(
        name=f"{arm}, band",
        x=[*places, *reversed(places)],
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
        x=places,
        y=list(curve.rates),
        customdata=list(curve.doses),
        mode="lines",
        line={"color": COLOURS[arm], "width": 2},
        hovertemplate="%{customdata:.3~r} ms: %{y:.1%} fitted<extra>" + arm + "</extra>",
        showlegend=False,
    )


def _add_points(figure: go.Figure, axis: _Axis, arm: str, cells: Mapping[float, Arm]) -> None:
    points = [(dose, counts, counts.rate) for dose, counts in cells.items() if counts.rate is not None]
    figure.add_scatter(
        name=arm,
        x=[axis.beside(dose, arm) for dose, _, _ in points],
        y=[rate for _, _, rate in points],
        customdata=[dose for dose, _, _ in points],
        mode="markers",
        marker={"size": 9, "symbol": "circle" if arm == "control" else "diamond", "color": COLOURS[arm]},
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
        hovertemplate="%{customdata} ms: %{text} violated<extra>" + arm + "</extra>",
    )
