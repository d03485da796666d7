import io

import pytest
from rich.console import Console

from holdback.oracles import Finding, Judgement
from holdback.report.terminal import print_summary, rate
from holdback.statistics import summarise
from holdback.statistics.design import Design
from holdback.trials.outcome import Outcome
from tests.statistics.rows import Row, rows

PLAIN = Design()


def printed(trials: list[Row], design: Design = PLAIN, *, width: int = 80, interrupted: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_summary(summarise(trials, design, interrupted=interrupted), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_each_arm() -> None:
    """Counts, rate and exact interval stand in one line for each arm, then verdict and p-value."""
    text = printed(rows("v" * 9 + "hui", "h" * 11 + "i", "one"))
    lines = [line.split() for line in text.splitlines()]
    assert ["control", "9", "1", "1", "1", "90.0%", "55.5%", "to", "99.7%"] in lines
    assert ["treatment", "0", "11", "0", "1", "0.0%", "0.0%", "to", "28.5%"] in lines
    assert "Verdict: FIXED" in text
    assert "p = 0.002 (one-sided, exact within blocks, 10 blocks)" in text


@pytest.mark.parametrize("design", [PLAIN, Design(adaptive=True, most=1000)])
def test_it_fits_80_columns_without_colour(design: Design) -> None:
    """No line is wider than 80, no table is cut, no escape sequence is written, however long the name."""
    text = printed(
        rows("v" * 200, "h" * 200, "e2e/test_readmission.py::test_an_evicted_workload_is_admitted_again" + "x" * 60),
        design,
    )
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "\x1b" not in text
    assert "is admitted" not in text  # the name is printed as it is, not as words
    assert ("96.9% to 100.0%" if design.adaptive else "98.2% to 100.0%") in text


def test_a_narrow_terminal_cuts_nothing() -> None:
    """In 40 columns every count, rate and interval is there whole, in lines instead of a table."""
    text = printed(rows("v" * 9 + "hui", "h" * 11 + "i", "one"), width=40)
    assert max(len(line) for line in text.splitlines()) <= 40
    assert "…" not in text
    words = " ".join(text.split())
    assert "control: 9 violated, 1 held, 1 unknown, 1 invalid; 90.0%, exact 95% interval 55.5% to 99.7%" in words


def test_doses_in_a_narrow_terminal() -> None:
    """The counts and intervals of each dose are there whole as well."""
    made = [Row("e", arm, block, Outcome.VIOLATED, 50) for block in range(3) for arm in ("control", "treatment")]
    words = " ".join(printed(made, width=40).split())
    assert "50 ms: control 3 of 3 (29.2% to 100.0%), treatment 3 of 3 (29.2% to 100.0%)" in words


def test_names_are_not_read_as_markup() -> None:
    """A name in square brackets is printed, not swallowed as a style."""
    assert "e[bold]x" in printed(rows("v", "h", "e[bold]x"))


def test_what_was_violated_is_broken_down_by_oracle() -> None:
    """Below the table each arm with violated trials says by which oracles, and an arm without says nothing."""
    late = (Finding("late", Judgement.VIOLATED, ""), Finding("orphan", Judgement.VIOLATED, ""))
    made = [Row("e", "control", index, Outcome.VIOLATED, findings=late[: 1 + (index == 0)]) for index in range(3)]
    text = printed([*made, Row("e", "treatment", 0, Outcome.HOLDS)])
    assert "\ncontrol violated: 2 late, 1 late + orphan\n" in text
    assert "treatment violated" not in text


def test_what_to_do_next() -> None:
    """A verdict other than FIXED says what to do, FIXED says nothing more."""
    assert "Next: " in printed(rows("hhh", "hhh"))
    assert "Next: " not in printed(rows("v" * 9, "h" * 9))


@pytest.mark.parametrize("trials", [rows("vvv", "h"), []])
def test_an_interrupted_run_says_so(trials: list[Row]) -> None:
    """What there is, is printed, with the warning that it is not all."""
    assert "Interrupted" in printed(trials, interrupted=True)


def test_a_missing_arm_shows_dashes_and_no_p_value() -> None:
    """An arm without decided trials has no rate and no interval."""
    text = printed([Row("e", "control", 1, Outcome.INVALID)])
    assert "No p-value" in text
    assert ["control", "0", "0", "0", "1", "-", "-"] in [line.split() for line in text.splitlines()]


def test_a_corrected_p_value_is_shown_beside_the_plain_one() -> None:
    """With several experiments both p-values are printed."""
    text = printed([*rows("v" * 9, "h" * 9, "a"), *rows("v" * 9, "h" * 9, "b")])
    assert "p = 0.002" in text
    assert "0.0039 after Holm's correction" in " ".join(text.split())


def test_a_small_rate_is_not_rounded_to_none() -> None:
    """One in 20,000 keeps its digits."""
    assert [rate(0.0), rate(1.0), rate(0.0123), rate(0.00005)] == ["0.0%", "100.0%", "1.2%", "5e-05"]
