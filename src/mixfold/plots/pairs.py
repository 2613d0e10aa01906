"""Ellipses of components in two columns, and in all pairs of columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mixfold.core.rows import Array
from mixfold.families.factor_analysis import FactorParams
from mixfold.families.gaussian import GaussianParams
from mixfold.families.product import Product
from mixfold.families.student_t import StudentTParams
from mixfold.families.transformed_gaussian import TransformedGaussian
from mixfold.plots.axes import axes_for, panels_for
from mixfold.plots.colours import colour_of, draw_legend, line_of, line_widths, marker_of
from mixfold.plots.columns import draw_density
from mixfold.plots.fitted_mixture import COUNTS, FittedMixture, Marginal
from mixfold.plots.ranges import label_axis, shown_range

DEVIATIONS = (1.0, 2.0)
GRID = 60  # points of a contour's grid, along each side
TAIL, SMALLEST = 0.01, 1e-9
JITTER = 0.3  # of counts, so that equal rows are seen
LEAST_SIZE, MOST_SIZE = 2.0, 16.0  # of markers


class Ellipses(NamedTuple):
    """Centres (K, 2) and matrices (K, 2, 2) of the ellipses of one standard deviation."""

    centres: Array
    matrices: Array


def draw_ellipses(fitted: FittedMixture, ax: Any = None) -> Any:
    """Draw two columns: rows, and ellipses of one and two standard deviations of the components.

    Components that are not Gaussian have outlines of equal density, which contain as much of it.

    Returns
    -------
    The Axes.
    """
    axes = axes_for(ax)
    _draw_pair(axes, fitted, 0, 1)
    label_axis(axes.xaxis, fitted, 0)
    label_axis(axes.yaxis, fitted, 1)
    draw_legend(axes, fitted.weights, fitted.noise)
    return axes


def draw_pairs(fitted: FittedMixture, ax: Any = None) -> Any:
    """Draw all pairs of columns as `draw_ellipses` does, and densities on the diagonal.

    Ellipses are those of the marginal distribution of two columns within each component.

    Returns
    -------
    An array (d, d) of Axes, of which those above the diagonal are empty.
    """
    d = fitted.d
    panels = panels_for(ax, d, d, (max(1.9, 6.0 / d), max(1.7, 5.2 / d)))
    for i in range(d):
        for j in range(d):
            axes = panels[i, j]
            if j > i:
                axes.set_axis_off()
                continue
            if i == j:
                draw_density(axes, fitted, i, fitted.marginal(i))
                axes.set_yticks([])
                axes.set_ylabel("")
            else:
                _draw_pair(axes, fitted, j, i)
                label_axis(axes.yaxis, fitted, i, j == 0)
            label_axis(axes.xaxis, fitted, j, i == d - 1)
            _label_outer(axes, left=j == 0 and i > 0, below=i == d - 1)
    draw_legend(panels[0, d - 1], fitted.weights, fitted.noise, panels[0, d - 1])
    return panels


def _label_outer(axes: Any, left: bool, below: bool) -> None:
    """Leave the numbers at the left and at the bottom of the whole picture alone."""
    axes.tick_params(labelsize="x-small", labelleft=left, labelbottom=below)
    axes.xaxis.get_offset_text().set_visible(below)
    axes.yaxis.get_offset_text().set_visible(left)


def _draw_pair(axes: Any, fitted: FittedMixture, i: int, j: int) -> None:
    _draw_rows(axes, fitted, i, j)
    ranges = [shown_range(fitted, column, fitted.marginal(column)) for column in (i, j)]
    marginal = fitted.marginal(i, j)
    ellipses = ellipses_of(marginal)
    if ellipses is None:
        _draw_contours(axes, fitted, marginal, i, j)
    else:
        _draw_outlines(axes, fitted, ellipses)
    axes.set_xlim(ranges[0])
    axes.set_ylim(ranges[1])


def _draw_rows(axes: Any, fitted: FittedMixture, i: int, j: int) -> None:
    if fitted.labels is None:
        return
    x = fitted.rows[:, [i, j]].copy()
    rng = np.random.default_rng(0)
    for c, column in enumerate((i, j)):
        if fitted.kinds[column] == COUNTS:
            x[:, c] += rng.uniform(-JITTER, JITTER, len(x))
    size = float(np.clip(6000.0 / max(len(x), 1), LEAST_SIZE, MOST_SIZE))
    for k in np.unique(fitted.labels):
        own = x[fitted.labels == k]
        look: dict[str, Any] = {"color": colour_of(k), "marker": marker_of(k), "s": size}
        axes.scatter(*own.T, **look, alpha=0.45, linewidths=0, rasterized=True)


# Gaussian components, and others with ellipses


def ellipses_of(marginal: Marginal) -> Ellipses | None:
    """The ellipses of components in two columns; None if densities have other outlines.

    Those of Gaussians have the covariances as matrices, and those of Student t the scale matrices.
    """
    if not isinstance(marginal.family, Product):
        return _elliptic(marginal.family, marginal.params)
    centres, matrices = np.empty((marginal.k, 2)), np.zeros((marginal.k, 2, 2))
    placed = list(marginal.family.placed(marginal.params))
    for part in placed:
        known = _elliptic(part.family, part.params)
        if known is None or (len(placed) > 1 and isinstance(part.params, StudentTParams)):
            return None  # two columns with scales of their own have no ellipses together
        centres[:, part.places] = known.centres
        matrices[:, np.array(part.places)[:, None], part.places] = known.matrices
    return Ellipses(centres, matrices)


def _elliptic(family: Any, params: Any) -> Ellipses | None:
    if isinstance(family, TransformedGaussian) and family.logs:
        return None
    if isinstance(params, FactorParams):
        signal = params.loadings.swapaxes(1, 2) @ params.loadings
        return Ellipses(params.means, signal + _diagonal(params.noise_variance))
    if isinstance(params, GaussianParams | StudentTParams):
        return Ellipses(params.means, _squared(params.scale, *params.means.shape))
    return None


def _squared(scale: Array, k: int, d: int) -> Array:
    """The matrices (K, d, d) of which scales are roots: triangular matrices, or diagonals."""
    if scale.ndim == 2:
        return _diagonal(np.square(np.broadcast_to(scale, (k, d))))
    root = np.broadcast_to(scale, (k, d, d))
    return np.asarray(root @ root.swapaxes(1, 2))


def _diagonal(values: Array) -> Array:
    return np.asarray(values[:, :, None] * np.eye(values.shape[1]))


def _draw_outlines(axes: Any, fitted: FittedMixture, ellipses: Ellipses) -> None:
    from matplotlib.patches import Ellipse

    widths = line_widths(fitted.weights)
    for k, (centre, matrix) in enumerate(zip(*ellipses, strict=True)):
        values, vectors = np.linalg.eigh(matrix)
        lengths = 2.0 * np.sqrt(np.maximum(values, 0.0))
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        for times in DEVIATIONS:
            patch = Ellipse(
                tuple(centre),
                times * lengths[1],
                times * lengths[0],
                angle=angle,
                fill=False,
                edgecolor=colour_of(k),
                linestyle=line_of(k),
                linewidth=widths[k],
                zorder=3,
            )
            axes.add_patch(patch)
        axes.plot(*centre, "+", color=colour_of(k), markersize=5, zorder=3)


# outlines of other densities


def _draw_contours(axes: Any, fitted: FittedMixture, marginal: Marginal, i: int, j: int) -> None:
    """Draw outlines of equal density, with the content of ellipses of one and two deviations."""
    widths = line_widths(fitted.weights)
    for k in range(fitted.k):
        x, y = (_side(fitted, c, marginal.draws[k, :, n]) for n, c in enumerate((i, j)))
        places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        density = marginal.densities(places)[:, k].reshape(len(y), len(x))
        levels = outline_levels(density, np.outer(np.gradient(y), np.gradient(x)))
        if len(levels):
            line = {"colors": colour_of(k), "linestyles": line_of(k), "linewidths": widths[k]}
            axes.contour(x, y, density, levels=levels, **line)


def _side(fitted: FittedMixture, column: int, draws: Array) -> Array:
    """Points of a column around the rows drawn from a component."""
    low, high = np.quantile(draws, [TAIL, 1.0 - TAIL])
    support = fitted.family.supports(fitted.d)[column]
    more = max(0.5 * (high - low), SMALLEST * max(abs(high), 1.0))
    low, high = max(low - more, support.low), min(high + more, support.high)
    if support.whole:
        return np.unique(np.round(np.linspace(np.floor(low), np.ceil(high) + 1.0, GRID)))
    inside = SMALLEST * (high - low)
    return np.linspace(low + inside, high - inside, GRID)


def outline_levels(density: Array, cells: Array) -> Array:
    """The densities above which there are 39% and 86% of the whole, in ascending order.

    These are the contents of the ellipses of one and of two standard deviations.
    """
    flat = np.nan_to_num(density, posinf=0.0).ravel()
    order = np.argsort(-flat, kind="stable")
    content = np.cumsum(flat[order] * cells.ravel()[order])
    wanted = [1.0 - np.exp(-0.5 * times**2) for times in DEVIATIONS]
    if not content[-1] > 0.0:
        return np.empty(0)
    at = np.searchsorted(content, np.array(wanted) * min(content[-1], 1.0))
    return np.unique(flat[order[np.minimum(at, len(flat) - 1)]])
