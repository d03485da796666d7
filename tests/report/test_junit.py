from pathlib import Path
from xml.etree import ElementTree as ET

from holdback.report.evidence import load
from holdback.report.junit import junit
from holdback.trials.outcome import Outcome
from tests.report.sample import EXPERIMENT, report, row


def parsed(directory: Path) -> ET.Element:
    return ET.fromstring(junit(load(directory)))


def test_only_bad_news_for_the_fix_fails(tmp_path: Path) -> None:
    """A violated control passes, a violated treatment fails, unknown and invalid are skipped; the counts agree."""
    report(tmp_path, "vhui", "vhhh")
    (suite,) = parsed(tmp_path)
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert {name for name, case in cases.items() if case.find("failure") is not None} == {"treatment-0", "verdict"}
    assert {name for name, case in cases.items() if case.find("skipped") is not None} == {"control-2", "control-3"}
    assert [suite.get(name) for name in ("tests", "failures", "skipped", "errors")] == ["9", "2", "2", "0"]


def test_a_trial_has_its_properties(tmp_path: Path) -> None:
    """Arm, seed, dose and outcome stand with each trial, so that a violated control can be told from one that held."""
    report(tmp_path, "vvvvvv", "hhhhhh")
    (suite,) = parsed(tmp_path)
    (case,) = (case for case in suite.iter("testcase") if case.get("name") == "control-3")
    found = {each.get("name"): each.get("value") for each in case.iter("property")}
    assert (
        found.items() >= {"arm": "control", "seed": "1003", "dose_milliseconds": "100", "outcome": "violated"}.items()
    )
    assert case.get("classname") == EXPERIMENT


def test_fixed_passes_as_a_whole(tmp_path: Path) -> None:
    """With the verdict FIXED nothing in the file is a failure."""
    report(tmp_path, "vvvvvv", "hhhhhh")
    assert parsed(tmp_path).get("failures") == "0"


def test_what_xml_cannot_say_is_replaced(tmp_path: Path) -> None:
    """Markup and control characters in a reason, such as the end of a coloured log, leave a readable document."""
    store = report(tmp_path, "", "")
    store.judged(row("treatment", 0, Outcome.VIOLATED, reason='</testcase> "\x1b[31mred\x00"').to_json())
    failure = parsed(tmp_path).find(".//failure")
    assert failure is not None
    assert failure.get("message") == '</testcase> "�[31mred�"'
