"""What the figures mean and what to do next, in sentences for a newcomer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from holdback.statistics.dose import Half, Response
from holdback.statistics.interval import CONFIDENCE, rule_of_three, upper_bound
from holdback.statistics.power import needed_trials
from holdback.statistics.verdict import ALPHA, MOST_UNUSABLE, Arm, Verdict
from holdback.wording import counted

__all__ = ["advise", "chance", "ended", "explain", "halves", "over"]


def chance(p_value: float) -> str:
    """A p-value as one of two easily read forms: `0.031`, or a power of ten where it is tiny."""
    if p_value >= 0.995:
        return "1"
    if p_value >= 0.001:
        return f"{p_value:.2g}"
    if p_value <= 0:
        return "less than 1e-300"
    return f"less than 1e-{math.floor(-math.log10(p_value))}"


def explain(verdict: Verdict, control: Arm, treatment: Arm, p_value: float) -> str:
    """One or two sentences that say what was seen and why the verdict follows."""
    seen = (
        f"The bug showed in {control.violated} of {counted(control.decided, 'control trial')} "
        f"and in {treatment.violated} of {counted(treatment.decided, 'treatment trial')}."
    )
    luck = f"a difference this large would come up by luck alone with a chance of {chance(p_value)}"
    match verdict:
        case Verdict.FIXED:
            return f"{seen} If the fix did nothing, {luck}. Treatment, {_none_of(treatment)}."
        case Verdict.REDUCED:
            return f"{seen} The fix makes the bug rarer (if it did nothing, {luck}), but it does not remove it."
        case Verdict.NOT_REPRODUCED:
            return f"The bug never showed, so nothing can be said about the fix. Control, {_none_of(control)}."
        case Verdict.NOT_FIXED:
            return f"{seen} The bug is still there with the fix, and no clear sign that it is rarer: {luck}."
        case Verdict.INCONCLUSIVE:
            return _why_inconclusive(control, treatment) or f"{seen} That is too little to tell: {luck}."


def over(doses: Sequence[float]) -> str:
    """Which doses the figures that follow are of, all of them together; empty without any."""
    if not doses:
        return ""
    return f"Over all doses together ({', '.join(f'{dose:g}' for dose in doses)} ms): "


def halves(response: Response) -> Iterator[str]:
    """For each arm the dose at which half of its trials fail, in a sentence."""
    tried = [dose for dose in response.cells if dose > 0]
    for name, curve in response.curves.items():
        yield _half(name, curve.half, min(tried), max(tried))


def _half(name: str, half: Half, lowest: float, highest: float) -> str:
    if half.dose == 0:
        most = f" ({CONFIDENCE:.0%}: half of them at {_rounded(half.high)} ms or less)" if half.high < math.inf else ""
        return f"More than half of the {name} trials fail at {lowest:g} ms already, the lowest dose{most}."
    if math.isinf(half.dose):
        least = f" ({CONFIDENCE:.0%}: half of them at {_rounded(half.low)} ms or more)" if half.low > 0 else ""
        return f"Fewer than half of the {name} trials fail at {highest:g} ms still, the highest dose{least}."
    low = f"below {lowest:g}" if half.low == 0 else _rounded(half.low)
    high = f"above {highest:g}" if math.isinf(half.high) else _rounded(half.high)
    return f"Half of the {name} trials fail at {_rounded(half.dose)} ms ({CONFIDENCE:.0%}: {low} to {high} ms)."


def _rounded(dose: float) -> str:
    """To three digits, and never as a power of ten."""
    return f"{float(f'{dose:.3g}'):g}"


def ended(verdict: Verdict, made: int, most: int, *, certain: bool) -> str:
    """When an experiment of `--until-decided` ended, in a sentence; `made` and `most` count the trials of an arm."""
    if not certain:
        return f"Not decided by {made} of up to {counted(most, 'trial')} an arm."
    why = ": the fix does not even halve how often the bug shows" if verdict is Verdict.NOT_FIXED else ""
    return f"Decided after {made} of up to {counted(most, 'trial')} an arm{why}."


def advise(
    verdict: Verdict, control: Arm, treatment: Arm, *, alpha: float = ALPHA, multiple: int = 1, doses: int = 1
) -> tuple[str, ...]:
    """What to do next, empty when there is nothing; `multiple` experiments share the error `alpha`.

    A count is told for each of the `doses`.
    """
    match verdict:
        case Verdict.FIXED:
            return ()
        case Verdict.REDUCED | Verdict.NOT_FIXED:
            return (
                "Look at one violated treatment trial with `holdback show`, next to one that held: "
                "where do their timelines part?",
            )
        case Verdict.NOT_REPRODUCED:
            rare = upper_bound(0, control.decided) / 10
            needed = needed_trials(rare, alpha=alpha / multiple)
            return (
                "Raise the dose, hold another lane, or make more trials; make sure that the control is unfixed.",
                f"A bug in 1 of {1 / rare:.0f} trials would need --count={_each(needed, doses)} "
                "for a 90% chance of a verdict.",
            )
        case Verdict.INCONCLUSIVE:
            if _why_inconclusive(control, treatment):
                return (
                    "Look at the reasons above, and at one such trial with `holdback show`; mend it, and run again.",
                )
            return _more_trials(control, treatment, alpha / multiple, doses)


def _none_of(arm: Arm) -> str:
    """What an arm says that was never violated."""
    if not arm.anytime:
        return rule_of_three(arm.decided)
    return f"0 of {arm.decided}: the true rate is below {arm.high:.1%} with {CONFIDENCE:.0%} confidence at every look"


def _why_inconclusive(control: Arm, treatment: Arm) -> str:
    """Which arm cannot be used, and why; empty if both can."""
    reasons = []
    for name, arm in (("control", control), ("treatment", treatment)):
        if arm.decided == 0:
            reasons.append(f"The {name} has no trial that could be decided.")
        elif not arm.usable:
            reasons.append(
                f"Of {counted(arm.total, f'{name} trial')}, {arm.unknown} came out unknown and {arm.invalid} invalid, "
                f"more than {MOST_UNUSABLE:.0%}: what is left may mislead."
            )
    return " ".join(reasons)


def _more_trials(control: Arm, treatment: Arm, alpha: float, doses: int) -> tuple[str, ...]:
    """How many trials would probably do, taking the control's rate so far as the true one."""
    needed = needed_trials(control.violated / control.decided, alpha=alpha)
    if needed is None:
        return ("Make more trials.",)
    needed = max(needed, control.decided + 1)
    more = needed - min(control.decided, treatment.decided)
    return (
        f"Make about {counted(more, 'more trial')} an arm (--count={_each(needed, doses)}): if the control's rate "
        "stays as it is and the fix works, they give a 90% chance of FIXED.",
    )


def _each(needed: int | None, doses: int) -> int | None:
    """What `--count` has to be for so many trials an arm."""
    return None if needed is None else math.ceil(needed / doses)
