"""Student t distributions, some of whose cells are missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixfold.core.family import Family
from mixfold.core.missing_cells import Pattern, patterns
from mixfold.core.rows import Array
from mixfold.core.value import replace, value
from mixfold.families.observed_columns import over_common_cells
from mixfold.families.observed_gaussian import ObservedGaussian, Regression, distances
from mixfold.families.patterned_rows import PatternedRows, Regressions
from mixfold.families.student_t import (
    LEAST_PRECISION,
    MOST_DEGREES,
    Precisions,
    StudentT,
    StudentTParams,
    log_density_at,
    precisions_at,
)


@value
class ObservedStudentT(PatternedRows[Regression]):
    """Student t distributions of rows with missing cells.

    With delta the squared Mahalanobis distance of the o observed cells, the precision of a row has
    the expectation u = (nu + o) / (nu + delta). Given it, the missing cells are Gaussian with the
    covariance C / u, so that C counts r, and the rest of the second moments r u.

    Reference: Liu (1995), Missing data imputation using the multivariate t distribution, Journal of
    Multivariate Analysis 53.
    """

    complete: StudentT

    @property
    def _gaussian(self) -> ObservedGaussian:
        """The family of rows given their precisions."""
        return ObservedGaussian(self.complete.gaussian)

    def regressions(self, params: StudentTParams) -> Regressions[Regression]:
        return self._gaussian.regressions(params.gaussian)

    def pattern_log_density(
        self, params: StudentTParams, rows: Array, pattern: Pattern, given: Regression
    ) -> Array:
        delta = distances(params.gaussian, rows, pattern, given).T
        return log_density_at(delta, params.degrees, given.log_determinant, len(pattern.observed))

    def _precisions(
        self, params: StudentTParams, rows: Array, pattern: Pattern, given: Regression
    ) -> Precisions:
        delta = distances(params.gaussian, rows, pattern, given).T
        return precisions_at(delta, params.degrees, len(pattern.observed))

    def pattern_sums(
        self,
        params: StudentTParams,
        rows: Array,
        responsibilities: Array,
        pattern: Pattern,
        given: Regression,
    ) -> Array:
        known = self._precisions(params, rows, pattern, given)
        latent, weighted = known.sums(responsibilities), responsibilities * known.u
        gaussian = self._gaussian.expected_sums(
            params.gaussian, rows, weighted, latent[:, 0], pattern, given
        )
        return np.hstack([latent, gaussian])

    # the missing cells given the observed ones

    def of_columns(self, chosen: Sequence[int]) -> ObservedStudentT:
        return replace(self, complete=self.complete.of_columns(chosen))

    def take_columns(self, params: StudentTParams, chosen: Sequence[int]) -> StudentTParams:
        return self.complete.take_columns(params, chosen)

    def given_cells(self, params: StudentTParams, row: Array) -> tuple[Family, StudentTParams]:
        """Student t distributions with nu + o degrees of freedom, and scales C / u."""
        (pattern,) = patterns(row[None])
        given = self.regressions(params).of(pattern)
        u = self._precisions(params, row[None], pattern, given).u[0]
        _, gaussian = self._gaussian.given_cells(params.gaussian, row)
        roots = np.sqrt(u).reshape(-1, *(1,) * (gaussian.scale.ndim - 1))
        degrees = np.minimum(params.degrees + len(pattern.observed), MOST_DEGREES)
        family = self.complete.of_columns(list(pattern.missing))
        if family.degrees is not None:
            family = replace(family, degrees=float(degrees[0]))
        found = StudentTParams(gaussian.means, gaussian.scale / roots, degrees)
        return replace(self, complete=family), found

    def pattern_means(
        self, params: StudentTParams, rows: Array, pattern: Pattern, given: Regression
    ) -> Array:
        return self._gaussian.pattern_means(params.gaussian, rows, pattern, given)

    def expected_cells(self, params: StudentTParams, x: Array, responsibilities: Array) -> Array:
        """Means are infinite where nothing is observed and nu is not above one: there are none."""
        found = super().expected_cells(params, x, responsibilities)
        heavy = (responsibilities[:, params.degrees <= 1.0] > 0.0).any(axis=1)
        found[np.isnan(x).all(axis=1) & heavy] = np.inf
        return found

    def noise(
        self, params: StudentTParams, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        """Normal numbers for every cell, and one of the gamma distribution of the precision."""
        normal = rng.standard_normal(x.shape)
        half = 0.5 * (params.degrees[labels] + (~np.isnan(x)).sum(axis=1))
        return np.column_stack([normal, rng.standard_gamma(half) / half])

    def pattern_draws(
        self,
        params: StudentTParams,
        k: int,
        rows: Array,
        noise: Array,
        pattern: Pattern,
        given: Regression,
    ) -> Array:
        own = Regression(*(part[k : k + 1] for part in given))
        one = StudentTParams(params.means[k : k + 1], params.scale, params.degrees[k : k + 1])
        u = self._precisions(one, rows, pattern, own).u[:, 0]
        roots = np.sqrt(np.maximum(u * noise[:, -1], LEAST_PRECISION))
        scaled, gaussian = noise[:, :-1] / roots[:, None], params.gaussian
        return self._gaussian.pattern_draws(gaussian, k, rows, scaled, pattern, given)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """That of complete rows at the distance in the columns that both have."""

        def between(j: int, there: NDArray[np.bool_], known: NDArray[np.bool_]) -> Array:
            column = slice(j, j + 1)
            rows, own = x[there, column], centers[known, column]
            return self.complete.robust_distances(rows, own, weight[there])

        return self.complete.loss_at(over_common_cells(x, centers, between), x.shape[1])
