"""Gaussian distributions with latent factors, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mixfold.core.family import Family
from mixfold.core.missing_cells import Pattern, patterns
from mixfold.core.params import Params
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import replace, value
from mixfold.families import factor_analysis
from mixfold.families.factor_analysis import FactorParams, Moments, Posterior
from mixfold.families.gaussian import FactorGaussian, Gaussian
from mixfold.families.observed_gaussian import ObservedGaussian
from mixfold.families.patterned_rows import PatternedRows, Regressions


class FactorRegression(NamedTuple):
    """The factors given the observed columns, of K components.

    `observed` are the parameters of the observed columns, and `loadings` (K, q, m) and `noise`
    (K, m) those of the missing ones. `spread` is the posterior covariance of the factors.
    """

    observed: FactorParams
    known: Posterior
    loadings: Array
    noise: Array
    spread: Array

    def factors(self, rows: Array) -> Array:
        """The expected factors given the observed cells of rows (n, o), (K, n, q)."""
        centred = rows[None] - self.observed.means[:, None]
        return np.asarray(centred @ self.known.beta.swapaxes(1, 2))


def regression(params: FactorParams, pattern: Pattern) -> FactorRegression:
    """The factors given the observed columns of a pattern, in O(d q^2)."""
    observed, missing = params.of_columns(pattern.observed), params.of_columns(pattern.missing)
    known = factor_analysis.posterior(observed)
    spread = known.root.swapaxes(1, 2) @ known.root
    return FactorRegression(observed, known, missing.loadings, missing.noise_variance, spread)


@value
class ObservedFactors(PatternedRows[FactorRegression]):
    """Gaussians with latent factors of rows with missing cells.

    The posterior of the factors z is that given the observed columns, with covariance G. Missing
    cells are mu_m + L_m'z + e_m, so that their covariances given the observed cells are
    L_m'G L_m + psi_m, and those with the factors G L_m. No d x d matrix is needed.

    Reference: Ghahramani and Hinton (1996), The EM algorithm for mixtures of factor analyzers.
    """

    complete: FactorGaussian

    def regressions(self, params: FactorParams) -> Regressions[FactorRegression]:
        size = 4 * (params.loadings.size + params.means.size)
        return Regressions(lambda pattern: regression(params, pattern), size)

    def pattern_log_density(
        self, params: FactorParams, rows: Array, pattern: Pattern, given: FactorRegression
    ) -> Array:
        return factor_analysis.log_density(given.observed, given.known, rows[:, pattern.observed])

    def pattern_sums(
        self,
        params: FactorParams,
        rows: Array,
        responsibilities: Array,
        pattern: Pattern,
        given: FactorRegression,
    ) -> Array:
        seen, weight = rows[:, pattern.observed], responsibilities.sum(axis=0)
        factors = given.factors(seen)
        away = np.empty((len(weight), *rows.shape))
        away[:, :, pattern.observed] = seen - given.observed.means[:, None]
        away[:, :, pattern.missing] = factors @ given.loadings
        r = responsibilities.T[:, :, None]
        weighted = (r * factors).swapaxes(1, 2)
        rest = self._rest(params, pattern, given)
        moments = Moments(
            (r * np.square(away)).sum(axis=1) + weight[:, None] * rest.variance,
            weighted @ away + weight[:, None, None] * rest.cross,
            weighted @ factors + weight[:, None, None] * rest.factors,
        )
        first = [(r * away).sum(axis=1), weighted.sum(axis=2)]
        return np.hstack([weight[:, None], *first, factor_analysis.packed(moments)])

    def _rest(self, params: FactorParams, pattern: Pattern, given: FactorRegression) -> Moments:
        """Covariances of the missing cells and of the factors given the observed cells.

        Those of the factors are less what they are given all cells, which `to_blocks` adds.
        """
        variance, cross = np.zeros_like(params.means), np.zeros_like(params.loadings)
        cross[:, :, pattern.missing] = given.spread @ given.loadings
        explained = (given.loadings * cross[:, :, pattern.missing]).sum(axis=1)
        variance[:, pattern.missing] = explained + given.noise
        return Moments(variance, cross, given.spread - factor_analysis.spread(params))

    # the missing cells given the observed ones

    def of_columns(self, chosen: Sequence[int]) -> Family:
        """Gaussians with full covariances, if there are no more columns than factors."""
        whole = self.complete.of_columns(chosen)
        if len(chosen) > whole.n_factors:
            return replace(self, complete=whole)
        limits = (whole.cap, whole.column_floors, whole.column_variances)
        return ObservedGaussian(Gaussian("full", whole.floor, whole.reg_covar, None, *limits))

    def _narrowed(self, params: FactorParams) -> Params:
        """The parameters in the form that `of_columns` has for as many columns."""
        few = params.means.shape[1] <= self.complete.n_factors
        return self.complete.dense(params) if few else params

    def take_columns(self, params: FactorParams, chosen: Sequence[int]) -> Params:
        return self._narrowed(params.of_columns(chosen))

    def given_cells(self, params: FactorParams, row: Array) -> tuple[Family, Params]:
        (pattern,) = patterns(row[None])
        given = regression(params, pattern)
        means = self.pattern_means(params, row[None], pattern, given)[:, 0]
        found = FactorParams(means, given.known.root @ given.loadings, given.noise)
        return self.of_columns(list(pattern.missing)), self._narrowed(found)

    def pattern_means(
        self, params: FactorParams, rows: Array, pattern: Pattern, given: FactorRegression
    ) -> Array:
        factors = given.factors(rows[:, pattern.observed])
        return np.asarray(params.means[:, None, pattern.missing] + factors @ given.loadings)

    def noise(
        self, params: FactorParams, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        """Normal numbers for every cell, and for every factor."""
        return rng.standard_normal((len(x), x.shape[1] + self.complete.n_factors))

    def pattern_draws(
        self,
        params: FactorParams,
        k: int,
        rows: Array,
        noise: Array,
        pattern: Pattern,
        given: FactorRegression,
    ) -> Array:
        d = rows.shape[1]
        centred = rows[:, pattern.observed] - given.observed.means[k]
        factors = centred @ given.known.beta[k].T + noise[:, d:] @ given.known.root[k]
        own = noise[:, pattern.missing] * np.sqrt(given.noise[k])
        return np.asarray(params.means[k, pattern.missing] + factors @ given.loadings[k] + own)

    # factors are determined up to a rotation

    @property
    def n_factors(self) -> int:
        return self.complete.n_factors

    def rotated(self, blocks: Blocks, like: Blocks) -> Blocks:
        return self.complete.rotated(blocks, like)
