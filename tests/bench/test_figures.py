"""Figures beside what was promised."""

from __future__ import annotations

import io

from rich.console import Console

from bench.figures import Figure, machine, table


def test_every_figure_is_shown_in_a_narrow_terminal() -> None:
    """However long a figure's name is, what was measured and promised stands beside it."""
    long = Figure("memory that many words about it grow by " * 3, 12.345, "%", promised=25.0, detail={"Toxiproxy": 17})
    missed = Figure("trials an hour", 599.0, "", promised=600.0, better="more")
    text = io.StringIO()
    Console(file=text, width=80).print(table([long, missed], machine()))
    for word in ("12.35 %", "at most 25", "kept", "Toxiproxy: 17", "599", "at least 600", "missed"):
        assert word in text.getvalue()
