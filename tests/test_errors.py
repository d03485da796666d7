"""The tree of errors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import holdback
from holdback import errors

SOURCE = Path(holdback.__file__).parent


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Every place that makes an error of the tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in errors.__all__:
                yield node


def test_every_error_says_what_to_do() -> None:
    """No place in the product makes an error without a remedy: a cause alone leaves the reader with it."""
    places = [(path, call) for path in SOURCE.rglob("*.py") for call in calls(ast.parse(path.read_text()))]
    assert len(places) > 50
    silent = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path, call in places
        if not any(word.arg == "remedy" and not _empty(word.value) for word in call.keywords)
    ]
    assert not silent


def _empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value
