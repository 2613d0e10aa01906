"""The smallest variances of Gaussian components: the one place that defines them.

A variance is at least the largest of three numbers for its column: a fraction of the variance of
all rows; the square of what float64 rounds their mean by; and what the data's resolution allows,
which is found once, in a sample. Kernels in C++ and on GPUs are given the numbers from here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.limits import LEAST_VARIANCE
from mixfold.core.rows import Array

SHARE = 1e-8  # floor as a fraction of a column's variance
TIED_SHARE = 1e-6  # the same where many rows have one value, on which a component can collapse
RESOLVED = 0.01  # largest fraction of a column's variance that is attributed to rounding
# standard deviation of a constant column, relative to its value, or to 1 if that is larger
CONSTANT = 1e-3
ROUNDING = 2.0**-52
TOUCHING = 1.0 + 1e-6  # variances below this multiple of a floor count as degenerate
MOST_VALUES, VALUES_TOGETHER = 2**20, 2**18  # numbers that are sorted, in all and at a time
TIED_ROWS = 0.01
SMALL_STEPS = 0.01  # fraction of the steps of a column that are not larger than its resolution
QUARTILES = 1.349  # interquartile range of the standard normal distribution


def floors(share: float, total: Array, centre: Array, lowest: Array) -> Array:
    """The smallest variance of every column, of rows with these variances and means."""
    return np.maximum(np.maximum(share * total, np.square(ROUNDING * centre)), lowest)


def lowest_variances(columns: Array | None, d: int) -> Array:
    """A lower bound of all variances; `columns` are the values computed from a sample."""
    return np.full(d, LEAST_VARIANCE) if columns is None else np.maximum(columns, LEAST_VARIANCE)


def column_limits(x: NDArray[np.floating]) -> tuple[Array, Array]:
    """The smallest variance that a sample allows in each column, and a robust variance, (d,) each.

    Values recorded in steps of s have an error of variance s^2 / 12, so no component is narrower
    where ties show that there are steps. A column with one value has no scale: its deviation is
    taken to be a thousandth of the value, and not below 0.001, which is scikit-learn's
    `reg_covar`. In all others the limit is a tiny fraction of the column's variance. Robust is a
    variance on which a few far rows have no influence.
    """
    d = x.shape[1]
    rows = x[:: -(-len(x) // max(1000, MOST_VALUES // d))]
    together = max(1, VALUES_TOGETHER // len(rows))
    parts = [rows[:, first : first + together] for first in range(0, d, together)]
    found = np.hstack([_limits(np.ascontiguousarray(part.T)) for part in parts])
    return found[0], found[1]


def _limits(columns: NDArray[np.floating]) -> Array:
    """The same as `column_limits`, (2, d), for an array whose rows are the columns."""
    columns = np.sort(columns, axis=1)
    size = np.abs(columns[:, [0, -1]]).max(axis=1).astype(np.float64)
    gaps = np.diff(columns, axis=1).astype(np.float64)
    near = np.maximum(np.abs(columns[:, 1:]), np.abs(columns[:, :-1])).astype(np.float64)
    tied = gaps <= 8.0 * float(np.finfo(columns.dtype).eps) * near
    constant, in_steps = tied.all(axis=1), tied.any(axis=1)
    step = np.zeros(len(columns))
    for i in np.flatnonzero(in_steps & ~constant):
        step[i] = _step(gaps[i], tied[i])
    with np.errstate(under="ignore"):
        spread = _spread(columns.astype(np.float64))
        repeated = _longest_run(tied) >= max(3, TIED_ROWS * columns.shape[1])
        error = np.square(step) / 12.0
        found = np.where(repeated, TIED_SHARE, SHARE) * spread
        found = np.maximum(found, np.minimum(error, RESOLVED * spread))
        without_scale = np.square(CONSTANT * np.maximum(size, 1.0))
    return np.stack([np.where(constant, without_scale, found), spread])


def _step(gaps: Array, tied: NDArray[np.bool_]) -> float:
    """A small step between neighbouring values of a sorted column, with ties.

    The smallest depends on few rows, and so on the sample. A step counts as often as the rarer of
    its two values, and this is the one that 1% are not larger than.
    """
    between = np.flatnonzero(~tied)
    rows = np.diff(np.concatenate([[-1], between, [len(gaps)]]))
    rarer, order = np.minimum(rows[:-1], rows[1:]), np.argsort(gaps[between], kind="stable")
    reached = np.cumsum(rarer[order]) >= SMALL_STEPS * rarer.sum()
    return float(gaps[between[order[reached.argmax()]]])


def _spread(columns: Array) -> Array:
    """Robust variances of sorted columns: the smaller of the variance and that of the quartiles."""
    n = columns.shape[1]
    variance = columns.var(axis=1)
    quartiles = np.square((columns[:, (3 * n) // 4] - columns[:, n // 4]) / QUARTILES)
    return np.asarray(np.where(quartiles > 0.0, np.minimum(variance, quartiles), variance))


def _longest_run(tied: NDArray[np.bool_]) -> NDArray[np.intp]:
    """How many rows of each column have its most frequent value."""
    number = np.arange(tied.shape[1])
    if not len(number):
        return np.ones(len(tied), dtype=np.intp)
    last = np.maximum.accumulate(np.where(tied, -1, number), axis=1)
    return np.asarray((number - last).max(axis=1) + 1)
