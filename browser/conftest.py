"""A real Chromium, and a report as large as a night's run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from holdback.report import write_all
from tests.report.sample import report

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SWITCHES = (
    "--headless",
    "--no-sandbox",  # containers have no namespaces for it; the page is our own
    "--disable-dev-shm-usage",  # containers have little of it, and a page of 10 MB then crashes now and then
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 400 trials, each of 150 events with objects as large as those of Kueue."""
    directory = tmp_path_factory.mktemp("night")
    report(directory, "v" * 199 + "u", "h" * 199 + "i", events=150, bulk=1000).summarise({"interrupted": False})
    assert directory / "index.html" in write_all(directory)
    return directory / "index.html"


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A browser with a profile of its own, driven by the chromedriver that came with it."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if not (browser and driver):
        pytest.fail(
            "no Chromium and chromedriver on the PATH\n  -> apt-get install chromium chromium-driver (Debian, Ubuntu), "
            "brew install --cask chromium chromedriver (macOS)",
            pytrace=False,
        )
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for switch in (*_SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    os.environ["SE_OFFLINE"] = "true"  # Selenium would fetch a driver if it did not like ours
    with webdriver.Chrome(options=options, service=Service(driver)) as started:
        yield started
