"""Gaussian distributions with covariances, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mixfold.core.expression import Expression
from mixfold.core.family import Family
from mixfold.core.missing_cells import Pattern, patterns
from mixfold.core.rows import Array
from mixfold.core.statistics import pack
from mixfold.core.value import replace, value
from mixfold.families._covariance import lower_root
from mixfold.families._gaussian_expressions import MOST_INCOMPLETE, observed_density_expression
from mixfold.families.gaussian import LOG_2PI, Gaussian, GaussianParams
from mixfold.families.patterned_rows import PatternedRows, Regressions


class Regression(NamedTuple):
    """The missing columns given the observed ones, of K components.

    `whiten` is the inverse Cholesky factor of the observed columns' covariance (K, o, o),
    `slopes` are the coefficients of the missing columns on the whitened observed ones (K, m, o),
    and `root` are roots of their covariances given these (K, m, m).
    """

    whiten: Array
    log_determinant: Array
    slopes: Array
    root: Array

    @property
    def rest(self) -> Array:
        """The covariances of the missing columns given the observed ones, (K, m, m)."""
        return np.asarray(self.root @ self.root.swapaxes(1, 2))


class Moments(NamedTuple):
    """Means (K, n, m) and variances (K, m) of the missing cells of the rows of one pattern."""

    pattern: Pattern
    means: Array
    variances: Array


def regression(scale: Array, pattern: Pattern) -> Regression:
    """The regression of the missing columns of a pattern on the observed ones.

    `scale` are roots L of the covariances LL', (K, d, d). With L_o' = QR for the observed rows of
    L, the root of their covariance is R', and what is left of the missing rows of L is orthogonal
    to Q, so that nothing is subtracted.
    """
    o, m = scale[:, pattern.observed], scale[:, pattern.missing]
    q, r = np.linalg.qr(o.swapaxes(1, 2), mode="complete")
    width = len(pattern.observed)
    r = r[:, :width]
    sign = np.where(np.diagonal(r, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
    root, rotated = (r * sign[:, :, None]).swapaxes(1, 2), m @ q
    slopes, left = rotated[:, :, :width] * sign[:, None], rotated[:, :, width:]
    whiten = np.asarray(np.linalg.inv(root), np.float64)
    logs = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return Regression(whiten, logs, slopes, left)


@value
class ObservedGaussian(PatternedRows[Regression]):
    """Gaussians with covariances of rows with missing cells."""

    complete: Gaussian

    def _scales(self, params: GaussianParams) -> Array:
        """Roots of the covariance matrices of all components, (K, d, d)."""
        k, d = params.means.shape
        if params.scale.ndim == 2:
            return np.asarray(np.broadcast_to(params.scale, (k, d))[:, :, None] * np.eye(d))
        return np.broadcast_to(params.scale, (k, d, d))

    def density_expression(
        self, params: GaussianParams, x: Expression, marginalize: bool
    ) -> Expression:
        """That of the observed cells, if there are few enough columns."""
        if not marginalize or params.scale.ndim == 2 or params.means.shape[1] > MOST_INCOMPLETE:
            return self.complete.density_expression(params, x, marginalize)
        scales = self._scales(params)
        return observed_density_expression(params.means, scales @ scales.swapaxes(1, 2), x)

    def regressions(self, params: GaussianParams) -> Regressions[Regression]:
        scales = self._scales(params)
        return Regressions(lambda pattern: regression(scales, pattern), 2 * scales.size)

    def pattern_log_density(
        self, params: GaussianParams, rows: Array, pattern: Pattern, given: Regression
    ) -> Array:
        square = distances(params, rows, pattern, given) + len(pattern.observed) * LOG_2PI
        return np.asarray((-0.5 * square - given.log_determinant[:, None]).T)

    def pattern_sums(
        self,
        params: GaussianParams,
        rows: Array,
        responsibilities: Array,
        pattern: Pattern,
        given: Regression,
    ) -> Array:
        weight = responsibilities.sum(axis=0)
        return self.expected_sums(params, rows, responsibilities, weight, pattern, given)

    def expected_sums(
        self,
        params: GaussianParams,
        rows: Array,
        weights: Array,
        rest_weight: Array,
        pattern: Pattern,
        given: Regression,
    ) -> Array:
        """The expected sums of rows with weights (n, K), in centred coordinates.

        The covariance of the missing cells given the observed ones counts `rest_weight`, (K,).
        """
        away, rest = self.expected_rows(params, rows, pattern, given)
        whiten = self.complete.whiten(params)
        if whiten.ndim == 2:
            centred = away * whiten[:, None]
            spread = np.diagonal(rest, axis1=1, axis2=2) * np.square(whiten)
        else:
            centred = away @ whiten.swapaxes(1, 2)
            spread = pack(whiten @ rest @ whiten.swapaxes(1, 2))
        weighted = weights.T[:, :, None] * centred
        products = self.complete.products(weighted, centred) + rest_weight[:, None] * spread
        return np.hstack([weights.sum(axis=0)[:, None], weighted.sum(axis=1), products])

    # the missing cells given the observed ones

    def expected_rows(
        self, params: GaussianParams, rows: Array, pattern: Pattern, given: Regression
    ) -> tuple[Array, Array]:
        """E[x] - mu (K, n, d) and Cov[x] (K, d, d) given the observed cells of each component."""
        k, d = params.means.shape
        z = whitened(params, rows, pattern, given)
        away = np.empty((k, len(rows), d))
        away[:, :, pattern.observed] = (
            rows[:, pattern.observed] - params.means[:, None][:, :, pattern.observed]
        )
        away[:, :, pattern.missing] = z @ given.slopes.swapaxes(1, 2)
        rest = np.zeros((k, d, d))
        rest[:, pattern.missing[:, None], pattern.missing] = given.rest
        return away, rest

    def of_columns(self, chosen: Sequence[int]) -> ObservedGaussian:
        return replace(self, complete=self.complete.of_columns(chosen))

    def take_columns(self, params: GaussianParams, chosen: Sequence[int]) -> GaussianParams:
        return self.complete.take_columns(params, chosen)

    def given_cells(self, params: GaussianParams, row: Array) -> tuple[Family, GaussianParams]:
        (pattern,) = patterns(row[None])
        missing = list(pattern.missing)
        if params.scale.ndim == 2:
            return self.of_columns(missing), self.take_columns(params, missing)
        given = regression(self._scales(params), pattern)
        means = self.pattern_means(params, row[None], pattern, given)[:, 0]
        scale = lower_root(self.complete.structure.shared(given.root))
        return self.of_columns(missing), GaussianParams(means, scale)

    def pattern_means(
        self, params: GaussianParams, rows: Array, pattern: Pattern, given: Regression
    ) -> Array:
        z = whitened(params, rows, pattern, given)
        return np.asarray(params.means[:, None, pattern.missing] + z @ given.slopes.swapaxes(1, 2))

    def conditional_moments(self, params: GaussianParams, x: Array) -> Iterator[Moments]:
        """Means and variances of the missing cells given the observed ones, by component."""
        known = self.regressions(params)
        for pattern in patterns(x):
            if len(pattern.missing):
                given = known.of(pattern)
                means = self.pattern_means(params, x[pattern.rows], pattern, given)
                yield Moments(pattern, means, np.square(given.root).sum(axis=2))

    def noise(
        self, params: GaussianParams, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        return rng.standard_normal(x.shape)

    def pattern_draws(
        self,
        params: GaussianParams,
        k: int,
        rows: Array,
        noise: Array,
        pattern: Pattern,
        given: Regression,
    ) -> Array:
        own = Regression(*(part[k : k + 1] for part in given))
        one = GaussianParams(params.means[k : k + 1], params.scale)
        means = self.pattern_means(one, rows, pattern, own)[0]
        return np.asarray(means + noise[:, pattern.missing] @ given.root[k].T)


def whitened(params: GaussianParams, rows: Array, pattern: Pattern, given: Regression) -> Array:
    """The observed cells in uncorrelated coordinates of variance one, (K, n, o)."""
    away = rows[:, pattern.observed][None] - params.means[:, None, pattern.observed]
    return np.asarray(away @ given.whiten.swapaxes(1, 2))


def distances(params: GaussianParams, rows: Array, pattern: Pattern, given: Regression) -> Array:
    """Squared Mahalanobis distances of the observed cells, (K, n)."""
    return np.asarray(np.square(whitened(params, rows, pattern, given)).sum(axis=2))
