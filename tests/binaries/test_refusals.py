"""What Go says when it refuses, made into errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdback.binaries.refusals import explain
from holdback.errors import BuildError

REFUSALS = {
    "a version that the proxy does not serve": (
        [
            "sigs.k8s.io/kueue@v0.17.3: reading https://proxy.example/sigs.k8s.io/kueue/@v/v0.17.3.info: 403 Forbidden",
            "\tserver response: This module version is not available.",
        ],
        "sigs.k8s.io/kueue v0.17.3",
    ),
    "a version that does not exist": (
        ["go: sigs.k8s.io/kueue@v9.9.9: invalid version: unknown revision v9.9.9"],
        "sigs.k8s.io/kueue v9.9.9",
    ),
    "a module named only when its download began": (
        ["go: downloading github.com/a/b v1.0.0", "github.com/some/package", "module lookup disabled by GOPROXY=off"],
        "github.com/a/b v1.0.0",
    ),
    "a machine without a network": (
        [
            'main.go:3:8: example.com/m@v1.0.0: Get "https://proxy.example/example.com/m/@v/v1.0.0.zip": '
            "dial tcp: lookup proxy.example: no such host"
        ],
        "example.com/m v1.0.0",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_module_and_version(name: str, tmp_path: Path) -> None:
    """Module, version, Go's own words and the alternatives are in the error."""
    lines, module = REFUSALS[name]
    error = explain("thing", lines, alternatives="take a ready one", cache=tmp_path)
    assert isinstance(error, BuildError)
    assert f"does not give {module}\n" in error.message
    assert lines[-1].strip() in error.message
    assert error.remedy.startswith("take a ready one")


def test_a_changed_module_is_no_mere_refusal(tmp_path: Path) -> None:
    """A checksum that differs tells not to use the module, rather than to take another proxy."""
    lines = ["verifying a.b/c@v1.0.0: checksum mismatch", "SECURITY ERROR", "This download does NOT match"]
    error = explain("thing", lines, alternatives="x", cache=tmp_path)
    assert "not the one that was pinned" in error.message
    assert error.remedy.startswith("do not use it")


def test_a_full_disk_is_no_compiler_error(tmp_path: Path) -> None:
    """The linker's `no space left on device` becomes the error for a full disk."""
    lines = ["# thing", "link: writing /somewhere: no space left on device"]
    assert "MiB free" in explain("thing", lines, alternatives="x", cache=tmp_path / "absent").message


def test_only_the_end_is_shown(tmp_path: Path) -> None:
    """Of a thousand complaints the last ones are shown, without the packages that went well."""
    lines = [*(f"file.go:{number}: bad" for number in range(1000)), "some/good/package"]
    message = explain("thing", lines, alternatives="x", cache=tmp_path).message
    assert "file.go:999: bad" in message
    assert "file.go:900:" not in message
    assert "some/good/package" not in message
