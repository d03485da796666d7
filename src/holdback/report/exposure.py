"""Exposure and reaction in words, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdback.statistics.exposure import ArmExposure, ExposureSummary, Reaction
from holdback.wording import counted

__all__ = ["exposure_lines", "reaction_line"]


def exposure_lines(found: Sequence[ExposureSummary]) -> Iterator[str]:
    """A line an arm, and one more where the arms differ; the experiment is named when there are several."""
    for each in found:
        if len(found) > 1:
            yield f"{each.experiment}:"
        for name, arm in each.arms.items():
            yield f"{name} {_words(arm)}"
        if each.differs:
            yield _difference(each)


def reaction_line(found: Reaction) -> str:
    """How quickly faults followed their triggers."""
    return (
        f"Faults came into force {found.median * 1000:.0f} ms after their trigger "
        f"(median of {counted(found.times, 'time')}; at most {found.longest * 1000:.0f} ms)."
    )


def _words(arm: ArmExposure) -> str:
    words = f"acted on old state in {arm.exposed} of {counted(arm.trials, 'trial')}"
    if not arm.exposed:
        return words
    return f"{words}, at most {arm.seconds:.2f} s / {counted(arm.events, 'event')} behind"


def _difference(found: ExposureSummary) -> str:
    medians = ", ".join(f"{name} {arm.median_seconds:.2f} s" for name, arm in found.arms.items())
    return (
        f"The arms were not exposed alike (median of the most behind: {medians}; p = {found.p_value:.2g}): "
        "part of the difference between them may come from that."
    )
