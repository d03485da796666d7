"""What all figures of the page have in common: how they are handed over, the arms' colours, the layout."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COLOURS", "Section", "layout"]

COLOURS = {"control": "#d97706", "treatment": "#3b82f6"}
"""Readable on light and on dark ground, and apart for colour-blind readers."""


@dataclass(frozen=True, slots=True)
class Section:
    """A figure with a heading, and a sentence that says how to read it. `figure` is Plotly's JSON."""

    title: str
    words: str
    figure: str


def layout(height: int) -> dict[str, object]:
    """Of a figure `height` pixels high and as wide as its place; the page's script adds the reader's colours."""
    return {
        "template": "none",
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "legend": {"orientation": "h", "y": 1.12, "x": 0},
        "hoverlabel": {"align": "left"},
        "dragmode": False,
    }
