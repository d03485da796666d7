"""From measurements to what is said of them. Pure, but for the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from bench.scale.measuring import Measured, Wanted
from holdback.statistics.ratio import Ratio, paired_ratio
from holdback.trials.arms import ARMS, CONTROL, TREATMENT

__all__ = ["LIMIT", "append", "interrupted", "pairs", "summary", "table", "verdict"]

LIMIT = 1.05
"""The fix may make the whole at most so many times slower."""

Row = tuple[str, str, Callable[[Measured], float | None]]
"""What it is called, its format, and where it comes from."""


def _rows(found: Sequence[Measured]) -> list[Row]:
    verbs = sorted({verb for each in found for verb in each.counted.requests})
    processes = list(dict.fromkeys(name for each in found for name in each.usage))

    def requests(verb: str) -> Row:
        return f"requests to the API server: {verb}", ",.0f", lambda each: each.counted.requests.get(verb, 0)

    def processor(name: str) -> Row:
        return f"processor time: {name}, s", ",.1f", lambda each: each.usage[name].processor

    def memory(name: str) -> Row:
        return f"peak memory: {name}, MB", ",.0f", lambda each: each.usage[name].memory / 1e6

    return [
        ("whole time, s", ",.1f", lambda each: each.seconds),
        ("finished to finalizer gone, median, s", ",.3f", lambda each: each.wait_median),
        ("finished to finalizer gone, p99, s", ",.3f", lambda each: each.wait_p99),
        ("others' finalizers lost", ",.0f", lambda each: each.counts.lost),
        ("others' finalizers added", ",.0f", lambda each: each.counts.added),
        ("Kueue's conflicts (409), each a retry", ",.0f", lambda each: each.counted.conflicts - each.counts.conflicts),
        ("pods put back into Kueue's queue", ",.0f", lambda each: each.counted.retries),
        ("conflicts of the others", ",.0f", lambda each: each.counts.conflicts),
        *map(requests, verbs),
        ("reconciles of pods", ",.0f", lambda each: each.counted.reconciles),
        ("one reconcile of a pod, ms", ",.2f", _reconcile),
        *map(processor, processes),
        *map(memory, processes),
    ]


def _reconcile(each: Measured) -> float | None:
    return 1000 * each.counted.reconcile_seconds / each.counted.reconciles if each.counted.reconciles else None


def pairs(found: Sequence[Measured], value: Callable[[Measured], float | None]) -> list[tuple[float, float]]:
    """Control and treatment of every round in which both are complete and have the value."""
    of = {(each.arm, each.round): value(each) for each in found if each.complete}
    both = [(of.get((CONTROL, number)), of.get((TREATMENT, number))) for number in sorted({number for _, number in of})]
    return [(one, other) for one, other in both if one is not None and other is not None]


def verdict(found: Sequence[Measured]) -> str:
    """Whether the fix makes the whole at most 5% slower, in words."""
    ratio = paired_ratio(pairs(found, lambda each: each.seconds))
    if ratio is None:
        return "No round is complete in both arms: nothing can be said about the 5%."
    said = f"treatment takes {ratio.estimate:.3f} times as long as control (95% interval {_interval(ratio)})"
    if ratio.high <= LIMIT:
        return f"At most 5% slower: {said}."
    if ratio.low > LIMIT:
        return f"MORE than 5% slower: {said}."
    return f"Undecided whether it is at most 5% slower: {said}. More rounds narrow the interval."


def _interval(ratio: Ratio) -> str:
    return f"{ratio.low:.3f} to {ratio.high:.3f}" if math.isfinite(ratio.high) else "none from a single round"


def table(found: Sequence[Measured]) -> Table:
    """Every figure of both arms: medians of the complete rounds, and their ratio."""
    complete = [each for each in found if each.complete]
    wanted = found[0].wanted
    rounds = {arm: sum(each.arm == arm for each in complete) for arm in ARMS}
    made = Table(title=f"{wanted.pods:,} pods, {wanted.throttle}{_company(wanted)}", title_justify="left")
    made.add_column("", no_wrap=True)
    for arm in ARMS:
        made.add_column(f"{arm} ({rounds[arm]})", justify="right", no_wrap=True)
    made.add_column("ratio", justify="right", no_wrap=True)
    made.add_column("its 95% interval", justify="right", no_wrap=True)
    for name, form, value in _rows(complete):
        ratio = paired_ratio(pairs(complete, value))
        cells = [_middle(complete, arm, value, form) for arm in ARMS]
        made.add_row(name, *cells, f"{ratio.estimate:.3f}" if ratio else "", _interval(ratio) if ratio else "")
    made.caption = "medians of the complete rounds"
    return made


def _company(wanted: Wanted) -> str:
    return ", another controller adds finalizers" if wanted.others else ", nobody else writes"


def _middle(found: Sequence[Measured], arm: str, value: Callable[[Measured], float | None], form: str) -> str:
    values = [known for each in found if each.arm == arm and (known := value(each)) is not None]
    return format(median(values), form) if values else "-"


def interrupted(found: Sequence[Measured]) -> list[str]:
    """What the measurements that did not end had shown until then, a line for each."""
    return [
        f"Interrupted: round {each.round}, {each.arm}, after {each.seconds:.0f} s: {each.counts.created} created, "
        f"{each.counts.finished} finished, {each.counts.released} let go of "
        f"(median after {_seconds(each.wait_median)}), {each.counts.lost} of {each.counts.added} finalizers lost"
        for each in found
        if not each.complete
    ]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def summary(found: Sequence[Measured]) -> dict[str, Any]:
    """What was measured and found, as plain data."""
    ratio = paired_ratio(pairs(found, lambda each: each.seconds))
    return {
        "measured": [each.to_json() for each in found],
        "whole_time_ratio": None
        if ratio is None
        else {"estimate": ratio.estimate, "low": ratio.low, "high": _or_none(ratio.high)},
        "verdict": verdict(found),
    }


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def append(path: Path, measured: Measured) -> None:
    """Keep one measurement as soon as it is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(measured.to_json()) + "\n")
