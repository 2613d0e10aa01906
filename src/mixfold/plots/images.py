"""Means of components whose rows are pictures."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isqrt, sqrt
from typing import Any

import numpy as np

from mixfold.core.checks import check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.plots.axes import panels_for
from mixfold.plots.colours import percent
from mixfold.plots.fitted_mixture import FittedMixture
from mixfold.plots.profiles import component_means

MOST_PICTURES = 64
LEAST_PIXELS = 64
COLOURS = (3, 4)  # channels of pictures of colours
SIDE = 0.95  # inches


def draw_images(fitted: FittedMixture, ax: Any = None, shape: Sequence[int] | None = None) -> Any:
    """Draw the means of every component as a picture; of many, those of the largest weights.

    Parameters
    ----------
    fitted : FittedMixture
    ax : None, Axes or array of Axes
    shape : (height, width) or (height, width, 3), default=None
        The shape of the pictures that rows are; None is square.

    Returns
    -------
    An array of Axes, one for each picture.
    """
    shape = picture_shape(fitted.d, shape)
    means, chosen = component_means(fitted)
    if len(chosen) < fitted.d:
        raise InvalidInputError("some columns have no means, so that rows are no pictures")
    shown = np.sort(np.argsort(-fitted.weights, kind="stable")[:MOST_PICTURES])
    across = ceil(sqrt(len(shown)))
    down = ceil(len(shown) / across)
    grid = isinstance(ax, np.ndarray | list | tuple)
    size = (SIDE * max(1.0, shape[1] / shape[0]), 1.25 * SIDE * max(1.0, shape[0] / shape[1]))
    panels = panels_for(ax, *((1, len(shown)) if grid else (down, across)), size).ravel()
    pictures, look = _pictures(means, shape)
    for axes, k in zip(panels, shown, strict=False):
        axes.imshow(pictures[k], interpolation="nearest", **look)
        axes.set_title(f"{k}  {percent(fitted.weights[k])}", fontsize="x-small", pad=2)
    for axes in panels:
        axes.set_axis_off()
    return panels[: len(shown)]


def _pictures(means: Array, shape: Sequence[int]) -> tuple[Array, dict[str, Any]]:
    """The pictures, of which all have the same range, and how they are drawn."""
    low, high = float(means.min()), float(means.max())
    pictures = means.reshape(-1, *shape)
    if len(shape) == 2:
        return pictures, {"cmap": "gray", "vmin": low, "vmax": high}
    low, high = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)
    return (pictures - low) / max(high - low, 1e-300), {}


def is_square(d: int) -> bool:
    """Whether rows of so many columns may be square pictures."""
    return d >= LEAST_PIXELS and isqrt(d) ** 2 == d


def picture_shape(d: int, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of a picture of d columns; an error if they do not fit."""
    if shape is None:
        if isqrt(d) ** 2 != d:
            raise InvalidInputError(
                f"rows have {d} columns, which is no square: give shape=(height, width)"
            )
        return isqrt(d), isqrt(d)
    sides = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    for side in sides:
        check_whole("shape", side)
    fits = len(sides) == 2 or (len(sides) == 3 and sides[2] in COLOURS)
    if not fits or int(np.prod(sides)) != d:
        raise InvalidInputError(
            f"shape is {shape!r}, and rows have {d} columns: give (height, width), or "
            "(height, width, 3) for colours, whose product is that number"
        )
    return sides
