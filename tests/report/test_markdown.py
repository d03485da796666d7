from pathlib import Path

from holdback.report.evidence import load
from holdback.report.markdown import markdown
from holdback.trials.outcome import Outcome
from tests.report.sample import report, row


def test_verdict_first_then_a_line_for_each_arm(tmp_path: Path) -> None:
    """The first line has the verdict, the table the counts and the exact interval."""
    report(tmp_path, "v" * 10, "h" * 10)
    text = markdown(load(tmp_path))
    assert text.startswith("### holdback: FIXED\n")
    assert "| control | 10 | 0 | 0 | 0 | 100.0% | 69.2% to 100.0% |" in text
    assert "| treatment | 0 | 10 | 0 | 0 | 0.0% | 0.0% to 30.8% |" in text
    assert "\ncontrol violated: 10 readmitted\n" in text
    assert "treatment violated" not in text
    assert "--holdback-seed=7" in text


def test_nothing_in_a_name_becomes_markup(tmp_path: Path) -> None:
    """Mentions, HTML, table bars and backticks in names and reasons stay what they are."""
    store = report(tmp_path, "", "")
    name, reason = "e2e/x.py::test[a|b`c]", "<script>alert(1)</script> @everyone\n# big"
    store.judged(row("treatment", 0, Outcome.VIOLATED, experiment=name, reason=reason).to_json())
    text = markdown(load(tmp_path))
    assert r"``e2e/x.py::test[a\|b`c]``" in text
    assert "`<script>alert(1)</script> @everyone # big`" in text


def test_a_long_run_stays_short(tmp_path: Path) -> None:
    """With 300 violated treatment trials only some are listed, and the rest is counted."""
    store = report(tmp_path, "", "")
    for index in range(300):
        store.judged(row("treatment", index, Outcome.VIOLATED, reason="x" * 5000).to_json())
    text = markdown(load(tmp_path))
    assert "300 trials to look at" in text
    assert "and 290 more" in text
    assert len(text) < 10_000


def test_what_was_lost_is_said(tmp_path: Path) -> None:
    """Damaged lines and an interrupted run come before the counts that lack them."""
    store = report(tmp_path, "v", "h")
    with store.trials_path.open("a") as file:
        file.write("{broken\n")
    text = markdown(load(tmp_path))
    assert text.index("trials.jsonl:3") < text.index("| arm |")
    assert text.index("Interrupted") < text.index("| arm |")


def test_a_finished_run_is_not_called_interrupted(tmp_path: Path) -> None:
    """What summary.json says of how the run ended is believed; what it says of counts is not."""
    store = report(tmp_path, "v", "h")
    store.summarise({"interrupted": False, "experiments": []})
    text = markdown(load(tmp_path))
    assert "Interrupted" not in text
    assert "| control | 1 | 0 |" in text
