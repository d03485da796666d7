"""The trials as JUnit XML, for the test views of CI systems.

A trial is a test case. Only what is bad news for the fix is a failure: a violated treatment trial, and a verdict
other than FIXED, which is a test case of its own. A violated control trial is what an experiment hopes for, so it
passes and has its outcome as a property; what decides nothing is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

from holdback.report.evidence import Evidence
from holdback.statistics import ExperimentSummary, Verdict
from holdback.trials.arms import TREATMENT
from holdback.trials.outcome import Outcome, Row

__all__ = ["junit"]

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot say, not even escaped; the end of a log is full of it."""


def junit(evidence: Evidence) -> str:
    """The whole document."""
    root = ET.Element("testsuites", name="holdback")
    for experiment in evidence.summary.experiments:
        rows = [row for row in evidence.rows if row.experiment == experiment.name]
        root.append(_suite(experiment, rows, evidence.run))
    _count(root, root.iter("testcase"))
    root.set("time", f"{sum(row.seconds for row in evidence.rows):.3f}")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(experiment: ExperimentSummary, rows: list[Row], run: Mapping[str, Any]) -> ET.Element:
    suite = _element("testsuite", name=experiment.name)
    suite.set("time", f"{sum(row.seconds for row in rows):.3f}")
    suite.set("timestamp", datetime.fromtimestamp(rows[0].started, UTC).isoformat(timespec="seconds"))
    facts = {"verdict": experiment.verdict.value, "p_value": experiment.p_value, "seed": run.get("seed")}
    _properties(suite, facts)
    for row in rows:
        suite.append(_trial(row))
    suite.append(_verdict(experiment))
    _count(suite, suite.iter("testcase"))
    return suite


def _trial(row: Row) -> ET.Element:
    case = _element("testcase", classname=row.experiment, name=f"{row.arm}-{row.index}")
    case.set("time", f"{row.seconds:.3f}")
    _properties(
        case,
        {
            "trial": row.id,
            "arm": row.arm,
            "seed": row.seed,
            "dose_milliseconds": f"{row.dose_milliseconds:g}",
            "outcome": row.outcome.value,
            "variant": row.variant,
            "reason": row.reason,
        },
    )
    if row.outcome is Outcome.VIOLATED and row.arm == TREATMENT:
        case.append(_element("failure", message=row.reason))
    elif row.outcome in {Outcome.UNKNOWN, Outcome.INVALID}:
        case.append(_element("skipped", message=f"{row.outcome.value}: {row.reason}"))
    return case


def _verdict(experiment: ExperimentSummary) -> ET.Element:
    case = _element("testcase", classname=experiment.name, name="verdict", time="0")
    if experiment.verdict is not Verdict.FIXED:
        failure = _element("failure", message=f"{experiment.verdict.value}: {experiment.words}")
        failure.text = "\n".join(experiment.next)
        case.append(failure)
    return case


def _properties(parent: ET.Element, facts: Mapping[str, Any]) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, value in facts.items():
        if value is not None:
            properties.append(_element("property", name=name, value=str(value)))


def _count(suite: ET.Element, cases: Iterable[ET.Element]) -> None:
    listed = list(cases)
    suite.set("tests", str(len(listed)))
    for attribute, tag in (("failures", "failure"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in listed)))
    suite.set("errors", "0")


def _element(tag: str, **attributes: str) -> ET.Element:
    return ET.Element(tag, {name: _FORBIDDEN.sub("�", value) for name, value in attributes.items()})
