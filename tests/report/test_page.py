import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from holdback.report.evidence import load
from holdback.report.page import page
from holdback.trials.outcome import Outcome
from tests.report.sample import EXPERIMENT, dosed, report, row

EVIL = """<script>alert("x")</script><img src=x onerror=alert(1)>'"</title></style>"""


class Page(HTMLParser):
    """Elements with their attributes, what is seen, and what is in scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.seen = ""
        self.scripts: list[tuple[dict[str, str], str]] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        self._inside = tag if tag in {"script", "style"} else self._inside
        if tag == "script":
            self.scripts.append((attributes, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif not self._inside:
            self.seen += data

    def packed(self, prefix: str) -> list[str]:
        found = [text for attributes, text in self.scripts if attributes.get("id", "").startswith(prefix)]
        return [gzip.decompress(base64.b64decode(text)).decode() for text in found]

    def timelines(self) -> dict[str, Any]:
        return {trial: data for parcel in self.packed("parcel-") for trial, data in json.loads(parcel).items()}


def made(directory: Path, **options: Any) -> Page:
    return Page(page(load(directory), progress=lambda _done, _of: None, **options))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Page:
    directory = tmp_path_factory.mktemp("report")
    report(directory, "v" * 8 + "ui", "h" * 10).summarise({"interrupted": False})
    return made(directory)


def test_the_verdict_comes_first_then_both_arms(plain: Page) -> None:
    """A reader sees the verdict, what it means, and each arm's rate and interval, in this order."""
    order = ["FIXED", "A drained workload is admitted again", "The bug showed in 8 of 8", "100.0%", "0.0%"]
    places = [plain.seen.index(each) for each in order]
    assert places == sorted(places)
    assert "true rate 63.1% to 100.0%, exact 95% interval" in plain.seen
    assert "Interrupted" not in plain.seen


def test_every_trial_is_listed_and_its_timeline_is_there(plain: Page) -> None:
    """Each row opens a timeline that is packed in the page, in the parcel that the row names."""
    buttons = [attributes for tag, attributes in plain.elements if tag == "button" and "data-parcel" in attributes]
    assert len(buttons) == 20
    parcels = [json.loads(parcel) for parcel in plain.packed("parcel-")]
    assert all(button["data-open"] in parcels[int(button["data-parcel"])] for button in buttons)


def test_what_ran_and_how_to_repeat_it(plain: Page) -> None:
    """Variants, gates, machine, versions and the command with its seed are told."""
    assert "Kueue v0.17.0 + guard.patch, gates MultiKueueGuard=true" in plain.seen
    assert "pytest --count=2 e2e/test_readmission.py --holdback-seed=7" in plain.seen
    assert "Linux-6.1" in plain.seen


def test_the_paths_and_where_they_part(plain: Page) -> None:
    """Happy and unhappy stand side by side, each with the mark, and with pictures of both."""
    assert plain.seen.count("here the paths part") == 2
    drawn = [attributes["data-trial"] for tag, attributes in plain.elements if "data-until" in attributes]
    assert [trial.rpartition("-again-")[2] for trial in drawn] == ["treatment-001", "control-001"]


def test_the_dose_curve_stands_below_the_arms(tmp_path: Path) -> None:
    """With several doses their curve comes after the arms and before the paths, and the counts are there as a table."""
    dosed(tmp_path, "hhvvvv", "h" * 6, (0, 10, 100)).summarise({"interrupted": False})
    seen = made(tmp_path).seen
    order = ["Treatment", "Dose and response", "Violated trials at each dose", "Where the happy and the unhappy path"]
    places = [seen.lower().index(each.lower()) for each in order]
    assert places == sorted(places)
    assert "10 ms2 of 2" in seen


def test_without_a_dose_there_is_no_word_of_it(tmp_path: Path) -> None:
    """Where no fault delayed anything, no trial is said to have a dose of 0 ms."""
    report(tmp_path, "v", "h", dose_milliseconds=0.0)
    seen = made(tmp_path).seen
    assert "dose" not in seen


def test_what_ran_leaves_out_what_says_nothing(tmp_path: Path) -> None:
    """What was not asked for and process ids are no facts for a reader; the load is told to three digits."""
    facts = {"until_decided": False, "process": {"pid": 7, "created": 1.5}, "machine": {"load": [2.91796875, 12.28]}}
    report(tmp_path, "v", "h", facts=facts)
    seen = made(tmp_path).seen
    assert "machine load2.92, 12.3" in seen
    assert not [word for word in ("until decided", "pid", "created") if word in seen]


