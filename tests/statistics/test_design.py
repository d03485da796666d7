from pathlib import Path
from typing import Any

import pytest

from holdback.report.evidence import load
from holdback.statistics.design import Design, design_of
from tests.report.sample import report

STOPPING = {"count": 200, "until_decided": True, "doses": []}
PLAIN = {"count": 20, "until_decided": False, "doses": []}


@pytest.mark.parametrize(
    ("run", "design"),
    [
        ({}, Design()),
        (PLAIN, Design()),
        (STOPPING, Design(adaptive=True, most=200)),
        ({**PLAIN, "doses": [0, 10, 50]}, Design(doses=3)),
        ({**STOPPING, "doses": [0, 10, 50]}, Design(adaptive=True, most=600, doses=3)),
        ({**PLAIN, "doses": "search"}, Design(adaptive=True)),
        ({"merged": [STOPPING, STOPPING]}, Design(adaptive=True, most=400)),
        ({"merged": [STOPPING, PLAIN]}, Design(adaptive=True)),
    ],
    ids=["an older one", "plain", "until decided", "doses", "both", "a search", "merged", "merged with a plain one"],
)
def test_the_design_follows_from_the_run(run: dict[str, Any], design: Design) -> None:
    """What was adaptive stays so in a merged report; a bound is known only if each part has one."""
    assert design_of(run) == design


def test_a_killed_run_still_pays_for_having_been_looked_at(tmp_path: Path) -> None:
    """run.json tells of it, so a run that left no summary is not read as one of a fixed number of trials."""
    report(tmp_path, "v" * 5, "h" * 5, facts=STOPPING)
    (experiment,) = load(tmp_path).summary.experiments
    assert experiment.p_value == pytest.approx(0.0470, abs=1e-4)
    assert experiment.arms["treatment"].anytime
    assert "Decided after 5 of up to 200 trials an arm" in experiment.words
