"""A folder with Kueue's source: which files it is made of, and a hash of them.

The hash decides whether a checkout was built before, so everything that a build reads must be in it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

__all__ = ["content_hash", "copy", "outside"]


def content_hash(root: Path) -> str:
    """Hash every file of the checkout and of the folders its go.mod takes in place of modules."""
    digest = hashlib.blake2b(digest_size=16)
    for folder in [root, *outside(root)]:
        for relative in _files(folder):
            path = folder / relative
            content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            for part in (relative.encode(), content):
                digest.update(len(part).to_bytes(8, "big"))
                digest.update(part)
    return digest.hexdigest()


def copy(root: Path, target: Path) -> None:
    """Copy the checkout's files."""
    for relative in _files(root):
        to = target / relative
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / relative, to, follow_symlinks=False)


def outside(root: Path) -> list[Path]:
    """Folders outside the checkout that its go.mod takes in place of modules."""
    text = (root / "go.mod").read_text(encoding="utf-8")
    folders = [(root / path).resolve() for path in re.findall(r"=>\s+(\.{1,2}/\S*|/\S+)", text)]
    return [folder for folder in folders if folder.is_dir() and not folder.is_relative_to(root.resolve())]


def _files(root: Path) -> list[str]:
    """Relative paths, sorted. In a git checkout without what git ignores: tools and build results are large."""
    if (root / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            capture_output=True,
            check=False,
        )
        if listed.returncode == 0:
            names = {name for name in listed.stdout.decode(errors="surrogateescape").split("\0") if name}
            return sorted(name for name in names if _is_file(root / name))
    found = (path for path in root.rglob("*") if ".git" not in path.relative_to(root).parts and _is_file(path))
    return sorted(str(path.relative_to(root)) for path in found)


def _is_file(path: Path) -> bool:
    return path.is_symlink() or path.is_file()
