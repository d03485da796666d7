"""The report in a real browser: it opens at once, draws, and asks nobody for anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from holdback.report import write_all
from tests.report.sample import dosed, report

TRIAL = "a-drained-workload-is-admitted-again-control-007"
EVIL = "<img src=x onerror='window.evil=1'><script>window.evil=1</script>"

_LINES_OF = """Math.max(...[...document.querySelectorAll(arguments[0])].map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return range.getClientRects().length;
}))"""
_CLIPPED = """[...document.querySelector(arguments[0]).querySelectorAll(".annotation-text")]
    .filter((each) => each.getBoundingClientRect().right > innerWidth).map((each) => each.textContent)"""

_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"

T = TypeVar("T")


class Reader:
    """Looks at one page."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def open(self, page: Path, *, hash_: str = "", width: int = 1200, dark: bool = False) -> None:
        """Open it afresh, in a window of that width; narrow ones are phones."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self.browser.get("about:blank")
        self.browser.get(page.as_uri() + hash_)

    def all(self, css: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def one(self, css: str) -> WebElement:
        """The first such element, as soon as it is there."""
        return self.until(lambda: next(iter(self.all(css)), None))

    def until(self, found: Callable[[], T | None]) -> T:
        """What `found` gives once it gives something, within a minute."""

        def asked(_: Chrome) -> T | Literal[False]:
            return found() or False

        return WebDriverWait(self.browser, 60).until(asked)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(f"return {script}", *arguments)

    def drawn(self, css: str) -> WebElement:
        """The first such figure, as soon as all of it is drawn."""
        return self.one(f"{css}[aria-busy='false']:has(.main-svg)")

    def finished(self, figure: WebElement) -> None:
        """Wait until all of that figure is drawn, once it is asked for."""
        self.until(lambda: figure.get_attribute("aria-busy") == "false")

    def click(self, css: str) -> None:
        """Click as the page's script sees it, wherever it has scrolled to."""
        self.run("arguments[0].click()", self.one(css))

    def reach(self, css: str) -> None:
        """Scroll to it, which draws it if it is a figure."""
        self.run("arguments[0].scrollIntoView()", self.one(css))

    def problems(self) -> list[str]:
        """What the browser complained of since the last time."""
        return [entry["message"] for entry in self.browser.get_log("browser")]  # type: ignore[no-untyped-call]

    def requested(self) -> list[str]:
        """Everything that the page loaded beside itself."""
        return list(self.run("performance.getEntriesByType('resource').map((entry) => entry.name)"))


@pytest.fixture
def reader(chromium: Chrome) -> Iterator[Reader]:
    """A reader; a test during which the browser complains fails."""
    looking = Reader(chromium)
    looking.problems()
    yield looking
    assert looking.problems() == []
    assert looking.requested() == []


def test_400_trials_are_small_and_open_at_once(reader: Reader, night: Path) -> None:
    """Below 10 MB, loaded in under 2 s; of five times the best, for the machine may be busy with other things."""
    assert night.stat().st_size < 10_000_000
    seconds = []
    for _ in range(5):
        reader.open(night)
        # The browser notes the end of the load a moment after it has told of it.
        seconds.append(reader.until(lambda: float(reader.run(_LOADED))) / 1000)
    assert min(seconds) < 2, seconds
    assert reader.one("h1").text == "FIXED"
    assert len(reader.all(".trials tbody tr")) == 400


def test_figures_are_drawn_when_they_are_reached(reader: Reader, night: Path) -> None:
    """At first none is drawn and Plotly is not even unpacked; each is drawn once it comes into view."""
    reader.open(night)
    assert reader.run("typeof window.Plotly") == "undefined"
    figures = reader.all("main .figure")
    assert len(figures) == 3  # two timelines and the timings
    for number, figure in enumerate(figures):
        reader.run("arguments[0].scrollIntoView()", figure)
        reader.finished(figure)
        assert number < 2 or figure.find_elements(By.CSS_SELECTOR, ".boxlayer path")


def test_a_dose_has_its_curve_and_band(reader: Reader, tmp_path: Path) -> None:
    """With several doses each arm has a filled band, a fitted line, and a point with its interval at every dose."""
    dosed(tmp_path, "hhhhvhvvvv", "h" * 10, (0, 10, 25, 50, 100)).summarise({"interrupted": False})
    assert tmp_path / "index.html" in write_all(tmp_path)
    reader.open(tmp_path / "index.html")
    heading = next(each for each in reader.all("h3") if each.text == "Dose and response")
    reader.run("arguments[0].nextElementSibling.nextElementSibling.scrollIntoView()", heading)
    assert "Half of the control trials fail at " in reader.run("arguments[0].nextElementSibling.textContent", heading)
    figure = reader.run("arguments[0].nextElementSibling.nextElementSibling", heading)
    reader.finished(figure)
    assert [tick.text for tick in figure.find_elements(By.CSS_SELECTOR, ".xtick text")] == [
        "0",
        "10",
        "25",
        "50",
        "100",
    ]
    counts = {css: len(figure.find_elements(By.CSS_SELECTOR, css)) for css in (".js-fill", ".js-line", ".yerror")}
    assert counts == {".js-fill": 2, ".js-line": 4, ".yerror": 10}  # a line each for the fit and the band's outline


