"""An API server of another minor version than the experiments were made for is told."""

from __future__ import annotations

from holdback.binaries.pins import pin
from holdback.controllers.kueue.servers import doubts


def test_only_another_minor_version_is_doubted() -> None:
    """Patch releases and distributions of the pinned minor version are fine, as is a version nobody can read."""
    pinned = pin("kube-apiserver").version
    minor = pinned.rpartition(".")[0]
    assert [doubts(version) for version in (pinned, f"{minor}.99", f"{minor}.1-gke.7", "unknown")] == [""] * 4
    assert f"made for {minor.removeprefix('v')}" in doubts("v1.36.0")
