"""What a checkout's hash depends on: everything a build reads, and nothing that git ignores."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdback.controllers.kueue.checkout import content_hash, copy, outside


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True)


def edit(root: Path) -> None:
    (root / "cmd/kueue/main.go").write_text("package main\n", encoding="utf-8")


def add(root: Path) -> None:
    (root / "new.go").touch()


def remove(root: Path) -> None:
    (root / "pkg/version/version.go").unlink()


def rename(root: Path) -> None:
    (root / "pkg/version/version.go").rename(root / "pkg/version/other.go")


@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("change", [edit, add, remove, rename])
def test_every_change_counts(checkout: Path, change: Callable[[Path], None], *, versioned: bool) -> None:
    """Committed or not, an edited, new, removed or renamed file is another source; undone it is the same again."""
    if versioned:
        git(checkout, "init", "-q")
        git(checkout, "add", ".")
    before = content_hash(checkout)
    assert content_hash(checkout) == before
    change(checkout)
    assert content_hash(checkout) != before


def test_what_git_ignores_does_not_count(checkout: Path) -> None:
    """Tools and build results that git ignores are neither hashed nor copied."""
    git(checkout, "init", "-q")
    (checkout / ".gitignore").write_text("bin/\n", encoding="utf-8")
    before = content_hash(checkout)
    (checkout / "bin").mkdir()
    (checkout / "bin" / "tool").touch()
    assert content_hash(checkout) == before
    copy(checkout, checkout.parent / "copy")
    assert not (checkout.parent / "copy" / "bin").exists()
    assert (checkout.parent / "copy" / "cmd/kueue/main.go").exists()


def test_an_enclosing_repository_hides_nothing(checkout: Path) -> None:
    """A checkout in a folder that an enclosing repository ignores still has all its files."""
    git(checkout.parent, "init", "-q")
    (checkout.parent / ".gitignore").write_text("checkout/\n", encoding="utf-8")
    before = content_hash(checkout)
    edit(checkout)
    assert content_hash(checkout) != before


def test_modules_from_beside_the_checkout_count(checkout: Path) -> None:
    """A folder that go.mod takes in place of a module is a part of the source."""
    beside = checkout.parent / "beside"
    beside.mkdir()
    with (checkout / "go.mod").open("a", encoding="utf-8") as file:
        file.write("\nreplace (\n\ta.b/c => ../beside\n\ta.b/d => ./pkg\n\ta.b/e => a.b/f v1.0.0\n)\n")
    assert outside(checkout) == [beside]
    before = content_hash(checkout)
    (beside / "c.go").touch()
    assert content_hash(checkout) != before
