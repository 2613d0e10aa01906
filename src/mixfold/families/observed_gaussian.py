"""Gaussian distributions with covariances, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from mixfold.core.missing_cells import Pattern, filled, patterns
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, BlockShape, pack
from mixfold.core.value import replace, value
from mixfold.families._covariance import lower_root
from mixfold.families.gaussian import LOG_2PI, Gaussian, GaussianParams
from mixfold.families.observed_columns import Incomplete, ObservedColumns

MOST_NUMBERS = 2**22  # that regressions of patterns may hold


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


class Moments(NamedTuple):
    """Means (K, n, m) and variances (K, m) of the missing cells of the rows of one pattern."""

    pattern: Pattern
    means: Array
    variances: Array


class Regressions:
    """The regressions of patterns under some parameters, kept while they fit into memory."""

    def __init__(self, scales: Array) -> None:
        self._scales = scales
        self._known: dict[bytes, Regression] = {}
        self._most = MOST_NUMBERS // (2 * scales.size)

    def of(self, pattern: Pattern) -> Regression:
        """The regression of a pattern, computed if it is not known."""
        key = pattern.missing.tobytes()
        found = self._known.get(key)
        if found is None:
            found = regression(self._scales, pattern)
            if len(self._known) < self._most:
                self._known[key] = found
        return found


@value
class ObservedGaussian(Incomplete):
    """Gaussians of rows with missing cells, which are integrated out.

    The density of a row is that of its observed cells. Statistics hold the conditional expectation
    of the missing cells and of their products, which depend on the parameters. Rows are grouped by
    the cells that they have, so that the cost follows the number of these patterns.

    Reference: Little and Rubin (2019), Statistical analysis with missing data, chapter 11.
    """

    complete: Gaussian

    @property
    def statistics_depend_on_params(self) -> bool:
        return True

    def _scales(self, params: GaussianParams) -> Array:
        """Roots of the covariance matrices of all components, (K, d, d)."""
        k, d = params.means.shape
        if params.scale.ndim == 2:
            return np.asarray(np.broadcast_to(params.scale, (k, d))[:, :, None] * np.eye(d))
        return np.broadcast_to(params.scale, (k, d, d))

    def regressions(self, params: GaussianParams) -> Regressions:
        """The regressions of patterns, for several calls with the same parameters."""
        return Regressions(self._scales(params))

    def log_density(
        self, params: GaussianParams, x: Array, known: Regressions | None = None
    ) -> Array:
        found, known = np.empty((len(x), len(params.means))), known or self.regressions(params)
        for pattern in patterns(x):
            rows = x[pattern.rows]
            if not len(pattern.missing):
                found[pattern.rows] = self.complete.log_density(params, rows)
                continue
            given = known.of(pattern)
            z = self._whitened(params, rows, pattern, given)
            square = np.square(z).sum(axis=2) + len(pattern.observed) * LOG_2PI
            found[pattern.rows] = (-0.5 * square - given.log_determinant[:, None]).T
        return found

    def _whitened(
        self, params: GaussianParams, rows: Array, pattern: Pattern, given: Regression
    ) -> Array:
        """The observed cells in uncorrelated coordinates of variance one, (K, n, o)."""
        away = rows[:, pattern.observed][None] - params.means[:, None, pattern.observed]
        return np.asarray(away @ given.whiten.swapaxes(1, 2))

    def sums(
        self,
        params: GaussianParams,
        x: Array,
        responsibilities: Array,
        known: Regressions | None = None,
    ) -> Array:
        k, d = params.means.shape
        total, known = np.zeros((k, self.n_sums(d))), known or self.regressions(params)
        for pattern in patterns(x):
            rows, r = x[pattern.rows], responsibilities[pattern.rows]
            if not len(pattern.missing):
                total += self.complete.sums(params, rows, r)
                continue
            total += self._expected_sums(params, rows, r, pattern, known.of(pattern))
        return total

    def _expected_sums(
        self,
        params: GaussianParams,
        rows: Array,
        responsibilities: Array,
        pattern: Pattern,
        given: Regression,
    ) -> Array:
        """The expected sums of rows of one pattern, in centred coordinates."""
        (k, d), weight = params.means.shape, responsibilities.sum(axis=0)
        z = self._whitened(params, rows, pattern, given)
        away = np.empty((k, len(rows), d))
        away[:, :, pattern.observed] = (
            rows[:, pattern.observed] - params.means[:, None][:, :, pattern.observed]
        )
        away[:, :, pattern.missing] = z @ given.slopes.swapaxes(1, 2)
        rest = np.zeros((k, d, d))
        rest[:, pattern.missing[:, None], pattern.missing] = given.rest
        whiten = self.complete.whiten(params)
        if whiten.ndim == 2:
            centred = away * whiten[:, None]
            spread = np.diagonal(rest, axis1=1, axis2=2) * np.square(whiten)
        else:
            centred = away @ whiten.swapaxes(1, 2)
            spread = pack(whiten @ rest @ whiten.swapaxes(1, 2))
        weighted = responsibilities.T[:, :, None] * centred
        products = self.complete.products(weighted, centred) + weight[:, None] * spread
        return np.hstack([weight[:, None], weighted.sum(axis=1), products])

    # the missing cells given the observed ones

    def of_columns(self, chosen: Sequence[int]) -> ObservedGaussian:
        return replace(self, complete=self.complete.of_columns(chosen))

    def take_columns(self, params: GaussianParams, chosen: Sequence[int]) -> GaussianParams:
        return self.complete.take_columns(params, chosen)

    def given_cells(self, params: GaussianParams, row: Array) -> GaussianParams:
        (pattern,) = patterns(row[None])
        if params.scale.ndim == 2:
            return self.take_columns(params, list(pattern.missing))
        given = regression(self._scales(params), pattern)
        means = self._means(params, row[None], pattern, given)[:, 0]
        return GaussianParams(means, lower_root(self.complete.structure.shared(given.root)))

    def _means(
        self, params: GaussianParams, rows: Array, pattern: Pattern, given: Regression
    ) -> Array:
        """The means of the missing cells of rows of one pattern, by component, (K, n, m)."""
        z = self._whitened(params, rows, pattern, given)
        return np.asarray(params.means[:, None, pattern.missing] + z @ given.slopes.swapaxes(1, 2))

    def conditional_moments(self, params: GaussianParams, x: Array) -> Iterator[Moments]:
        """Means and variances of the missing cells given the observed ones, by component."""
        scales = self._scales(params)
        for pattern in patterns(x):
            if len(pattern.missing):
                given = regression(scales, pattern)
                means = self._means(params, x[pattern.rows], pattern, given)
                yield Moments(pattern, means, np.square(given.root).sum(axis=2))

    def expected_cells(self, params: GaussianParams, x: Array, responsibilities: Array) -> Array:
        found = np.array(x, dtype=np.float64)
        for pattern, means, _ in self.conditional_moments(params, x):
            mixed = np.einsum("nk,knm->nm", responsibilities[pattern.rows], means)
            found[pattern.rows[:, None], pattern.missing] = mixed
        return found

    def sample_cells(
        self, params: GaussianParams, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        found, scales = np.array(x, dtype=np.float64), self._scales(params)
        noise = rng.standard_normal(x.shape)
        for pattern in patterns(x):
            if not len(pattern.missing):
                continue
            given = regression(scales, pattern)
            for k in np.unique(labels[pattern.rows]):
                rows = pattern.rows[labels[pattern.rows] == k]
                own = Regression(*(part[k : k + 1] for part in given))
                one = GaussianParams(params.means[k : k + 1], params.scale)
                means = self._means(one, x[rows], pattern, own)[0]
                away = noise[rows[:, None], pattern.missing] @ given.root[k].T
                found[rows[:, None], pattern.missing] = means + away
        return found

    def n_sums(self, d: int) -> int:
        return self.complete.n_sums(d)

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return self.complete.block_shapes(d)

    def to_blocks(self, params: GaussianParams, table: Array) -> Blocks:
        return self.complete.to_blocks(params, table)

    def to_sums(self, params: GaussianParams, blocks: Blocks) -> Array:
        return self.complete.to_sums(params, blocks)

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        return self.complete.blocks_of(filled(x, np.random.default_rng(0)), responsibilities)

    def expected(self, params: GaussianParams, weights: Array) -> Blocks:
        return self.complete.expected(params, weights)

    def maximize(self, blocks: Blocks) -> tuple[GaussianParams, int]:
        return self.complete.maximize(blocks)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """Half the squared distance in the columns that both have, as if they were all."""
        return ObservedColumns(Gaussian("diag")).divergence(x, centers, weight)
