"""Standard errors of variances, and degrees of freedom of fixed effects, from the deviance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mixfold.core.checks import check_array, check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.models.profiled_deviance import ProfiledDeviance

STEP = 1e-3  # of central differences, relative to a coordinate
SHORTEST = 0.1  # length of a coordinate that is near zero; those of scaled data are about one
FLAT = 1e-7  # smallest curvature that counts, relative to the largest
SMALL_VARIANCE = 1e-7  # smallest variance of a random effect that has an error, in scaled data
LARGEST_ERROR = 1e100
MOST_DEGREES = 1e12


@value
class VarianceErrors:
    """Standard errors of log-deviations and of correlations, and degrees of freedom.

    `effects` has a matrix for each grouping factor: the errors of the logarithms of standard
    deviations on the diagonal, and those of Fisher's z, artanh r, of correlations r off it. They
    are NaN where a variance is zero, or known. `noise` is the error of log sigma.
    `degrees_of_freedom` are Satterthwaite's, for each fixed effect.
    """

    effects: list[Array]
    noise: float
    degrees_of_freedom: Array

    def check(self, sizes: Sequence[int], p: int) -> None:
        """Raise an error for other numbers of effects, and for errors that are negative."""
        check_kind("effects", self.effects, list)
        if len(self.effects) != len(sizes):
            raise InvalidInputError(f"errors of {len(self.effects)} factors, not {len(sizes)}")
        for q, errors in zip(sizes, self.effects, strict=True):
            check_array("errors", np.nan_to_num(errors), (q, q), 0.0, LARGEST_ERROR)
        check_array("noise", np.nan_to_num(np.array([self.noise])), (1,), 0.0, LARGEST_ERROR)
        degrees = np.nan_to_num(self.degrees_of_freedom)
        check_array("degrees_of_freedom", degrees, (p,), 0.0, MOST_DEGREES)


def variance_errors(deviance: ProfiledDeviance, at: Array, turn: Array) -> VarianceErrors:
    """From central differences of the deviance and of C, about its minimum.

    The degrees of freedom of a row t of `turn` are those of t beta: 2 (t C t')^2 over the variance
    of the estimate of t C t'; NaN for rows of zeros.

    References
    ----------
    Pinheiro and Bates (2000), Mixed-Effects Models in S and S-PLUS, for the scales of the errors;
    Kuznetsova, Brockhoff and Christensen (2017), lmerTest package: tests in linear mixed effects
    models, for the degrees of freedom.
    """
    covariance = 2.0 * positive_inverse(hessian(lambda x: deviance.profile(x).deviance, at))
    slope = jacobian(lambda x: variances_along(turn, deviance.profile(x).covariance), at)
    squares = 2.0 * np.square(variances_along(turn, deviance.profile(at).covariance))
    with np.errstate(all="ignore"):
        degrees = np.minimum(squares / variances_along(slope, covariance), MOST_DEGREES)
    degrees[~turn.any(axis=1)] = np.nan
    found = jacobian(lambda x: _scales(deviance, x), at)
    errors = np.sqrt(variances_along(found, covariance))
    return _named(deviance, at, errors, degrees)


def _scales(deviance: ProfiledDeviance, coordinates: Array) -> Array:
    """Logarithms of deviations and Fisher's z of correlations, factor by factor, then log sigma."""
    roots, noise = deviance.variances(coordinates)
    parts = []
    for root in roots:
        omega = root @ root.T
        variances = np.maximum(np.diag(omega), np.finfo(float).tiny)
        i, j = np.tril_indices(len(omega), -1)
        correlations = omega[i, j] / np.sqrt(variances[i] * variances[j])
        parts += [0.5 * np.log(variances), np.arctanh(np.clip(correlations, -1 + 1e-15, 1 - 1e-15))]
    return np.concatenate([*parts, [0.5 * np.log(noise)]])


def _named(deviance: ProfiledDeviance, at: Array, errors: Array, degrees: Array) -> VarianceErrors:
    effects, first = [], 0
    for root in deviance.variances(at).roots:
        q = len(root)
        i, j = np.tril_indices(q, -1)
        table = np.diag(errors[first : first + q])
        table[i, j] = table[j, i] = errors[first + q : first + q + len(i)]
        small = np.square(root).sum(axis=1) < SMALL_VARIANCE
        flat = small[:, None] | small
        if np.linalg.eigvalsh(root @ root.T).min() < SMALL_VARIANCE:
            flat = flat | ~np.eye(q, dtype=bool)  # a correlation of one has no error
        # an error of exactly zero is that of a value that is known
        effects.append(np.where(flat | (table == 0.0), np.nan, table))
        first += q + len(i)
    noise = float(errors[-1]) if deviance.noise is None else float("nan")
    return VarianceErrors(effects, noise, degrees)


def hessian(function: Callable[[Array], float], at: Array) -> Array:
    """Second derivatives by central differences."""
    lengths = _steps(at)
    steps, here = np.diag(lengths), function(at)
    found = np.zeros((len(at), len(at)))
    for i, step in enumerate(steps):
        around = function(at + step) - 2.0 * here + function(at - step)
        found[i, i] = around / lengths[i] ** 2
        for j, other in enumerate(steps[:i]):
            corners = [
                a * b * function(at + a * step + b * other) for a in (1, -1) for b in (1, -1)
            ]
            found[i, j] = found[j, i] = sum(corners) / (4.0 * lengths[i] * lengths[j])
    return found


def jacobian(function: Callable[[Array], Array], at: Array) -> Array:
    """First derivatives by central differences, one column for each coordinate."""
    lengths = _steps(at)
    columns = [
        (function(at + step) - function(at - step)) / (2.0 * length)
        for step, length in zip(np.diag(lengths), lengths, strict=True)
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(function(at)), 0))


def _steps(at: Array) -> Array:
    return np.asarray(STEP * np.maximum(np.abs(at), SHORTEST))


def variances_along(directions: Array, covariance: Array) -> Array:
    """The variances t C t' of rows t."""
    return np.asarray(np.einsum("pi,ij,pj->p", directions, covariance, directions))


def positive_inverse(matrix: Array) -> Array:
    """The inverse in directions of positive curvature, and zero in others."""
    if not len(matrix):
        return matrix
    sizes, directions = np.linalg.eigh(matrix)
    used = sizes > FLAT * sizes.max()
    return np.asarray((directions[:, used] / sizes[used]) @ directions[:, used].T)
