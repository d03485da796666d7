import json
from itertools import pairwise
from typing import Any

import pytest

from holdback.report.dose_curve import dose_curve
from holdback.report.plotting import Section
from holdback.statistics.dose import Response
from holdback.statistics.verdict import Arm


def response(*counts: tuple[float, int], of: int = 10) -> Response:
    """So many violated control trials at each dose; the treatment never is."""
    return Response({dose: {"control": arm(violated, of), "treatment": arm(0, of)} for dose, violated in counts})


def arm(violated: int, of: int) -> Arm:
    return Arm(violated=violated, held=of - violated)


def drawn(section: Section | None) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The traces by their names, and the axis of the doses."""
    assert section is not None
    figure = json.loads(section.figure)
    return {trace["name"]: trace for trace in figure["data"]}, figure["layout"]["xaxis"]


def test_one_dose_is_no_curve() -> None:
    """Where all trials had the same dose there is nothing to show."""
    assert dose_curve(response((100, 5))) is None


def test_each_dose_has_its_rate_and_interval() -> None:
    """The points of an arm are its rates by rising dose, the bars the exact interval: 5 of 10 is 18.7% to 81.3%."""
    traces, _ = drawn(dose_curve(response((0, 5), (100, 10))))
    control = traces["control"]
    assert (control["customdata"], control["y"]) == ([0, 100], [0.5, 1.0])
    assert control["error_y"]["array"][0] == pytest.approx(0.313, abs=1e-3)
    assert control["error_y"]["arrayminus"][0] == pytest.approx(0.313, abs=1e-3)
    assert control["text"] == ["5 of 10", "10 of 10"]


def test_the_curve_and_its_band_are_drawn() -> None:
    """Each arm has a fitted line that rises with its rates and lies in its band; the words tell where half fail."""
    found = response((0, 0), (10, 1), (50, 9), (100, 10))
    section = dose_curve(found)
    traces, _ = drawn(section)
    line, band = traces["control, fitted"], traces["control, band"]
    assert list(line["y"]) == sorted(line["y"])
    half = len(line["y"])
    lows, highs = band["y"][:half], band["y"][half:][::-1]
    assert all(low <= rate <= high for low, rate, high in zip(lows, line["y"], highs, strict=True))
    assert max(traces["treatment, fitted"]["y"]) < 0.02
    assert section is not None
    assert "Half of the control trials fail at 2" in section.words
    assert "exact 95% interval" in section.words
    adaptive = dose_curve(found, adaptive=True)
    assert adaptive is not None
    assert "that holds at every look" in adaptive.words


def test_trials_that_decide_nothing_make_no_point() -> None:
    """A dose at which every trial was invalid has no rate."""
    traces, _ = drawn(dose_curve(Response({**response((0, 5)).cells, 500: {"control": Arm(), "treatment": Arm()}})))
    assert traces["control"]["customdata"] == [0]


@pytest.mark.parametrize("doses", [(0, 5, 10, 25, 50, 100), (10, 100, 1000, 5000), (1, 3, 7, 60)])
def test_doses_over_decades_have_room_each(doses: tuple[float, ...]) -> None:
    """Each dose tried is written at its place, 0 too, and none is nearer to the next than a tenth of the axis."""
    _, axis = drawn(dose_curve(response(*((dose, 5) for dose in doses))))
    low, high = axis["range"]
    assert axis["ticktext"] == [f"{dose:g}" for dose in doses]
    gaps = [(right - left) / (high - low) for left, right in pairwise(axis["tickvals"])]
    assert min(gaps) > 0.1
    assert "logarithmic" in axis["title"]["text"]


def test_doses_of_one_size_stand_by_their_size() -> None:
    """From 100 to 500 ms the axis is linear and begins at 0."""
    traces, axis = drawn(dose_curve(response((100, 0), (200, 5), (500, 10))))
    assert "tickvals" not in axis
    assert axis["range"] == pytest.approx([-15, 515])
    assert traces["control"]["x"] == pytest.approx([100, 200, 500], abs=5)


@pytest.mark.parametrize(
    ("doses", "written"),
    [
        ((0, *range(20, 231, 7)), ["0", "20", "50", "100", "200"]),
        ((10, 11, 12, 13, 5000), ["10", "30", "100", "300", "1000", "3000"]),
        ((1, 2, 999_999, 1_000_000), ["1", "10", "100", "1000", "10000", "100000", "1e+06"]),
    ],
)
def test_many_doses_are_marked_by_round_ones(doses: tuple[float, ...], written: list[str]) -> None:
    """Where there is no room to write every dose that was tried, few and round ones are."""
    _, axis = drawn(dose_curve(response(*((dose, 5) for dose in doses))))
    assert axis["ticktext"] == written


def test_the_arms_points_do_not_lie_on_each_other() -> None:
    """At each dose the control's point stands left of it and the treatment's right, within 2% of the axis."""
    traces, axis = drawn(dose_curve(response((0, 5), (10, 5), (100, 5))))
    for left, place, right in zip(traces["control"]["x"], axis["tickvals"], traces["treatment"]["x"], strict=True):
        assert left < place < right
        assert right - left < 0.02 * (axis["range"][1] - axis["range"][0])


def test_the_curve_is_smooth_at_low_doses() -> None:
    """The line has points enough to be a curve everywhere on the axis, between 0 and the lowest dose too."""
    traces, axis = drawn(dose_curve(response((0, 0), (10, 2), (100, 5), (5000, 10))))
    places = traces["control, fitted"]["x"]
    gaps = [right - left for left, right in pairwise(places)]
    assert max(gaps) < 0.03 * (axis["range"][1] - axis["range"][0])
