"""What all tests share: the real executables, found or built once."""

from __future__ import annotations

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
