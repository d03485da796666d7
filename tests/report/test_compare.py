import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from holdback.errors import EvidenceError
from holdback.report.compare import ArmComparison, compare, print_comparison
from holdback.report.evidence import load
from holdback.statistics import Verdict
from tests.report.sample import report


def compared(
    tmp_path: Path, before: tuple[str, str], after: tuple[str, str], **changes: Any
) -> dict[str, ArmComparison]:
    report(tmp_path / "before", *before, events=0)
    report(tmp_path / "after", *after, events=0, **changes)
    (one,) = compare(load(tmp_path / "before"), load(tmp_path / "after"))
    return {arm.arm: arm for arm in one.arms}


def test_a_regression_is_told(tmp_path: Path) -> None:
    """A treatment that is violated again is more often violated, beyond chance; the control has not changed."""
    arms = compared(tmp_path, ("v" * 20, "h" * 20), ("v" * 20, "v" * 10 + "h" * 10))
    assert arms["treatment"].words.startswith("violated more often than before")
    assert arms["control"].words.startswith("no sign of a change")


def test_chance_is_called_chance(tmp_path: Path) -> None:
    """One violated trial more in ten is no sign of a change."""
    arms = compared(tmp_path, ("v" * 10, "h" * 10), ("v" * 10, "v" + "h" * 9))
    assert arms["treatment"].words.startswith("no sign of a change")


def test_the_correction_counts_every_arm(tmp_path: Path) -> None:
    """With two arms compared, the smaller of two p-values is doubled."""
    arms = compared(tmp_path, ("v" * 10, "h" * 10), ("v" * 10, "v" * 5 + "h" * 5))
    treatment = arms["treatment"]
    assert treatment.change.p_value is not None
    assert treatment.p_adjusted == 2 * treatment.change.p_value


def test_what_else_differs_is_told(tmp_path: Path) -> None:
    """Another variant or dose may explain a change, so they are named."""
    arms = compared(tmp_path, ("v", "h"), ("v", "h"), variant="Kueue v9", dose_milliseconds=25.0)
    assert arms["control"].notes == (
        "it ran Kueue v0.17.0 before, Kueue v9 now",
        "the dose was 100 ms before, 25 ms now",
    )


def test_an_experiment_of_one_run_only_is_not_forgotten(tmp_path: Path) -> None:
    """It is listed, with the run that has it."""
    report(tmp_path / "before", "v", "h", events=0)
    report(tmp_path / "after", "v", "h", events=0, experiment="e2e/other.py::test_y")
    gone, new = compare(load(tmp_path / "before"), load(tmp_path / "after"))
    assert (gone.words, new.words) == ("only in the earlier run", "only in the later run")
    assert gone.before is Verdict.INCONCLUSIVE


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    """Two reports of one run, be one a copy, would only seem to show that nothing has changed."""
    report(tmp_path / "before", "v", "h", events=0)
    shutil.copytree(tmp_path / "before", tmp_path / "copy")
    for other in ("before", "copy"):
        with pytest.raises(EvidenceError, match=f"{other} are reports of one run"):
            compare(load(tmp_path / "before"), load(tmp_path / other))


def test_it_prints_in_80_columns(tmp_path: Path) -> None:
    """Verdicts, both rates and the difference stand in lines of 80, without colour."""
    report(tmp_path / "before", "v" * 200, "h" * 200, events=0)
    report(tmp_path / "after", "v" * 200, "v" * 100 + "h" * 100, events=0)
    console = Console(file=io.StringIO(), width=80, color_system=None)
    print_comparison(compare(load(tmp_path / "before"), load(tmp_path / "after")), console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "Verdict: FIXED before, REDUCED now." in text
    line = next(line.split() for line in text.splitlines() if line.startswith("treatment "))
    assert line[:8] == ["treatment", "0", "of", "200", "0.0%", "100", "of", "200"]
    assert "+50.0%" in line
    assert max(map(len, text.splitlines())) <= 80
