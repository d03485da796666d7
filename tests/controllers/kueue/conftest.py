"""A source tree that is to Kueue what a doll is to a person: everything that a build touches is there."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from holdback.binaries import Binaries, Progress

MAIN = """package main

import (
	"fmt"

	"sigs.k8s.io/kueue/pkg/version"
)

func main() {
	fmt.Println("plain", version.GitVersion)
}
"""
PATCH = """A patch of one added line.

diff --git a/cmd/kueue/main.go b/cmd/kueue/main.go
--- a/cmd/kueue/main.go
+++ b/cmd/kueue/main.go
@@ -10,2 +10,3 @@
 	fmt.Println("plain", version.GitVersion)
+	fmt.Println("patched")
 }
"""  # noqa: E101


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    files = {
        "go.mod": "module sigs.k8s.io/kueue\n\ngo 1.25.0\n",
        "cmd/kueue/main.go": MAIN,
        "pkg/version/version.go": 'package version\n\nvar GitVersion = "unstamped"\n',
        "config/default/kustomization.yaml": "kind: Kustomization\n",
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def kueue_binaries(tmp_path: Path) -> Binaries:
    """A cache of its own, and a kustomize that prints what it was asked to read."""
    kustomize = tmp_path / "kustomize"
    kustomize.write_text('#!/bin/sh\n[ "$1" = build ] && cat "$2/kustomization.yaml"\n', encoding="utf-8")
    kustomize.chmod(0o755)
    return Binaries(explicit={"kustomize": kustomize}, cache=tmp_path / "cache", progress=Progress(io.StringIO()))
