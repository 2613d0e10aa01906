"""Gaussian distributions whose covariances are of low rank plus a diagonal."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mixfold.core.checks import (
    LARGEST_SQUARE,
    LOWEST,
    check_array,
    check_kind,
    check_whole,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.expression import Expression
from mixfold.core.family import groups, n_components_with
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, packed_length, packed_pairs
from mixfold.core.value import value
from mixfold.families import factor_analysis
from mixfold.families._centred_moments import CentredMoments
from mixfold.families._gaussian_params import GaussianParams, scipy_log_density
from mixfold.families._variance_limits import VarianceLimits
from mixfold.families.factor_analysis import LOG_2PI, FactorParams, Moments

if TYPE_CHECKING:
    from mixfold.families.gaussian import Gaussian

FACTOR = "factor"


@value
class FactorGaussian(VarianceLimits[FactorParams], CentredMoments[FactorParams]):
    """x = mu + L'z + e with factors z ~ N(0, I) of dimension `rank` and noise e ~ N(0, psi).

    Sigma = L'L + diag(psi), in O(d rank) memory and time: `Gaussian("factor", rank=q)`. Statistics
    hold the expectation of z given x. The floor is that of the noise, the variance of a column
    given all factors, and `reg_covar` is added to it; a cap is that of the noise's precision.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Gaussian, Mixture
    >>> x = np.random.default_rng(0).normal(size=(200, 1)) * np.arange(1.0, 6.0)
    >>> family = Gaussian("factor", rank=1, reg_covar=0.01)
    >>> model = Mixture(family, 1, learner="em", random_state=0).fit(x)
    >>> np.abs(model.loadings_[0, 0] / model.loadings_[0, 0, 0]).round(1)
    array([1., 2., 3., 4., 5.])

    References
    ----------
    Ghahramani and Hinton (1996), The EM algorithm for mixtures of factor analyzers; Liu, Rubin and
    Wu (1998) for parameter expansion.
    """

    registered_as: ClassVar[str] = "gaussian"
    default_init = "k-means++"
    statistics_depend_on_params = True

    covariance: str = FACTOR
    floor: float | None = None
    reg_covar: float = 0.0
    rank: int | None = None
    cap: float | None = None
    column_floors: Array | None = field(default=None, repr=False)
    column_variances: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.covariance != FACTOR:
            raise InvalidInputError(
                f"covariance is {self.covariance!r}: use Gaussian({self.covariance!r})"
            )
        if self.rank is None:
            raise InvalidInputError(
                "rank is None: covariance 'factor' needs the number of factors, rank=8 or --rank 8"
            )
        check_whole("rank", self.rank)
        self._columns.__post_init__()

    def __repr__(self) -> str:
        return (
            f"Gaussian(covariance='factor', floor={self.floor!r}, reg_covar={self.reg_covar!r}, "
            f"rank={self.rank!r}, cap={self.cap!r})"
        )

    @property
    def n_factors(self) -> int:
        assert self.rank is not None
        return self.rank

    @property
    def _columns(self) -> Gaussian:
        """The family of the columns given the factors, with the same bounds of variances."""
        from mixfold.families.gaussian import Gaussian

        return Gaussian(
            "diag", self.floor, self.reg_covar, cap=self.cap, column_floors=self.column_floors
        )

    @property
    def _dense(self) -> Gaussian:
        """The family that has the same densities."""
        from mixfold.families.gaussian import Gaussian

        return Gaussian()

    @property
    def least_variance(self) -> float:
        """The variance of the noise that a cap allows; zero without one."""
        return self._columns.least_variance

    def check_columns(self, d: int) -> None:
        super().check_columns(d)
        if self.n_factors >= d:
            raise InvalidInputError(
                f"rank is {self.rank}, but the data have {d} column{'s' * (d != 1)}: a rank below "
                "that is needed, or covariance='full'"
            )

    def check_params(self, params: FactorParams, k: int, d: int) -> None:
        check_kind("components", params, FactorParams)
        check_array("means", params.means, (k, d))
        check_array("loadings", params.loadings, (k, self.n_factors, d))
        check_array("noise_variance", params.noise_variance, (k, d), LOWEST**2, LARGEST_SQUARE)

    def example(self, k: int, d: int, rng: np.random.Generator) -> FactorParams:
        loadings = rng.normal(size=(k, self.n_factors, d))
        return FactorParams(3.0 * rng.normal(size=(k, d)), loadings, rng.uniform(0.5, 2.0, (k, d)))

    def low_rank(self, params: FactorParams) -> FactorParams:
        return params

    def dense(self, params: FactorParams) -> GaussianParams:
        """The same components by Cholesky factors, (K, d, d)."""
        noise = params.noise_variance[:, None] * np.eye(params.means.shape[1])
        square = params.loadings.swapaxes(1, 2) @ params.loadings + noise
        factor = np.asarray(np.linalg.cholesky(square), dtype=np.float64)
        return GaussianParams(params.means, factor)

    def _column_variances(self, params: FactorParams, k: int) -> tuple[Array, Array]:
        noise = params.noise_variance[k]
        return np.square(params.loadings[k]).sum(axis=0) + noise, noise

    def density_expression(
        self, params: FactorParams, x: Expression, marginalize: bool
    ) -> Expression:
        """|z|^2 + |psi^-1/2 (x - mu - L'z)|^2 is the distance, where z = E[z | x]."""
        found, means = factor_analysis.posterior(params), params.means
        centred = x.with_axis(0) - means[:, None]
        z = centred @ found.beta.swapaxes(1, 2)
        rest = (centred - z @ params.loadings) * np.sqrt(found.precision)[:, None]
        square = (z.square().sum(2) + rest.square().sum(2)).transposed(1, 0)
        constant: Array = found.half_log_determinant + 0.5 * means.shape[1] * LOG_2PI
        return -0.5 * square - constant

    def scipy_log_density(self, params: FactorParams, x: Array) -> Array:
        return scipy_log_density(self.dense(params), x)

    def n_statistics(self, d: int) -> int:
        return self._dense.n_statistics(d)

    def sufficient_statistics(self, x: Array) -> Array:
        return self._dense.sufficient_statistics(x)

    def log_base_measure(self, x: Array) -> Array:
        return self._dense.log_base_measure(x)

    def log_normalizer(self, eta: Array) -> Array:
        return self._dense.log_normalizer(eta)

    def to_natural(self, params: FactorParams) -> Array:
        return self._dense.to_natural(self.dense(params))

    def mean(self, params: FactorParams) -> Array:
        return self._dense.mean(self.dense(params))

    def n_means(self, d: int) -> int:
        return d + self.n_factors

    def n_products(self, d: int) -> int:
        return packed_length("factor", self.n_means(d), self.n_factors)

    def products(self, weighted: Array, centred: Array) -> Array:
        m = centred.shape[2]
        i, j = packed_pairs(m, self.n_products(m - self.n_factors))
        return np.asarray((weighted.swapaxes(1, 2) @ centred)[:, i, j])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        weight = responsibilities.sum(axis=0)
        middle = responsibilities.sum(axis=1) @ x / weight.sum()
        mean = np.tile(np.append(middle, np.zeros(self.n_factors)), (len(weight), 1))
        scatter = np.zeros((len(weight), self.n_products(x.shape[1])))
        for k, members, normalized in groups(responsibilities, weight):
            centre = normalized @ x[members]
            mean[k, : len(centre)] = centre
            scatter[k] = factor_analysis.principal(x[members] - centre, normalized, self.n_factors)
        return (Block(weight, mean, scatter),)

    def centred(self, params: FactorParams, x: Array) -> Array:
        """Centred rows, and the expected factors given the rows."""
        centred = x[None] - params.means[:, None]
        beta = factor_analysis.posterior(params).beta
        return np.concatenate([centred, centred @ beta.swapaxes(1, 2)], axis=2)

    def from_centred(
        self, params: FactorParams, mean: Array, scatter: Array
    ) -> tuple[Array, Array]:
        return self._shifted(params, mean, scatter, 1.0)

    def to_centred(self, params: FactorParams, mean: Array, scatter: Array) -> tuple[Array, Array]:
        return self._shifted(params, mean, scatter, -1.0)

    def _shifted(
        self, params: FactorParams, mean: Array, scatter: Array, sign: float
    ) -> tuple[Array, Array]:
        """Add or subtract the means and the posterior covariance of the factors."""
        d = params.means.shape[1]
        moments = self._moments(scatter, d)
        factors = moments.factors + sign * factor_analysis.spread(params)
        means = mean.copy()
        means[:, :d] += sign * params.means
        return means, factor_analysis.packed(moments._replace(factors=factors))

    def _moments(self, scatter: Array, d: int) -> Moments:
        return factor_analysis.unpacked(scatter, d, self.n_factors)

    def log_density(self, params: FactorParams, x: Array) -> Array:
        return factor_analysis.log_density(params, factor_analysis.posterior(params), x)

    def variances(self, params: FactorParams) -> Array:
        """Variances of columns, (K, d)."""
        return np.asarray(np.square(params.loadings).sum(axis=1) + params.noise_variance)

    def expected(self, params: FactorParams, weights: Array) -> Blocks:
        k, q = len(weights), self.n_factors
        mean = np.hstack([params.means, np.zeros((k, q))])
        one = np.tile(np.eye(q), (k, 1, 1))
        moments = Moments(self.variances(params), params.loadings, one)
        return (Block(weights.copy(), mean, factor_analysis.packed(moments)),)

    def _observed(self, block: Block) -> Block:
        """The part of a block that belongs to the columns."""
        d = block.mean.shape[1] - self.n_factors
        return replace(block, mean=block.mean[:, :d], scatter=block.scatter[:, :d])

    def maximize(self, blocks: Blocks) -> tuple[FactorParams, int]:
        (block,) = blocks
        observed = self._observed(block)
        means = np.ascontiguousarray(observed.mean)
        loadings, noise = factor_analysis.regressed(self._moments(block.scatter, means.shape[1]))
        noise = np.maximum(noise + self.reg_covar, self.least_variance)
        floor = self._columns.variance_floor(observed)
        healthy = noise > floor
        params = FactorParams(means, loadings, np.where(healthy, noise, floor))
        return params, n_components_with(~healthy)

    def sample(self, params: FactorParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        rows = rng.standard_normal((len(labels), params.means.shape[1]))
        factors = rng.standard_normal((len(labels), self.n_factors))
        for k in np.unique(labels):
            chosen = labels == k
            noise = rows[chosen] * np.sqrt(params.noise_variance[k])
            rows[chosen] = params.means[k] + factors[chosen] @ params.loadings[k] + noise
        return rows

    def rotated(self, blocks: Blocks, like: Blocks) -> Blocks:
        (block,), (other,) = blocks, like
        d = block.mean.shape[1] - self.n_factors
        pair = (self._moments(one.scatter, d) for one in (block, other))
        return (replace(block, scatter=factor_analysis.packed(factor_analysis.rotated(*pair))),)

    def symmetric_kl(self, a: FactorParams, b: FactorParams) -> Array:
        """The same as the general form, without its cancellation far from zero."""
        return self._mahalanobis_kl(a, b) + self._mahalanobis_kl(b, a).T

    def _mahalanobis_kl(self, a: FactorParams, b: FactorParams) -> Array:
        known = factor_analysis.posterior(a)
        inverse = known.precision - np.square(known.reach).sum(axis=1)
        k, d = a.means.shape
        found = inverse @ b.noise_variance.T - d
        for i in range(k):
            spread = factor_analysis.quadratic(a, known, i, b.loadings.reshape(-1, d))
            offset = factor_analysis.quadratic(a, known, i, b.means - a.means[i])
            found[i] += spread.reshape(k, -1).sum(axis=1) + offset
        return np.asarray(0.5 * found)

    def unconstrained(self, params: FactorParams) -> Array:
        loadings = params.loadings.reshape(len(params.means), -1)
        return np.hstack([params.means, loadings, np.log(params.noise_variance)])

    def constrained(self, coordinates: Array, like: FactorParams) -> FactorParams:
        d = like.means.shape[1]
        loadings = coordinates[:, d:-d].reshape(like.loadings.shape)
        noise = np.maximum(np.exp(coordinates[:, -d:]), self.least_variance)
        return FactorParams(coordinates[:, :d].copy(), loadings.copy(), noise)

    def coordinate_scales(self, params: FactorParams) -> Array:
        deviations = self.standard_deviations(params)
        return np.hstack([np.tile(deviations, 1 + self.n_factors), np.ones_like(deviations)])

    def blend(self, a: FactorParams, b: FactorParams, t: float) -> FactorParams:
        return FactorParams(
            (1.0 - t) * a.means + t * b.means,
            (1.0 - t) * a.loadings + t * b.loadings,
            (1.0 - t) * a.noise_variance + t * b.noise_variance,
        )

    def parameter_bounds(self, params: FactorParams) -> tuple[float, float, float]:
        noise = params.noise_variance
        along = np.square(np.linalg.norm(params.loadings, ord=2, axis=(1, 2)))
        location = float(np.abs(params.means).max())
        return location, float(noise.min()), float((along + noise.max(axis=1)).max())

    def n_parameters(self, k: int, d: int) -> int:
        """Means, loadings up to a rotation, noise; no more than a full covariance has.

        Beyond Ledermann's bound, where (d - q)^2 < d + q, factors are as many as are needed for
        any covariance: see Lawley and Maxwell (1971), Factor Analysis as a Statistical Method.
        """
        q = self.n_factors
        covariance = d * q - q * (q - 1) // 2 + d
        return k * (d + min(covariance, d * (d + 1) // 2))

    def standard_deviations(self, params: FactorParams) -> Array:
        return np.sqrt(self.variances(params))

    # initialisers

    def deviations_of(self, x: Array, weight: Array) -> Array:
        return self._columns.deviations_of(x, weight)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        return self._columns.divergence(x, centers, weight)

    def around(self, centers: Array, x: Array, weight: Array) -> FactorParams:
        (whole,) = self.blocks_of(x, weight[:, None])
        # two components whose means vary as much as the K centres have the same scale
        mean, scatter = (np.repeat(part, 2, axis=0) for part in (whole.mean, whole.scatter))
        apart = np.outer([-1.0, 1.0], centers.std(axis=0))
        mean[:, : x.shape[1]] = centers.mean(axis=0) + apart
        two, _ = self.maximize((Block(np.full(2, 0.5), mean, scatter),))
        k = len(centers)
        loadings, noise = (np.repeat(p[:1], k, axis=0) for p in (two.loadings, two.noise_variance))
        return FactorParams(centers, loadings, noise)

    def capped(self, cap: float) -> FactorGaussian:
        return replace(self, cap=min(cap, self.cap or cap))

    def at_cap(self, params: FactorParams) -> FactorParams:
        """The components unchanged: the factors keep the variance that they explain."""
        return params

    def root_shape(self, d: int) -> tuple[int, ...]:
        return (d,)
