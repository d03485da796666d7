"""`--until-decided`: an experiment ends once its verdict is certain, both arms balanced, on any number of workers."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest

from tests.plugin.inner import FIXED, ORACLE, lines_of, report_of, rows_of, summary_of
from tests.schema import documented

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.sessions

BOTH = (
    ORACLE
    + """
@holdback.experiment(oracles=[said])
def test_fixed(world, trial):
    trial.step("says", word="violated" if trial.arm == "control" else "holds")

@holdback.experiment(oracles=[said])
def test_rare(world, trial):
    trial.step("says", word="violated" if trial.arm == "control" and trial.index == 3 else "holds")
"""
)


def blocks_of(inner: pytest.Pytester) -> Counter[tuple[str, int]]:
    """How many trials were made of each experiment's blocks."""
    return Counter((row["experiment"].rpartition("::")[2], row["block"]) for row in rows_of(inner))


def test_an_experiment_ends_when_it_is_decided(inner: pytest.Pytester) -> None:
    """A certain fix takes 5 of 40 trials an arm; the others count as not needed, nowhere as trials."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("--until-decided", "--count=40")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*95% at every look*", "p = * (valid at every look (test martingale), 5 blocks)", "*10 passed, 70 not needed*"]
    )
    assert "Decided after 5 of up to 40 trials an arm." in " ".join(result.stdout.str().split())
    assert len(rows_of(inner)) == 10
    summary = summary_of(inner)
    assert summary["sequential"] is True
    assert summary["interrupted"] is False
    (experiment,) = summary["experiments"]
    assert (experiment["verdict"], experiment["blocks"]) == ("FIXED", 5)
    assert experiment["arms"]["treatment"]["high"] == pytest.approx(0.585, abs=1e-3)
    report = report_of(inner)
    for name in ("summary.md", "index.html"):
        text = (report / name).read_text()
        assert "Decided after 5 of up to 40 trials an arm" in text
        assert "95% at every look" in text
        assert "exact 95% interval" not in text
    assert len(ET.parse(report / "junit.xml").findall(".//testcase")) == 10 + 1


def test_what_was_settled_is_kept(inner: pytest.Pytester) -> None:
    """run.json says that the run was looked at, and blocks.jsonl for each block whether it was needed."""
    inner.makepyfile(FIXED)
    inner.runpytest("--until-decided", "--count=8")
    lines = lines_of(report_of(inner) / "blocks.jsonl")
    assert [line["needed"] for line in lines] == [True] * 5 + [False] * 3
    assert all(list(line) == documented("A line of `blocks.jsonl`") for line in lines)


def test_the_undecided_go_on(inner: pytest.Pytester) -> None:
    """One experiment's end does not end the others: what is never decided takes all of its trials."""
    inner.makepyfile(BOTH)
    result = inner.runpytest("--until-decided", "--count=12")
    assert result.ret == 1
    made = Counter(row["experiment"].rpartition("::")[2] for row in rows_of(inner))
    assert made == {"test_fixed": 2 * 6, "test_rare": 2 * 12}  # six: two experiments share the error
    verdicts = {each["name"].rpartition("::")[2]: each for each in summary_of(inner)["experiments"]}
    assert verdicts["test_fixed"]["verdict"] == "FIXED"
    assert verdicts["test_rare"]["verdict"] == "INCONCLUSIVE"
    assert "Not decided by 12 of up to 12 trials an arm" in verdicts["test_rare"]["words"]


def test_workers_decide_together_and_in_whole_blocks(inner: pytest.Pytester) -> None:
    """With `-n 3` all see the decision, every block has both of its trials or none, and few more than 5 are made."""
    inner.makepyfile(FIXED)
    result = inner.runpytest_subprocess("-n", "3", "--until-decided", "--count=60")
    assert result.ret == 0
    made = blocks_of(inner)
    assert set(made.values()) == {2}
    assert 5 <= len(made) < 20
    (spared,) = re.findall(r"(\d+) not needed", result.stdout.str())
    assert int(spared) == 120 - 2 * len(made)


def test_a_useless_fix_ends_too(inner: pytest.Pytester) -> None:
    """A treatment that always fails is NOT FIXED after 7 blocks, and the words say why it ended."""
    inner.makepyfile(
        ORACLE + "@holdback.experiment(oracles=[said])\ndef test_it(world, trial): trial.step('says', word='violated')"
    )
    result = inner.runpytest("--until-decided", "--count=50")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["Verdict: NOT FIXED"])
    assert (
        "Decided after 7 of up to 50 trials an arm: the fix does not even halve"
        in summary_of(inner)["experiments"][0]["words"]
    )


def test_a_trial_that_is_not_needed_is_told_as_that(inner: pytest.Pytester) -> None:
    """Verbosely each is named, and in pytest's own JUnit file it is skipped with the reason."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("--until-decided", "--count=6", "-v", "--junitxml=own.xml")
    result.stdout.fnmatch_lines(["*test_it?*-6-6? NOT NEEDED*"])
    skipped = ET.parse(inner.path / "own.xml").findall(".//skipped")
    assert [each.get("message") for each in skipped] == ["not needed: the verdict is certain without it"] * 2


def test_a_single_trial_decides_nothing(inner: pytest.Pytester) -> None:
    """Without `--count` it is a usage error that says what to give."""
    inner.makepyfile(FIXED)
    result = inner.runpytest("--until-decided")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --until-decided*", "*--count=200"])


def test_help_explains_it(inner: pytest.Pytester) -> None:
    """`--help` says what becomes of `--count` and of the p-values."""
    text = " ".join(inner.runpytest("--help").stdout.str().split())
    assert "--until-decided end each experiment as soon as its verdict is certain" in text
    assert "the most that it may take" in text
