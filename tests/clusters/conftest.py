"""The scripted server, as a fixture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.server import Scripted, scripted


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Scripted]:
    """A TLS server that answers as the test tells it."""
    with scripted(tmp_path) as running:
        yield running