def test_a_timeline_opens_with_its_lanes_and_its_text(reader: Reader, night: Path) -> None:
    """A click opens the trial's lanes: states as bars, the fault as a band, nine refusals in red, and all as text."""
    reader.open(night)
    reader.click(f".trials [data-open='{TRIAL}']")
    reader.drawn("#viewer[open] #viewer-figure")
    assert reader.all("#viewer .barlayer path")
    entries = [entry.text for entry in reader.all("#viewer-entries li")]
    assert any("evict" in entry for entry in entries)
    assert any("403 PATCH" in entry for entry in entries)
    drawn = reader.run(
        "document.querySelector('#viewer .js-plotly-plot').data.map((trace) => [trace.name, trace.x.length])"
    )
    assert dict(drawn)["refused"] == 9
    assert {"admitted", "quota reserved", "delayed"} <= dict(drawn).keys()
    assert reader.run("location.hash") == f"#trial={TRIAL}"


def test_the_next_trial_and_back(reader: Reader, night: Path) -> None:
    """From one trial to the next of the list; closed, the page is as before."""
    reader.open(night, hash_=f"#trial={TRIAL}")
    reader.drawn("#viewer[open] #viewer-figure")
    reader.click("#viewer [data-step='1']")
    title = reader.one("#viewer-title").text
    assert title == TRIAL.replace("control", "treatment")
    reader.drawn("#viewer-figure")
    assert reader.all("#viewer-entries li")
    reader.click("#viewer [data-close]")
    assert not reader.all("#viewer[open]")
    reader.until(lambda: reader.run("location.hash === ''"))  # the browser tells the page a moment later


def test_the_last_of_many_steps_is_what_is_shown(reader: Reader, night: Path) -> None:
    """However quickly one goes on, figure and text are those of the trial that the title names."""
    reader.open(night, hash_=f"#trial={TRIAL}")
    for _ in range(8):
        reader.click("#viewer [data-step='1']")
    reader.drawn("#viewer-figure")
    title = reader.one("#viewer-title").text
    assert title != TRIAL
    assert reader.one("#viewer-figure .title").get_attribute("textContent") == title


def test_zooming(reader: Reader, night: Path) -> None:
    """The buttons narrow the time to the fault, widen it again, and move it."""
    reader.open(night, hash_=f"#trial={TRIAL}")
    reader.drawn("#viewer-figure")

    def span() -> list[float]:
        return [
            float(end) for end in reader.run("document.querySelector('#viewer .js-plotly-plot').layout.xaxis.range")
        ]

    low, high = span()
    reader.click("#viewer [title='while faults were in force']")
    reader.until(lambda: low + 0.5 < span()[0] < 1.1)
    reader.click("#viewer [title='zoom in']")
    reader.until(lambda: span()[1] - span()[0] < 0.7 * (high - low))
    reader.click("#viewer [title='the whole trial']")
    reader.until(lambda: span() == pytest.approx([low, high]))


def test_trials_can_be_filtered(reader: Reader, night: Path) -> None:
    """An arm's outcome that is switched off disappears from the list."""
    reader.open(night)
    reader.click("[data-group='treatment holds']")
    shown = [row.get_attribute("data-group") for row in reader.all(".trials tbody tr:not([hidden])")]
    assert len(shown) == 201
    assert "treatment holds" not in shown


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_wide_and_narrow(reader: Reader, night: Path, tmp_path: Path, width: int, dark: bool) -> None:
    """Nothing is wider than the window, and text stands out from its ground, in the page and in a figure."""
    reader.open(night, hash_=f"#trial={TRIAL}", width=width, dark=dark)
    reader.drawn("#viewer-figure")
    assert reader.run("document.querySelector('#viewer').scrollWidth <= innerWidth")
    reader.click("#viewer [data-close]")
    assert reader.run("document.documentElement.scrollWidth <= innerWidth")
    ground = lightness(reader.run("getComputedStyle(document.body).backgroundColor"))
    text = lightness(reader.run("getComputedStyle(document.body).color"))
    assert (ground < 0.2, text > 0.8) == (dark, dark)
    assert reader.run(_LINES_OF, ".scale span:first-child") == 1
    reader.reach("main .lanes")
    reader.drawn("main .lanes")
    title = reader.one("main .xtitle")
    assert reader.run(_CLIPPED, "main .lanes") == []
    assert (lightness(title.value_of_css_property("fill")) > 0.8) is dark


def lightness(colour: str) -> float:
    """Of `rgb(r, g, b)`, from 0 to 1."""
    return sum(float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]) / 765


def test_no_word_of_a_user_runs(reader: Reader, tmp_path: Path) -> None:
    """Markup in names, reasons and faults is shown as text, in the figures' labels too."""
    report(tmp_path, "vv", "hh", reason=EVIL, variant=EVIL, experiment=f"x.py::test_x[{EVIL}]")
    page = tmp_path / "index.html"
    for path in (tmp_path / "histories").iterdir():
        path.write_text(path.read_text().replace("delay 100 ms", EVIL))
    assert page in write_all(tmp_path)
    reader.open(page, hash_=f"#trial={TRIAL.replace('007', '001')}")
    reader.drawn("#viewer-figure")
    labels = [label.get_attribute("textContent") for label in reader.all("#viewer .annotation-text")]
    assert any("<img src=x" in (label or "") for label in labels)
    assert "<img src=x" in reader.one("#viewer-about").text
    assert reader.run("typeof window.evil") == "undefined"


def test_an_old_browser_still_shows_the_verdict(reader: Reader, night: Path) -> None:
    """Without DecompressionStream the figures say why they are missing; verdict and table are there."""
    script = {"source": "delete window.DecompressionStream"}
    added = reader.browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    try:
        reader.open(night)
        reader.reach("main .figure")
        assert "from before 2023" in reader.one("main .figure .warning").text
        assert reader.one("h1").text == "FIXED"
    finally:
        reader.browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
