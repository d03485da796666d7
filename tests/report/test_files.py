from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from holdback.report import write_all
from holdback.report.files import write_all as write_and_complain
from tests.report.sample import report


def test_a_run_gets_its_files(tmp_path: Path) -> None:
    """The page, the JUnit file and the summary stand beside the evidence, and are what they should be."""
    report(tmp_path, "v" * 6, "h" * 6)
    page, junit, summary = write_all(tmp_path)
    assert (page, junit, summary) == tuple(tmp_path / name for name in ("index.html", "junit.xml", "summary.md"))
    assert page.read_text().startswith("<!doctype html>")
    assert ET.parse(junit).getroot().get("tests") == "13"
    assert summary.read_text().startswith("### holdback: FIXED")


def test_the_job_summary_gets_the_markdown_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What other steps wrote stays, ours is added."""
    job = tmp_path / "step-summary"
    job.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(job))
    report(tmp_path / "report", "v", "h")
    write_all(tmp_path / "report")
    assert job.read_text() == "before\n" + (tmp_path / "report" / "summary.md").read_text()


def test_what_cannot_be_written_is_one_line_and_the_rest_is_written(tmp_path: Path) -> None:
    """A failing file is told in one line with its reason; the others are there, and nothing is half written."""
    report(tmp_path, "v", "h")
    (tmp_path / "junit.xml").mkdir()
    complaints: list[str] = []
    assert len(write_and_complain(tmp_path, complain=complaints.append)) == 2
    (line,) = complaints
    assert "junit.xml was not written: IsADirectoryError" in line
    assert "\n" not in line
    assert not list(tmp_path.glob(".*.new"))


def test_no_evidence_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory without a run raises nothing: the line on stderr names it."""
    assert write_all(tmp_path) == []
    assert capsys.readouterr().err.strip() == f"holdback: no report of {tmp_path}: there is no evidence in {tmp_path}"


def test_a_second_report_replaces_the_first(tmp_path: Path) -> None:
    """Written again after more trials, the page tells of them."""
    store = report(tmp_path, "v", "h")
    write_all(tmp_path)
    before = (tmp_path / "summary.md").read_text()
    report(tmp_path / "more", "v" * 9, "h" * 9)
    store.trials_path.write_bytes((tmp_path / "more" / "trials.jsonl").read_bytes())
    write_all(tmp_path)
    assert before.startswith("### holdback: INCONCLUSIVE")
    assert (tmp_path / "summary.md").read_text().startswith("### holdback: FIXED")
