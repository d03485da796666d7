import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from holdback.cli import main
from holdback.errors import EvidenceError
from holdback.history.store import Store
from holdback.report.show import find_trial, print_trial
from holdback.trials.outcome import Outcome
from tests.report.reports import ROW, stored, treatment
from tests.report.stories import stuck


def shown(store: Store, name: str, **options: bool) -> str:
    file = io.StringIO()
    print_trial(store, name, Console(file=file, width=80, color_system=None), **options)
    return file.getvalue()


def test_a_trial_is_told_with_its_outcome_and_timeline(tmp_path: Path) -> None:
    """Outcome, oracle, faults and seed stand above the timeline, all within 80 columns without colour."""
    text = shown(stored(tmp_path, stuck()), "readmission-control-0")
    assert text.startswith("Trial readmission-control-0: VIOLATED")
    assert "readmitted: violated: never" in text
    assert "seed 7, faults: delay 100 ms on kueue>worker1" in " ".join(text.split())
    assert "9 times over 1.3 s" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_the_events_that_an_oracle_cites_are_marked(tmp_path: Path) -> None:
    """The finding cites the second refusal, so the line that stands for all nine is marked, and no other."""
    lines = [line for line in shown(stored(tmp_path, stuck()), ROW.id).splitlines() if "*" in line]
    assert len(lines) == 2
    assert "2.005" in lines[0]
    assert "shows what an oracle found" in lines[1]


def test_options_add_the_shadow_and_the_requests(tmp_path: Path) -> None:
    """The shadow is shown only when asked for."""
    store = stored(tmp_path, stuck())
    assert "(shadow)" in shown(store, ROW.id, shadow=True)
    assert "(shadow)" not in shown(store, ROW.id, requests=True)


def test_a_part_of_an_id_is_enough() -> None:
    """An exact id wins over a beginning, that over an end, that over what is inside; it must be of one only."""
    ids = ["a-control-1", "a-control-10", "b-treatment-1", "ba-control-2"]
    assert find_trial(ids, "b-") == "b-treatment-1"
    assert find_trial(ids, "a-control-1") == "a-control-1"
    assert find_trial(ids, "control-1") == "a-control-1"
    assert find_trial(ids, "treat") == "b-treatment-1"
    with pytest.raises(EvidenceError, match=r"3 trials have 'a-control'(.|\n)*a-control-10.*ba-control-2"):
        find_trial(ids, "a-control")


def test_an_unknown_trial_brings_up_near_ones() -> None:
    """A mistyped id is answered with those that come near, an odd one with what there is, none with what to do."""
    ids = [f"a-control-{number}" for number in range(20)]
    with pytest.raises(EvidenceError, match="a-control-7"):
        find_trial(ids, "a-contrl-7")
    with pytest.raises(EvidenceError, match=r"a-control-0.* and 10 more"):
        find_trial(ids, "zzz")
    with pytest.raises(EvidenceError, match="run an experiment"):
        find_trial([], "a")


def test_a_trial_without_history_says_why(tmp_path: Path) -> None:
    """An invalid trial's reason, or that it was interrupted, instead of an empty timeline."""
    store = stored(tmp_path, None, replace(ROW, outcome=Outcome.INVALID, reason="setup: no world"))
    store.plan({"id": "interrupted"})
    with pytest.raises(EvidenceError, match="setup: no world"):
        shown(store, ROW.id)
    with pytest.raises(EvidenceError, match="it was interrupted"):
        shown(store, "inter")


def test_a_damaged_line_is_reported_with_its_number(tmp_path: Path) -> None:
    """A torn event is skipped and named; the rest is shown."""
    store = stored(tmp_path, stuck(), ROW, treatment(ROW, Outcome.HOLDS))
    path = store.history_path(ROW.id)
    lines = path.read_text().splitlines()
    lines[3] = lines[3][:20]
    path.write_text("\n".join(lines) + "\n")
    text = "".join(shown(store, ROW.id).split())
    assert "jsonl:4:" in text
    assert "9timesover" in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`holdback show` prints the trial, and fails with the near ones for an unknown id."""
    stored(tmp_path, stuck())
    assert main(["show", "readmission", "--report", str(tmp_path)]) == 0
    assert "VIOLATED" in capsys.readouterr().out
    assert main(["show", "nothing", "--report", str(tmp_path)]) == 1
    assert ROW.id in capsys.readouterr().err
