from __future__ import annotations

from holdback.report.exposure import exposure_lines, reaction_line
from holdback.statistics.exposure import ArmExposure, ExposureSummary, Reaction

ALIKE = ExposureSummary(
    "e", {"control": ArmExposure(20, 19, 0.31, 4, 0.3), "treatment": ArmExposure(20, 0)}, p_exposed=0.5, p_seconds=0.4
)


def test_an_arm_is_one_line() -> None:
    """Each arm is told in one line, without figures where it never acted on old state."""
    assert list(exposure_lines([ALIKE])) == [
        "control acted on old state in 19 of 20 trials, at most 0.31 s / 4 events behind",
        "treatment acted on old state in 0 of 20 trials",
    ]


def test_a_difference_is_named() -> None:
    """When the arms differ, a line says so, with medians and p-value."""
    differing = ExposureSummary("e", ALIKE.arms, p_exposed=0.001, p_seconds=0.4)
    *_, last = exposure_lines([differing])
    assert last.startswith("The arms were not exposed alike (median of the most behind: control 0.30 s, treatment 0.00")
    assert "p = 0.002" in last


def test_several_experiments_are_named() -> None:
    """With more than one experiment each is headed by its name."""
    assert [line for line in exposure_lines([ALIKE, ALIKE]) if line == "e:"] == ["e:", "e:"]


def test_reaction_is_told_in_milliseconds() -> None:
    """The line has the median, the longest, and how many there were."""
    words = "Faults came into force 12 ms after their trigger (median of 1 time; at most 68 ms)."
    assert reaction_line(Reaction(1, 0.0119, 0.0682)) == words
