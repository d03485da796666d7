"""A tiny Go module, and a workshop with a cache of its own."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdback.binaries.cache import Cache
from holdback.binaries.progress import Progress
from holdback.binaries.workshop import Source, Workshop

MAIN = """package main

import "fmt"

var greeting = "unstamped"

func main() { fmt.Println(greeting) }
"""


@dataclass
class Tiny:
    """A Go module without dependencies that prints its stamp."""

    directory: Path

    @property
    def source(self) -> Source:
        return Source("tiny", self.directory, ".", {"main.greeting": "hello"}, "use another one")

    def rewrite(self, text: str) -> None:
        (self.directory / "main.go").write_text(text, encoding="utf-8")


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    directory = tmp_path / "tiny"
    directory.mkdir()
    (directory / "go.mod").write_text("module example.invalid/tiny\n\ngo 1.26.0\n", encoding="utf-8")
    made = Tiny(directory)
    made.rewrite(MAIN)
    return made


@pytest.fixture
def said() -> io.StringIO:
    """What the workshop's progress printed."""
    return io.StringIO()


@pytest.fixture
def workshop(tmp_path: Path, said: io.StringIO) -> Workshop:
    return Workshop(Cache(tmp_path / "cache"), Progress(said))
