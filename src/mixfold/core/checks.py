"""Checks of hyper-parameters and of learned values; errors give the name and the value."""

from __future__ import annotations

from math import inf
from numbers import Integral, Real

import numpy as np
from numpy.typing import NDArray

from mixfold.core.arrays import on_host
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LARGEST, SMALLEST

HIGHEST = 2.0 * LARGEST  # bound of locations and standard deviations, with a margin for rounding
LOWEST = 0.5 * SMALLEST  # lower bound of standard deviations and other positive parameters
LARGEST_SQUARE, LARGEST_SUM = 1e125, 1e300
ROUNDING = 1e-8
MOST = 2**62  # bound of counts of rows or updates
MOST_SEEDS = 2**128


def check_whole(name: str, number: object, least: int = 1) -> None:
    """Raise an error unless `number` is an integer of at least `least`."""
    if not isinstance(number, Integral) or isinstance(number, bool) or int(number) < least:
        raise InvalidInputError(f"{name} is {number!r}: a whole number >= {least} is needed")
    if int(number) >= MOST:
        raise InvalidInputError(f"{name} is {number!r}: a number below 2**62 is needed")


def check_above(name: str, number: object, low: float, high: float = inf) -> None:
    """Raise an error unless `number` is above `low` and, if given, at most `high`."""
    if not isinstance(number, Real) or not low < float(number) <= high or float(number) == inf:
        limit = "" if high == inf else f" and at most {high:g}"
        raise InvalidInputError(f"{name} is {number!r}: a number above {low:g}{limit} is needed")


def check_least(name: str, number: object, low: float, high: float = inf) -> None:
    """Raise an error unless `number` is finite, at least `low` and, if given, at most `high`."""
    if not isinstance(number, Real) or not low <= float(number) <= high or float(number) == inf:
        limit = "" if high == inf else f" and at most {high:g}"
        raise InvalidInputError(f"{name} is {number!r}: a number >= {low:g}{limit} is needed")


def check_count(name: str, number: object) -> None:
    """Raise an error unless `number` is a valid count."""
    check_whole(name, number, 0)


def check_seed(name: str, seed: object) -> None:
    """Raise an error unless `seed` is a valid random seed."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= int(seed) < MOST_SEEDS:
        raise InvalidInputError(f"{name} is {seed!r}: a whole number from 0 to 2**128 is needed")


def check_kind(name: str, thing: object, kind: type) -> None:
    """Raise an error unless `thing` is an instance of a class."""
    if not isinstance(thing, kind):
        raise InvalidInputError(f"{name} is a {type(thing).__name__}: a {kind.__name__} is needed")


def check_array(
    name: str,
    array: NDArray[np.generic],
    shape: tuple[int, ...],
    low: float = -HIGHEST,
    high: float = HIGHEST,
) -> None:
    """Refuse an array of another shape, or with numbers that are NaN or not in [low, high]."""
    found = np.asarray(on_host(array), dtype=np.float64)
    if found.shape != shape:
        raise InvalidInputError(f"{name} has shape {found.shape}: {shape} is needed")
    inside = (found >= low) & (found <= high)
    if not inside.all():
        raise InvalidInputError(
            f"{name} has {found[~inside][0]}: numbers from {low:g} to {high:g} are needed"
        )


def check_covariance(name: str, matrix: NDArray[np.float64], size: int) -> None:
    """Refuse what is not a symmetric positive definite matrix, by more than rounding."""
    check_array(name, matrix, (size, size), -LARGEST_SQUARE, LARGEST_SQUARE)
    scale = float(np.abs(matrix).max(initial=0.0))
    symmetric = bool((np.abs(matrix - matrix.T) <= ROUNDING * scale).all())
    if not symmetric or not _is_positive_definite(matrix):
        raise InvalidInputError(f"{name} is {matrix!r}: it must be symmetric, positive definite")


def _is_positive_definite(matrix: NDArray[np.float64]) -> bool:
    """Whether the eigenvalues of the correlations are above what arithmetic rounds."""
    variances = np.diag(matrix)
    if not (variances > 0.0).all():
        return False
    deviations = np.sqrt(variances)
    correlations = matrix / deviations / deviations[:, None]
    least = len(matrix) * float(np.finfo(np.float64).eps)
    return bool((np.linalg.eigvalsh(correlations) > least).all())
