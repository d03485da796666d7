"""What all tests share: the real executables, found or built once, and nothing of where they happen to run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdback.binaries import Binaries


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    """Finder of the executables; the ones that tests without a cluster use are there already."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():  # a first build takes minutes and must be seen
        found = Binaries()
        found.get("caddy", "toxiproxy-server")
    return found


@pytest.fixture(autouse=True, scope="session")
def nowhere() -> Iterator[None]:
    """No test writes on the page of a CI job that it runs in, nor in the colours that somebody likes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("GITHUB_STEP_SUMMARY", "FORCE_COLOR", "NO_COLOR"):
            patch.delenv(name, raising=False)
        yield
