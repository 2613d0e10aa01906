"""Responsibilities of rows as stacked bars."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.plots.axes import axes_for
from mixfold.plots.colours import colour_of, draw_legend


def draw_responsibilities(
    responsibilities: Array, weights: Array, noise: float | None = None, ax: Any = None
) -> Any:
    """Draw the responsibilities of rows, each of which is a bar that components divide.

    Rows are sorted by their most probable component, and within it by its probability, so that
    places where colours mix are rows between components.

    Parameters
    ----------
    responsibilities : array of shape (n, K) or (n, K + 1)
        The last column may be noise.
    weights : array of shape (K,)
        The weights of the components, for the legend.
    noise : float, default=None
        The weight of noise.
    ax : matplotlib Axes, default=None
        Where to draw; None is the current axes of pyplot.

    Returns
    -------
    The Axes.
    """
    axes, k = axes_for(ax), len(weights)
    r = responsibilities[sorted_rows(responsibilities)]
    above = np.cumsum(r, axis=1)
    below = above - r
    edges = np.arange(len(r) + 1.0)
    for j in range(r.shape[1]):
        component = j if j < k else -1
        look = {"color": colour_of(component), "label": str(component)}
        axes.stairs(above[:, j], edges, baseline=below[:, j], fill=True, linewidth=0, **look)
    axes.set_xlim(0.0, len(r))
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel(f"{len(r):,} {'row' if len(r) == 1 else 'rows'}, sorted by component")
    axes.set_ylabel("responsibility")
    draw_legend(axes, weights, noise)
    return axes


def sorted_rows(responsibilities: Array) -> np.ndarray:
    """Numbers of rows by their most probable component, the most certain first."""
    labels = responsibilities.argmax(axis=1)
    return np.lexsort((-responsibilities.max(axis=1), labels))
