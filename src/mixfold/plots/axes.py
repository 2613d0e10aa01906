"""The axes that pictures are drawn on."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError, MissingExtraError

WIDTH, HEIGHT = 6.4, 4.8  # inches, of a picture of one panel


def pyplot() -> Any:
    """matplotlib.pyplot; an error names the extra if it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing") from error
    return plt


def _check_axes(ax: Any) -> None:
    if ax is not None and not hasattr(ax, "get_subplotspec"):
        raise InvalidInputError(f"ax is {ax!r}: give matplotlib Axes, such as those of plt.gca()")


def axes_for(ax: Any) -> Any:
    """The given axes, or the current ones of pyplot."""
    plt = pyplot()
    if ax is None and not plt.get_fignums():
        plt.figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    if isinstance(ax, np.ndarray | list | tuple):
        return panels_for(ax, 1, 1)[0, 0]
    _check_axes(ax)
    return plt.gca() if ax is None else ax


def panels_for(ax: Any, rows: int, columns: int, size: tuple[float, float] = (2.6, 2.2)) -> Any:
    """Axes (rows, columns) of panels, in a new figure or in the place of the given axes.

    Parameters
    ----------
    ax : None, Axes or array of rows * columns Axes
    rows, columns : int
    size : pair of float
        Width and height of a panel of a new figure, in inches.
    """
    plt = pyplot()
    if ax is None:
        figure = plt.figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
        return figure.subplots(rows, columns, squeeze=False)
    if isinstance(ax, np.ndarray | list | tuple):
        given = np.asarray(ax, dtype=object)
        if given.size != rows * columns:
            raise InvalidInputError(
                f"ax has {given.size} axes, and {rows} x {columns} panels are drawn: give an array "
                "of that many, a single one, or none"
            )
        return given.reshape(rows, columns)
    _check_axes(ax)
    place = ax.get_subplotspec()
    if place is None:
        raise InvalidInputError(
            "ax has no place in a grid of subplots, so that it cannot be divided into "
            f"{rows} x {columns} panels: use axes of plt.subplots(), or leave ax out"
        )
    ax.set_axis_off()
    return place.subgridspec(rows, columns).subplots(squeeze=False)
