from __future__ import annotations

import pytest

# Imported before any inner session: pytester forgets what an inner session imported, and numpy refuses to come twice.
import holdback.plugin
import holdback.report.files
import holdback.report.page
import holdback.report.terminal
import holdback.statistics  # noqa: F401
from tests.plugin.inner import CONFTEST, SOURCE


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with a world, and a pytest that has our plugin and those it works with, and no other one."""
    pytester.makeconftest(CONFTEST)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "holdback.plugin,pytest_repeat,xdist.plugin")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return pytester
