"""Lines against the number of components, and against the rows of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.fitting.history import History
from mixfold.plots.axes import axes_for
from mixfold.plots.colours import ALL, colour_of, line_of, marker_of

MOST_WINDOWS = 200
MOST_POINTS = 60  # that have markers
FEW = 12  # candidates, which are all shown
GREY = "#777777"
LEAST_SPAN = 1e-3  # nats per row, of the axis of a history
QUARTILES = (0.25, 0.75)

Curve: TypeAlias = tuple[Sequence[float], Sequence[float] | Array]


def draw_selection(
    curves: Mapping[str, Curve],
    label: str,
    ax: Any = None,
    *,
    chosen: float,
    what: str = "number of components",
    title: str = "covariance",
) -> Any:
    """Draw a criterion against numbers of components or of clusters, a line for each name.

    Parameters
    ----------
    curves : mapping
        Numbers and values of the criterion, by name.
    label : str
        What the criterion is.
    ax : matplotlib Axes, default=None
        Where to draw; None is the current axes of pyplot.
    chosen : float
        The number that was chosen, which a vertical line shows.
    what : str
        What is counted.
    title : str
        Of the legend, which lines that have a name need.

    Returns
    -------
    The Axes.
    """
    from matplotlib.ticker import MaxNLocator

    axes = axes_for(ax)
    for i, (name, (numbers, reached)) in enumerate(curves.items()):
        line = {"color": colour_of(i), "linestyle": line_of(i), "marker": marker_of(i)}
        axes.plot(numbers, reached, markersize=4, label=name, **line)
    axes.axvline(chosen, linestyle="--", color=GREY, linewidth=1.0, zorder=0)
    _leave_out_far(axes, curves, chosen)
    axes.set_xlabel(what)
    axes.set_ylabel(label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if any(curves):
        axes.legend(title=title, ncols=2, fontsize="small")
    return axes


def _leave_out_far(axes: Any, curves: Mapping[str, Curve], chosen: float) -> None:
    """Limit the axis as the whiskers of a box plot, so that one can compare the best.

    All values for the chosen number are shown.
    """
    numbers, values = (np.concatenate([curve[i] for curve in curves.values()]) for i in (0, 1))
    low, high = np.quantile(values, QUARTILES)
    near = np.abs(values - 0.5 * (low + high)) <= 2.0 * (high - low)
    shown = values[near | (numbers == chosen)] if len(values) > FEW else values
    margin = 0.05 * float(np.ptp(shown)) or 1.0
    axes.set_ylim(shown.min() - margin, shown.max() + margin)


def draw_history(history: History, n_passes: int = 0, ax: Any = None) -> Any:
    """Draw the log-likelihood per row during a fit, and the bound if the learner has one.

    Parameters
    ----------
    history : History
    n_passes : int, default=0
        The number of passes. If there is an entry for each they are counted, and otherwise rows.
    ax : matplotlib Axes, default=None
        Where to draw; None is the current axes of pyplot.

    Returns
    -------
    The Axes.
    """
    from matplotlib.ticker import MaxNLocator

    _check_some(history)
    axes, by_pass = axes_for(ax), len(history) == n_passes
    x = np.arange(1, n_passes + 1) if by_pass else history.rows
    marker = "o" if len(history) <= MOST_POINTS else ""
    look = {"marker": marker, "markersize": 3}
    axes.plot(x, history.log_likelihood, color=colour_of(0), label="log-likelihood", **look)
    if np.isfinite(history.bound).any():
        axes.plot(x, history.bound, color=colour_of(1), linestyle="--", label="bound", **look)
        axes.legend(fontsize="small")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _widen(axes)
    axes.set_xlabel("passes" if by_pass else "rows read")
    axes.set_ylabel("log-likelihood per row")
    return axes


def _widen(axes: Any) -> None:
    """Give the axis a least length, so that rounding does not look like learning."""
    low, high = axes.get_ylim()
    if high - low < LEAST_SPAN:
        middle = 0.5 * (low + high)
        axes.set_ylim(middle - 0.5 * LEAST_SPAN, middle + 0.5 * LEAST_SPAN)
        axes.ticklabel_format(axis="y", useOffset=False)


def draw_drift(history: History, drifts: Array, ax: Any = None) -> Any:
    """Draw the log-likelihood of windows of a stream, and where it was found to change.

    The line is the median of the updates in a window, the band has half of them, and dashed lines
    are drifts.

    Parameters
    ----------
    history : History
    drifts : array
        The numbers of the rows after which a change was found.
    ax : matplotlib Axes, default=None
        Where to draw; None is the current axes of pyplot.

    Returns
    -------
    The Axes.
    """
    _check_some(history)
    axes = axes_for(ax)
    rows, low, middle, high = windows(history)
    axes.fill_between(rows, low, high, color=colour_of(0), alpha=0.2, linewidth=0)
    axes.plot(rows, middle, color=colour_of(0), linewidth=1.2, label="log-likelihood")
    for i, row in enumerate(drifts):
        name = "" if i else f"drift ({len(drifts)})"
        axes.axvline(row, color=colour_of(1), linestyle="--", linewidth=1.2, label=name)
    if not len(drifts):
        axes.plot([], [], color=ALL, alpha=0.0, label="no drift was found")
    axes.legend(fontsize="small")
    axes.set_xlabel("rows read")
    axes.set_ylabel("log-likelihood per row")
    return axes


def windows(history: History, most: int = MOST_WINDOWS) -> tuple[Array, Array, Array, Array]:
    """Rows at the ends of windows; lower quartile, median and upper quartile of the likelihood."""
    parts = np.array_split(np.arange(len(history)), min(most, len(history)))
    values = history.log_likelihood
    at = [0.5, *QUARTILES]
    middle, low, high = np.array([np.nanquantile(values[part], at) for part in parts]).T
    return history.rows[[part[-1] for part in parts]], low, middle, high


def _check_some(history: History) -> None:
    if not len(history):
        raise InvalidInputError(
            "the model has no history: marginal, conditional and merged models were not fitted, "
            "and a stream has one after its first update"
        )
