"""Means of components as pictures, laid out on the grid of annealing."""

from __future__ import annotations

from math import isqrt
from pathlib import Path

import numpy as np

from mixfold.core.errors import MissingExtraError
from mixfold.core.rows import Array
from mixfold.models.annealed import grid_rows

GAP = 1


def picture_of(means: Array) -> tuple[int, ...]:
    """The shape of pictures with so many columns: square, of grey or of three colours."""
    d = means.shape[1]
    if isqrt(d) ** 2 == d:
        return isqrt(d), isqrt(d), 1
    return isqrt(d // 3), isqrt(d // 3), 3


def grid_of(means: Array) -> np.ndarray:
    """Red, green, blue and opacity of all means in rows and columns; what is between is clear."""
    k, (height, width, colours) = len(means), picture_of(means)
    rows = grid_rows(k)
    cells = np.clip(means, 0.0, 1.0).reshape(rows, k // rows, height, width, colours)
    framed = np.zeros((rows, k // rows, height + GAP, width + GAP, 4))
    framed[:, :, :height, :width, :3] = cells
    framed[:, :, :height, :width, 3] = 1.0
    whole = framed.swapaxes(1, 2).reshape(rows * (height + GAP), k // rows * (width + GAP), 4)
    return np.asarray(whole[:-GAP, :-GAP])


def draw_grid(path: Path, means: Array, zoom: int = 2) -> None:
    """A PNG of the grid, every pixel `zoom` times as large."""
    try:
        from matplotlib.image import imsave
    except ImportError as error:
        raise MissingExtraError("matplotlib", "studies", "drawing") from error
    imsave(path, np.kron(grid_of(means), np.ones((zoom, zoom, 1))))
