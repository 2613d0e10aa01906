"""Colours and marks of components, legible on light and on dark pages."""

from __future__ import annotations

from typing import NamedTuple

# each has a contrast of at least 3 to the light and to the dark background
COLOURS = (
    "#3a87c8",
    "#d5652a",
    "#1f9c74",
    "#b35fae",
    "#a8830f",
    "#d1577f",
    "#6f7fd6",
    "#5f9a2f",
    "#b0644a",
    "#2a9db0",
)
NEUTRAL = "#7d8590"
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "hex", "star")
PATHS = {
    "circle": "M7 2a5 5 0 1 1 0 10a5 5 0 1 1 0-10z",
    "square": "M2.5 2.5h9v9h-9z",
    "triangle": "M7 2l5.5 10h-11z",
    "diamond": "M7 1.5l4.5 5.5l-4.5 5.5l-4.5-5.5z",
    "inverted_triangle": "M7 12l5.5-10h-11z",
    "hex": "M7 1.5l4.8 2.75v5.5l-4.8 2.75l-4.8-2.75v-5.5z",
    "star": "M7 1.2l1.7 3.9 4.2.4-3.2 2.8 1 4.1L7 10.2 3.3 12.4l1-4.1L1.1 5.5l4.2-.4z",
    "line": "M1 7h12",
}


class Mark(NamedTuple):
    """An entry of a legend: a label, a colour, and a marker of Bokeh or "line"."""

    label: str
    colour: str
    marker: str = "square"

    @property
    def path(self) -> str:
        """The shape as a path of SVG, in a square of 14 units."""
        return PATHS[self.marker]


def colour_of(component: int) -> str:
    """The colour of a component; that of noise, which has the number -1, is neutral."""
    return NEUTRAL if component < 0 else COLOURS[component % len(COLOURS)]


def marker_of(component: int) -> str:
    """The marker of a component; with the colour it tells 70 components apart."""
    return "star" if component < 0 else MARKERS[component % len(MARKERS)]