def test_nothing_is_fetched(plain: Page) -> None:
    """No element names another address, no style loads one, and the page itself forbids it to the browser."""
    for tag, attributes in plain.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        assert not {"src", "action", "data", "srcset", "poster", "background"} & attributes.keys()
        assert attributes.get("href", "#").startswith("#")
    policy = next(a["content"] for t, a in plain.elements if t == "meta" and a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    style = Path("src/holdback/report/assets/page.css").read_text()
    assert "url(" not in style
    assert "@import" not in style


def test_plotly_is_in_the_page_once(plain: Page) -> None:
    """The library is packed as a whole; no second copy, no other version from elsewhere."""
    (library,) = plain.packed("plotly")
    assert "plotly.js v" in library[:200]


def test_no_word_of_a_user_becomes_markup(tmp_path: Path) -> None:
    """Scripts in names, reasons, variants, faults, run.json and damaged lines are shown as they are and do nothing."""
    name = f"e2e/x.py::test_x[{EVIL}]"
    texts: dict[str, Any] = {"experiment": name, "reason": EVIL, "variant": EVIL, "faults": (EVIL,)}
    store = report(tmp_path, "vv", "hh", facts={"command": ["pytest", EVIL], EVIL: EVIL}, **texts)
    with store.trials_path.open("a") as file:
        file.write(json.dumps({"schema": 1, EVIL: EVIL}) + "\n")
    evil = made(tmp_path)
    scripts = [attributes for attributes, _ in evil.scripts]
    assert [each for each in scripts if each.get("type") not in {"application/json", "text/plain"}] == [{}]
    assert not [tag for tag, _ in evil.elements if tag == "img"]
    assert not [name for _, attributes in evil.elements for name in attributes if name.startswith("on")]
    assert evil.seen.count('<script>alert("x")</script>') > 10


def test_what_could_not_be_read_is_told(tmp_path: Path) -> None:
    """Damaged rows, damaged events, missing histories and unfinished trials are all named."""
    store = report(tmp_path, "vv", "hh")
    with store.trials_path.open("a") as file:
        file.write("{broken\n")
    torn, gone = sorted(store.histories.iterdir())[:2]
    torn.write_text(torn.read_text() + "{broken\n")
    lines = len(torn.read_text().splitlines())
    gone.unlink()
    store.plan({"id": "never-judged"})
    seen = made(tmp_path).seen
    assert "2 damaged lines of evidence were skipped" in seen
    assert "trials.jsonl, line 5" in seen
    assert f"{torn.name}, line {lines}" in seen
    assert f"Trials without a readable history: {gone.stem}" in seen
    assert "begun and not judged: never-judged" in seen


def test_a_run_without_trials_has_a_page(tmp_path: Path) -> None:
    """Killed before its first trial was judged, a run still says what it was."""
    report(tmp_path, "", "").plan({"id": "begun"})
    seen = made(tmp_path).seen
    assert "No verdict, for no trial was completed" in seen
    assert "Interrupted" in seen


def test_objects_do_not_swell_the_page(tmp_path: Path) -> None:
    """Objects of 4 kB take the same room as small ones: what is shown is what changed in them."""
    report(tmp_path / "small", "v", "h", events=150)
    report(tmp_path / "large", "v", "h", events=150, bulk=4000)
    small, large = (sum(map(len, made(tmp_path / name).packed("parcel-"))) for name in ("small", "large"))
    assert abs(large - small) < 0.1 * small


def test_400_trials_fit_into_10_megabytes(tmp_path: Path) -> None:
    """A tenth of them is made; what grows with their number is counted ten times."""
    report(tmp_path / "none", "", "").plan({"id": "begun"})
    report(tmp_path / "some", "v" * 20, "h" * 20, events=150)
    none, some = (
        len(page(load(tmp_path / name), progress=lambda _done, _of: None).encode()) for name in ("none", "some")
    )
    assert none + 10 * (some - none) < 10_000_000


def test_what_does_not_fit_is_left_out_evenly_and_told(tmp_path: Path) -> None:
    """With little room each arm and outcome keeps some timelines, and the page says how many are missing."""
    report(tmp_path, "v" * 20 + "h" * 20, "h" * 40, events=60)
    small = made(tmp_path, room=20_000)
    kept = small.timelines()
    assert 0 < len(kept) < 80
    told = re.search(r"The timelines of (\d+) of 80 trials", small.seen)
    assert told is not None
    assert int(told[1]) == 80 - len(kept)
    groups = [sum(f"-{arm}-" in trial for trial in kept) for arm in ("control", "treatment")]
    assert groups[0] == pytest.approx(2 * groups[1], abs=2)
    assert "holdback show TRIAL" in small.seen


def test_several_experiments_each_have_a_verdict(tmp_path: Path) -> None:
    """The headline counts them, and each has its own section; figures are about its own trials."""
    store = report(tmp_path, "v" * 6, "h" * 6)
    for index in range(6):
        for arm in ("control", "treatment"):
            other = row(arm, index, Outcome.VIOLATED, experiment="e2e/y.py::test_y", id=f"y-{arm}-{index + 1:03d}")
            store.judged(other.to_json())
    seen = made(tmp_path).seen
    assert "1 of 2 experiments are FIXED" in seen
    assert seen.count("control 6 of 6, treatment 0 of 6 violated") == 1
    assert EXPERIMENT in seen
    assert "e2e/y.py::test_y" in seen
