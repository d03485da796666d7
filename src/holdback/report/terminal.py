"""The summary in the terminal: a table of arms, the verdict, and what it means.

Nothing is computed here; it reads in 80 columns and without colour.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from holdback.report.words import violated_by
from holdback.statistics.dose import Response
from holdback.statistics.summary import ExperimentSummary, Summary
from holdback.statistics.verdict import Arm, Verdict
from holdback.statistics.words import halves
from holdback.trials.arms import ARMS
from holdback.wording import counted

__all__ = [
    "arms_table",
    "dose_columns",
    "dose_rows",
    "dose_table",
    "interval_name",
    "p_value_line",
    "print_summary",
    "rate",
    "verdict_line",
]

_TABLE_WIDTH = 78
"""Columns that the table of arms needs."""
_STYLES = {
    Verdict.FIXED: "bold green",
    Verdict.REDUCED: "bold yellow",
    Verdict.NOT_FIXED: "bold red",
    Verdict.NOT_REPRODUCED: "bold yellow",
    Verdict.INCONCLUSIVE: "bold yellow",
}


def print_summary(summary: Summary, console: Console) -> None:
    """Print every experiment's table, verdict, meaning and next step."""
    if not summary.experiments:
        console.print("No trial was completed, so there is no verdict.")
    for experiment in summary.experiments:
        for line in _tables(experiment, interval_name(summary), console.width):
            console.print(line)
        console.print()
        console.print(verdict_line(experiment))
        console.print(p_value_line(experiment, summary))
        console.print(Text(experiment.words))
        for sentence in halves(experiment.response) if experiment.response else ():
            console.print(Text(sentence))
        for step in experiment.next:
            console.print(Text(f"Next: {step}"))
        console.print()
    if summary.interrupted:
        console.print(Text("Interrupted: this counts only the trials made so far.", style="bold yellow"))


def _tables(experiment: ExperimentSummary, interval: str, width: int) -> Iterator[RenderableType]:
    """What was counted: by arm, what it was violated by, and by dose. Lines where a table does not fit."""
    wide = width >= _TABLE_WIDTH
    yield from [arms_table(experiment, interval)] if wide else _arm_lines(experiment, interval)
    for arm in experiment.arms:
        if kinds := violated_by(experiment, arm):
            yield Text(f"{arm} violated: {kinds}")
    if experiment.response is not None:
        yield ""
        yield from [dose_table(experiment.response, interval)] if wide else _dose_lines(experiment.response)


def arms_table(experiment: ExperimentSummary, interval: str) -> Table:
    """One line an arm: counts, rate, and its interval under that name."""
    table = Table(
        title=Text(experiment.name, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    table.add_column("arm", no_wrap=True)
    for column in ("violated", "held", "unknown", "invalid", "rate"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(interval, justify="right", no_wrap=True)
    for name, arm in experiment.arms.items():
        counts = (str(count) for count in (arm.violated, arm.held, arm.unknown, arm.invalid))
        table.add_row(name, *counts, "-" if arm.rate is None else rate(arm.rate), _interval(arm))
    return table


def dose_table(response: Response, interval: str) -> Table:
    """One line a dose: in each arm the violated trials, and the interval of their rate."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in dose_columns(interval):
        table.add_column(column, justify="right", no_wrap=True)
    for row in dose_rows(response):
        table.add_row(*row)
    return table


def dose_columns(interval: str) -> list[str]:
    """The heads of a table of doses; `interval` names what stands beside the rates."""
    return ["dose", *(word for name in ARMS for word in (name, interval.removesuffix(" interval")))]


def dose_rows(response: Response) -> Iterator[list[str]]:
    """A row for each dose: of each arm how many trials were violated, and the interval of their rate."""
    for dose, arms in response.cells.items():
        cells = ((f"{arms[name].violated} of {arms[name].decided}", _interval(arms[name])) for name in ARMS)
        yield [f"{dose:g} ms", *(word for cell in cells for word in cell)]


def interval_name(summary: Summary) -> str:
    """What kind of interval stands beside the rates."""
    return "95% at every look" if summary.sequential else "exact 95% interval"


def _arm_lines(experiment: ExperimentSummary, interval: str) -> Iterator[Text]:
    """The same for a terminal into which the table does not fit."""
    yield Text(experiment.name, style="bold")
    for name, arm in experiment.arms.items():
        share = "no rate" if arm.rate is None else f"{rate(arm.rate)}, {interval} {_interval(arm)}"
        counts = f"{arm.violated} violated, {arm.held} held, {arm.unknown} unknown, {arm.invalid} invalid"
        yield Text(f"{name}: {counts}; {share}")


def _dose_lines(response: Response) -> Iterator[Text]:
    """Likewise of the table of doses."""
    for dose, *cells in dose_rows(response):
        figures = (
            f"{name} {seen} ({around})" for name, seen, around in zip(ARMS, cells[::2], cells[1::2], strict=True)
        )
        yield Text(f"{dose}: {', '.join(figures)}")


def verdict_line(experiment: ExperimentSummary) -> Text:
    """`Verdict: FIXED`."""
    return Text.assemble("Verdict: ", (experiment.verdict.value, _STYLES[experiment.verdict]))


def p_value_line(experiment: ExperimentSummary, summary: Summary) -> Text:
    """The p-value, which test gave it, and what it became when corrected for several experiments."""
    if experiment.p_value is None:
        return Text("No p-value: an arm has no decided trial.")
    test = "valid at every look (test martingale)" if summary.sequential else "one-sided, exact within blocks"
    line = f"p = {experiment.p_value:.2g} ({test}, {counted(experiment.blocks, 'block')})"
    if experiment.p_adjusted is not None and experiment.p_adjusted != experiment.p_value:
        line += f"; {experiment.p_adjusted:.2g} after Holm's correction"
    return Text(line)


def rate(share: float) -> str:
    """A rate in percent, with enough digits that a small one does not read as none."""
    return f"{share:.1%}" if share == 0 or share >= 0.001 else f"{share:.2g}"


def _interval(arm: Arm) -> str:
    return "-" if arm.rate is None else f"{rate(arm.low)} to {rate(arm.high)}"
