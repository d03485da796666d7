"""English that depends on a number."""

from __future__ import annotations

import re
from pathlib import Path

import holdback
from holdback.wording import counted, noun

SOURCE = Path(holdback.__file__).parent


def test_one_is_singular_and_everything_else_plural() -> None:
    """`1 trial`, and `0 trials`, `2 watches`."""
    assert [counted(number, "trial") for number in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]
    assert [noun(number, "watch", "watches") for number in (1, 2)] == ["watch", "watches"]


def test_nobody_counts_trials_past_it() -> None:
    """No message puts a number of its own before "trials": it would read "1 trials" when there is one."""
    text = "\n".join(path.read_text() for kind in ("*.py", "*.j2") for path in SOURCE.rglob(kind))
    past = re.compile(
        r"\}+ (?:(?:control|treatment|decided|damaged) )?(?:trials|events|blocks|requests|lines|pods)\b(?: \w+)?"
    )
    assert set(past.findall(text)) <= ALWAYS_MANY


ALWAYS_MANY = {
    "} trials in",  # a row: three
    "} trials have",  # the same letters in their names: several
    "} trials fail",  # of an arm, named before them
    "} trials would",  # be needed for a bug that never showed in ten
}
"""Where the number cannot be one, or there is none."""
