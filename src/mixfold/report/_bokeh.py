"""Bokeh, which is imported where it is used, and the figures of all pages."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import MissingExtraError

TOOLS = "box_zoom,pan,zoom_in,zoom_out,reset"
HEIGHT = 340
MOST_TICKS = 4  # across, about so many; labels of more overlap on a phone


def check_bokeh() -> None:
    """Raise an error that names the extra if Bokeh is not installed."""
    try:
        import bokeh.plotting  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("bokeh", "report", "a report") from error


def plain(text: str) -> Any:
    """Text that is drawn as it is, also where it looks like a formula."""
    from bokeh.models import PlainText

    return PlainText(text=text)


def new_figure(
    x_label: str, y_label: str, *, height: int = HEIGHT, tools: str = TOOLS, **more: Any
) -> Any:
    """A figure as wide as the page, with a transparent background and tools beside it.

    No tool is active at first, so that a page can be scrolled by touching a figure; colours of
    axes and grids are those of the page (see theme.js).
    """
    from bokeh.plotting import figure

    made = figure(
        height=height,
        sizing_mode="stretch_width",
        toolbar_location="right",
        tools=tools,
        active_drag=None,
        active_scroll=None,
        active_tap=None,
        active_inspect="auto" if "hover" in tools else None,
        background_fill_alpha=0.0,
        border_fill_alpha=0.0,
        min_border_left=0,
        min_border_right=8,
        **more,
    )
    made.toolbar.logo, made.toolbar.group = None, False
    made.xaxis.axis_label, made.yaxis.axis_label = plain(x_label), plain(y_label)
    if hasattr(made.xaxis.ticker, "desired_num_ticks"):
        made.xaxis.ticker.desired_num_ticks = MOST_TICKS
    for axis in made.axis:
        axis.axis_label_text_font_style = "normal"
        axis.minor_tick_line_color = None
        axis.axis_label_text_font_size = axis.major_label_text_font_size = "13px"
    return made


def name_ticks(axis: Any, names: list[str], direction: int = 1) -> None:
    """Write names at the places 0, 1, 2, ... of an axis, or at 0, -1, -2, ..."""
    axis.ticker = [direction * i for i in range(len(names))]
    axis.major_label_overrides = {direction * i: plain(name) for i, name in enumerate(names)}


def follow_page(model: Any, property: str, variable: str) -> None:
    """Let a property of a model of Bokeh follow a colour of the page, such as "--text"."""
    model.tags = [*model.tags, f"colour:{property}={variable}"]
