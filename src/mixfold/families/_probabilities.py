"""Probabilities of outcomes: limits, coordinates and divergences that several families share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import ROUNDING
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING

LEAST = 1e-8  # smallest probability of an outcome
LOWEST = 0.5 * LEAST  # what a check accepts, with a margin for rounding


@value
class ProbabilityParams:
    """Probabilities (K, d), or (K, d, L) where every column has L levels."""

    probabilities: Array


def normalized(shares: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Probabilities in proportion to `shares` along the last axis, and where they were too small.

    Shares that are zero, or by rounding below it, get the smallest probability. If all are, the
    probabilities are equal.
    """
    shares = np.maximum(shares, 0.0)
    total = np.add.reduce(shares, axis=-1, keepdims=True)
    if total.all():
        p = shares / total
        low = p < LEAST
    else:
        equal = np.full(shares.shape, 1.0 / shares.shape[-1])
        p = np.divide(shares, total, out=equal, where=total > 0.0)
        low = (p < LEAST) | (total <= 0.0)
    p = np.maximum(p, LEAST)
    return p / np.add.reduce(p, axis=-1, keepdims=True), low


def at_least(p: Array) -> NDArray[np.bool_]:
    """Where probabilities are the smallest that are allowed."""
    return np.asarray(p <= TOUCHING * LEAST)


def softmax(coordinates: Array) -> Array:
    """Probabilities whose logarithms are the coordinates and a constant, along the last axis."""
    odds = np.exp(coordinates - coordinates.max(axis=-1, keepdims=True))
    return normalized(odds)[0]


def halfway_to_mean(t: Array, mean: Array) -> Array:
    """Rows moved half of the way to their mean, so that no outcome is impossible in any.

    Maximum-likelihood estimates from single rows have probabilities of zero, and infinite
    divergences.
    """
    return np.asarray(0.5 * (t + mean))


def weighted_mean(t: Array, weight: Array) -> Array:
    """The mean of rows with weights (n,)."""
    return np.asarray((weight / weight.sum()) @ t)


def check_sums(p: Array) -> None:
    """Refuse probabilities whose sum along the last axis is not one."""
    total = np.asarray(p).sum(axis=-1)
    wrong = np.abs(total - 1.0) > ROUNDING
    if wrong.any():
        raise InvalidInputError(f"probabilities sum to {total[wrong][0]}: they must sum to 1")
