"""Gaussian distributions with full, tied, diagonal, spherical or factor covariances."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mixfold.core.checks import (
    LARGEST_SQUARE,
    LOWEST,
    check_above,
    check_array,
    check_kind,
    check_least,
    check_whole,
)
from mixfold.core.conjugate import Conjugate
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.family import Family, Form
from mixfold.core.limits import LARGEST, LEAST_VARIANCE
from mixfold.core.rows import Array
from mixfold.core.statistics import Scatter, Statistics, pack, unpack
from mixfold.core.value import value
from mixfold.core.variance_floors import (
    SHARE,
    TOUCHING,
    floors,
    lowest_variances,
    resolved_variances,
)
from mixfold.families import _factor_analysis as factor_analysis
from mixfold.families._covariance import STRUCTURES, Covariance
from mixfold.families._factor_analysis import FactorParams, Moments
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._normal_gamma import NormalGamma
from mixfold.families._normal_wishart import NormalWishart

__all__ = ["FactorGaussian", "FactorParams", "Gaussian", "GaussianParams"]

CONJUGATES: dict[str, Conjugate] = {"full": NormalWishart(), "diag": NormalGamma()}
LOG_2PI = float(np.log(2.0 * np.pi))
FACTOR = "factor"


def _for_each(shared: Array, shape: tuple[int, ...]) -> Array:
    """One array per component, copied where components share it."""
    return shared if shared.shape == shape else np.array(np.broadcast_to(shared, shape))


@value
class Gaussian(Family):
    """Multivariate normal: t(x) = (x, xx'), maximised by mean and covariance.

    `floor` keeps every conditional variance above that share of the data's variance in the
    column, so that no component can collapse. None, the default, takes the smallest variances from
    the resolution and the scale of the data when a fit begins: in steps of s no variance is below
    s^2 / 12, a constant column gets a deviation of a thousandth of its value, or 0.001, and all
    others a share of 1e-8. They are kept as `column_floors`. `reg_covar` is added to every
    variance; where it is given, no floor is taken from the data. `cap` is the largest precision:
    no eigenvalue of a covariance falls below 1 / cap, which is no degeneracy.
    `covariance="factor"` is full structure in high dimension, by `rank` factors: see
    `FactorGaussian`.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold.families.gaussian import Gaussian, GaussianParams
    >>> family = Gaussian(covariance="diag")
    >>> params = GaussianParams(np.zeros((1, 2)), np.ones((1, 2)))
    >>> family.log_density(params, np.zeros((1, 2))).round(4)
    array([[-1.8379]])
    """

    covariance: str = "full"
    floor: float | None = None
    reg_covar: float = 0.0
    rank: int | None = None
    cap: float | None = None
    column_floors: Array | None = field(default=None, repr=False)

    def __new__(cls, covariance: str = "full", *others: Any, **named: Any) -> Self:
        """With factors it is a `FactorGaussian`."""
        kind: Any = FactorGaussian if covariance == FACTOR else cls
        return object.__new__(kind)  # type: ignore[no-any-return]

    def __post_init__(self) -> None:
        if self.covariance not in (*STRUCTURES, FACTOR):
            raise unknown_name("covariance", self.covariance, [*STRUCTURES, FACTOR])
        if self.rank is not None and self.covariance != FACTOR:
            raise InvalidInputError(
                f"rank is {self.rank!r}, but covariance {self.covariance!r} has none: "
                "use covariance='factor', or leave rank out"
            )
        if self.floor is not None:
            check_least("floor", self.floor, 0.0, 1.0)
        check_least("reg_covar", self.reg_covar, 0.0, LARGEST**2)
        if self.cap is not None:
            check_above("cap", self.cap, LEAST_VARIANCE, 1.0 / LEAST_VARIANCE)

    @property
    def structure(self) -> Covariance:
        """The covariance structure."""
        return STRUCTURES[self.covariance]

    @property
    def form(self) -> Form:
        return self.structure.form

    @property
    def scatter(self) -> Scatter:
        return self.structure.scatter

    @property
    def conjugate(self) -> Conjugate | None:
        return CONJUGATES.get(self.covariance) if self.cap is None else None

    @property
    def floor_share(self) -> float:
        """The share of a column's variance below which no component's falls."""
        return SHARE if self.floor is None else self.floor

    def lowest_variances(self, d: int) -> Array:
        """What no variance falls below, whatever the share, (d,)."""
        return lowest_variances(self.column_floors, d)

    @property
    def takes_limits(self) -> bool:
        """Whether the smallest variances come from the data."""
        return self.floor is None and self.reg_covar == 0.0 and self.cap is None

    def with_limits(self, x: NDArray[np.floating]) -> Gaussian:
        return replace(self, column_floors=resolved_variances(x))

    def with_limits_of(self, params: Any, weights: Array) -> Gaussian:
        return replace(self, column_floors=self._floors_of(params, weights))

    def without_limits(self) -> Gaussian:
        return replace(self, column_floors=None) if self.takes_limits else self

    def common_limits(self, others: list[Gaussian]) -> Gaussian:
        known = [one.column_floors for one in (self, *others) if one.column_floors is not None]
        if not (self.takes_limits and known):
            return self
        return replace(self, column_floors=np.asarray(np.min(known, axis=0), dtype=np.float64))

    def degenerate(self, params: Any, weights: Array) -> NDArray[np.bool_]:
        """Where a column's variance, given the columns before it, is on its floor."""
        if self.cap is not None:
            return np.zeros(params.means.shape, dtype=bool)
        floor, found = self._floors_of(params, weights), np.empty(params.means.shape, dtype=bool)
        for k in range(len(found)):  # one by one: there may be tens of thousands of columns
            found[k] = self._column_variances(params, k)[1] <= TOUCHING * floor
        return found

    def _floors_of(self, params: Any, weights: Array) -> Array:
        """What `variance_floor` is for the mixture itself."""
        centre = weights @ params.means
        total = np.zeros_like(centre)
        for k, (weight, mean) in enumerate(zip(weights, params.means, strict=True)):
            total += weight * (self._column_variances(params, k)[0] + np.square(mean - centre))
        return floors(self.floor_share, total, centre, self.lowest_variances(len(centre)))

    def _column_variances(self, params: Any, k: int) -> tuple[Array, Array]:
        """Variances of columns in a component, and those given the columns before."""
        factor = params.factor[min(k, len(params.factor) - 1)]
        if factor.ndim == 1:
            return np.square(factor), np.square(factor)
        return np.square(factor).sum(axis=1), np.square(np.diagonal(factor))

    def check_columns(self, d: int) -> None:
        if self.column_floors is not None:
            check_array("column_floors", self.column_floors, (d,), 0.0, LARGEST_SQUARE)

    @property
    def least_variance(self) -> float:
        """The variance that a cap allows; zero without one."""
        return 0.0 if self.cap is None else 1.0 / self.cap

    @classmethod
    def variants(cls) -> list[Self]:
        plain = [cls(covariance=name) for name in STRUCTURES]
        return [*plain, cls(FACTOR, rank=1), cls("diag", cap=1.0)]

    def check_params(self, params: Any, k: int, d: int) -> None:
        check_kind("components", params, GaussianParams)
        check_array("means", params.means, (k, d))
        self.structure.check(params.factor, k, d)

    def example(self, k: int, d: int, rng: np.random.Generator) -> GaussianParams:
        spread = rng.normal(size=(k, 3 * d, d)) + np.arange(d)
        scatter = np.stack([np.cov(rows.T, ddof=0).reshape(d, d) for rows in spread])
        packed = pack(scatter) if self.scatter == "full" else np.diagonal(scatter, axis1=1, axis2=2)
        weight = np.full(k, 1.0 / k)
        return self.maximize(Statistics(weight, 3.0 * rng.normal(size=(k, d)), packed, 1.0, 0.0))[0]

    def whiten(self, params: GaussianParams) -> Array:
        """Inverse factors: (K, d, d) lower triangular, or (K, d)."""
        k, d = params.means.shape
        if params.factor.ndim == 2:
            return _for_each(1.0 / params.factor, (k, d))
        diagonal = np.diagonal(params.factor, axis1=1, axis2=2)
        unit = params.factor / diagonal[:, :, None]
        inverse = np.tril(np.linalg.inv(unit)) / diagonal[:, None, :]
        return _for_each(inverse, (k, d, d))

    def log_determinant(self, params: GaussianParams) -> Array:
        """log of the determinant of the factors, (K,)."""
        k, d = params.means.shape
        diagonal = params.factor
        if diagonal.ndim == 3:
            diagonal = np.diagonal(diagonal, axis1=1, axis2=2)
        return np.asarray(np.log(_for_each(diagonal, (k, d))).sum(axis=1))

    def local(self, params: GaussianParams, x: Array) -> Array:
        centred = x[None] - params.means[:, None]
        whiten = self.whiten(params)
        if whiten.ndim == 2:
            return np.asarray(centred * whiten[:, None])
        return np.asarray(centred @ whiten.swapaxes(1, 2))

    def log_density(self, params: GaussianParams, x: Array) -> Array:
        square = np.square(self.local(params, x)).sum(axis=2).T
        d = x.shape[1]
        return np.asarray(-0.5 * (square + d * LOG_2PI) - self.log_determinant(params))

    def from_local(
        self, params: GaussianParams, mean: Array, scatter: Array
    ) -> tuple[Array, Array]:
        factor = params.factor
        if factor.ndim == 2:
            return params.means + factor * mean, np.square(factor) * scatter
        means = params.means + (factor @ mean[:, :, None])[:, :, 0]
        return means, pack(factor @ unpack(scatter, mean.shape[1]) @ factor.swapaxes(1, 2))

    def to_local(self, params: GaussianParams, mean: Array, scatter: Array) -> tuple[Array, Array]:
        whiten, offset = self.whiten(params), mean - params.means
        if whiten.ndim == 2:
            return whiten * offset, np.square(whiten) * scatter
        square = whiten @ unpack(scatter, mean.shape[1]) @ whiten.swapaxes(1, 2)
        return (whiten @ offset[:, :, None])[:, :, 0], pack(square)

    def sufficient(self, x: Array) -> Array:
        if self.scatter == "diag":
            return np.hstack([x, np.square(x)])
        return np.hstack([x, pack(x[:, :, None] * x[:, None, :])])

    def log_base(self, x: Array) -> Array:
        return np.full(len(x), -0.5 * x.shape[1] * LOG_2PI)

    def natural(self, params: GaussianParams) -> Array:
        whiten = self.whiten(params)
        if whiten.ndim == 2:
            precision = np.square(whiten)
            return np.hstack([precision * params.means, -0.5 * precision])
        precision = whiten.swapaxes(1, 2) @ whiten
        d = params.means.shape[1]
        linear = np.einsum("kij,kj->ki", precision, params.means)
        # an off-diagonal product appears once in the packed t(x), twice in the quadratic form
        return np.hstack([linear, pack(precision * (0.5 * np.eye(d) - 1.0))])

    def log_normalizer(self, eta: Array) -> Array:
        if self.scatter == "diag":
            linear, quadratic = np.hsplit(eta, 2)
            terms = -0.25 * np.square(linear) / quadratic - 0.5 * np.log(-2.0 * quadratic)
            return np.asarray(terms.sum(axis=1))
        d = int((np.sqrt(9 + 8 * eta.shape[1]) - 3) // 2)
        linear, quadratic = eta[:, :d], unpack(eta[:, d:], d)
        precision = -quadratic * (1.0 + np.eye(d))
        means = np.linalg.solve(precision, linear[:, :, None])[:, :, 0]
        return np.asarray(
            0.5 * (linear * means).sum(axis=1) - 0.5 * np.linalg.slogdet(precision)[1]
        )

    def mean(self, params: GaussianParams) -> Array:
        d = params.means.shape[1]
        squares = self.full_scatter(params) + self.sufficient(params.means)[:, d:]
        return np.hstack([params.means, squares])

    def full_scatter(self, params: GaussianParams) -> Array:
        """Covariances of every component in the packing of its statistics, (K, p)."""
        k, d = params.means.shape
        if params.factor.ndim == 2:
            return _for_each(np.square(params.factor), (k, d))
        packed = pack(params.factor @ params.factor.swapaxes(1, 2))
        return _for_each(packed, (k, packed.shape[1]))

    def expected(self, params: GaussianParams, weights: Array) -> Statistics:
        return Statistics(weights.copy(), params.means.copy(), self.full_scatter(params), 1.0, 0.0)

    def variance_floor(self, statistics: Statistics) -> Array:
        """The smallest variance allowed in each column, from the data's own scale."""
        share = statistics.weight / statistics.weight.sum()
        centre = share @ statistics.mean
        total = share @ (self._variances(statistics) + np.square(statistics.mean - centre))
        return floors(self.floor_share, total, centre, self.lowest_variances(len(centre)))

    def _variances(self, statistics: Statistics) -> Array:
        if self.scatter == "diag":
            return statistics.scatter
        d = statistics.mean.shape[1]
        rows = np.arange(d)
        return np.asarray(statistics.scatter[:, rows * (rows + 3) // 2])

    def maximize(self, statistics: Statistics) -> tuple[GaussianParams, int]:
        floor = self.variance_floor(statistics)
        factor, repairs = self.structure.factorize(
            statistics.weight, statistics.scatter, self.reg_covar, self.least_variance, floor
        )
        return GaussianParams(statistics.mean, factor), repairs

    def sample(self, params: GaussianParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        k, d = params.means.shape
        noise = rng.standard_normal((len(labels), d))
        if params.factor.ndim == 2:
            spread = np.broadcast_to(params.factor, (k, d))[labels]
            return np.asarray(params.means[labels] + noise * spread)
        rows = np.empty((len(labels), d))
        factors = np.broadcast_to(params.factor, (k, d, d))
        for component in np.unique(labels):
            chosen = labels == component
            rows[chosen] = params.means[component] + noise[chosen] @ factors[component].T
        return rows

    def scale(self, x: Array, weight: Array) -> Array:
        share = weight / weight.sum()
        spread = np.sqrt(share @ np.square(x - share @ x))
        return np.where(spread > 0, spread, 1.0)

    def divergence(self, x: Array, centers: Array, scale: Array) -> Array:
        """Half the squared distance: all components share one covariance before learning."""
        origin = centers[0]  # differences of rows far from zero lose no digits about it
        rows, scaled = (x - origin) / scale, (centers - origin) / scale
        return np.asarray(0.5 * cdist(rows, scaled, "sqeuclidean"))

    def symmetric_kl(self, a: GaussianParams, b: GaussianParams) -> Array:
        """The same as the general form, without its cancellation far from zero."""
        return self._mahalanobis_kl(a, b) + self._mahalanobis_kl(b, a).T

    def _mahalanobis_kl(self, a: GaussianParams, b: GaussianParams) -> Array:
        """Half of tr(A_i^-1 B_j) - d + |b_j - a_i|^2 in the metric of A_i, (K, K)."""
        k, d = a.means.shape
        whiten, factor = self.whiten(a)[:, None], b.factor[None]
        offset = (b.means[None] - a.means[:, None])[..., None]
        if whiten.ndim == 3:
            spread = np.broadcast_to(whiten * factor, (k, k, d))
            square = np.square(spread) + np.square(whiten * offset[..., 0])
            return np.asarray(0.5 * (square - 1.0).sum(axis=2))
        spread = np.square(whiten @ factor).sum(axis=(2, 3))
        return np.asarray(0.5 * (spread - d + np.square(whiten @ offset).sum(axis=(2, 3))))

    def unconstrained(self, params: GaussianParams) -> Array:
        k = len(params.means)
        factor = params.factor
        if factor.ndim == 3:
            logs = np.log(np.diagonal(factor, axis1=1, axis2=2))
            unit = factor / np.diagonal(factor, axis1=1, axis2=2)[:, :, None]
            i, j = np.tril_indices(factor.shape[1], -1)
            shape = np.hstack([logs, unit[:, i, j]])
        else:
            shape = np.log(factor)
        return np.hstack([params.means, np.broadcast_to(shape, (k, shape.shape[1]))])

    def constrained(self, coordinates: Array, like: GaussianParams) -> GaussianParams:
        d = like.means.shape[1]
        means, shape = coordinates[:, :d], coordinates[: len(like.factor), d:]
        return GaussianParams(
            means.copy(),
            self.structure.widened(self._factor(shape, like.factor), self.least_variance),
        )

    def _factor(self, shape: Array, like: Array) -> Array:
        if like.ndim == 2:
            return np.exp(shape)
        d = like.shape[1]
        scale = np.exp(shape[:, :d])
        unit = np.zeros_like(like)
        unit[:, np.arange(d), np.arange(d)] = 1.0
        i, j = np.tril_indices(d, -1)
        unit[:, i, j] = shape[:, d:]
        return np.asarray(unit * scale[:, :, None])

    def units(self, params: GaussianParams) -> Array:
        k, d = params.means.shape
        coordinates = self.unconstrained(params)
        units = np.ones_like(coordinates)
        units[:, :d] = np.sqrt(self._variances(self.expected(params, np.ones(k))))
        return units

    def blend(self, a: GaussianParams, b: GaussianParams, t: float) -> GaussianParams:
        covariance = self.structure.covariances
        mixed = (1.0 - t) * covariance(a.factor) + t * covariance(b.factor)
        means = (1.0 - t) * a.means + t * b.means
        return GaussianParams(means, self.structure.from_covariances(mixed))

    def extent(self, params: GaussianParams) -> tuple[float, float, float]:
        eigenvalues = (
            np.square(np.linalg.svd(params.factor, compute_uv=False))
            if (params.factor.ndim == 3)
            else np.square(params.factor)
        )
        location = float(np.abs(params.means).max())
        return location, float(eigenvalues.min()), float(eigenvalues.max())

    def n_parameters(self, k: int, d: int) -> int:
        return k * d + self.structure.n_parameters(k, d)


@value
class FactorGaussian(Gaussian):
    """x = mu + L'z + e with factors z ~ N(0, I) of dimension `rank` and noise e ~ N(0, psi).

    Sigma = L'L + diag(psi), in O(d rank) memory and time: `Gaussian("factor", rank=q)`. Statistics
    hold z as it is expected given x. The floor is that of the noise, the variance of a column given
    all factors, and `reg_covar` is added to it; a cap is that of the noise's precision.

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

    covariance: str = FACTOR

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.covariance != FACTOR:
            raise InvalidInputError(
                f"covariance is {self.covariance!r}: use Gaussian({self.covariance!r})"
            )
        if self.rank is None:
            raise InvalidInputError(
                "rank is None: covariance 'factor' needs the number of factors, rank=8 or --rank 8"
            )
        check_whole("rank", self.rank)

    def __repr__(self) -> str:
        return (
            f"Gaussian(covariance='factor', floor={self.floor!r}, reg_covar={self.reg_covar!r}, "
            f"rank={self.rank!r}, cap={self.cap!r})"
        )

    @property
    def structure(self) -> Covariance:
        raise AssertionError("factors have no covariance matrices")

    @property
    def form(self) -> Form:
        return "factor"

    @property
    def scatter(self) -> Scatter:
        return "factor"

    @property
    def hidden(self) -> int:
        assert self.rank is not None
        return self.rank

    def check_columns(self, d: int) -> None:
        super().check_columns(d)
        if self.hidden >= d:
            raise InvalidInputError(
                f"rank is {self.rank}, but the data have {d} column{'s' * (d != 1)}: a rank below "
                "that is needed, or covariance='full'"
            )

    def check_params(self, params: Any, k: int, d: int) -> None:
        check_kind("components", params, FactorParams)
        check_array("means", params.means, (k, d))
        check_array("loadings", params.loadings, (k, self.hidden, d))
        check_array("noise_variance", params.noise_variance, (k, d), LOWEST**2, LARGEST_SQUARE)

    def example(self, k: int, d: int, rng: np.random.Generator) -> Any:
        loadings = rng.normal(size=(k, self.hidden, d))
        return FactorParams(3.0 * rng.normal(size=(k, d)), loadings, rng.uniform(0.5, 2.0, (k, d)))

    def dense(self, params: FactorParams) -> GaussianParams:
        """The same components by Cholesky factors, (K, d, d)."""
        noise = params.noise_variance[:, None] * np.eye(params.means.shape[1])
        square = params.loadings.swapaxes(1, 2) @ params.loadings + noise
        factor = np.asarray(np.linalg.cholesky(square), dtype=np.float64)
        return GaussianParams(params.means, factor)

    def natural(self, params: Any) -> Array:
        return Gaussian().natural(self.dense(params))

    def mean(self, params: Any) -> Array:
        return Gaussian().mean(self.dense(params))

    def local(self, params: Any, x: Array) -> Array:
        """Rows about their means, and the factors expected of them."""
        centred = x[None] - params.means[:, None]
        beta = factor_analysis.posterior(params).beta
        return np.concatenate([centred, centred @ beta.swapaxes(1, 2)], axis=2)

    def from_local(self, params: Any, mean: Array, scatter: Array) -> tuple[Array, Array]:
        return self._shifted(params, mean, scatter, 1.0)

    def to_local(self, params: Any, mean: Array, scatter: Array) -> tuple[Array, Array]:
        return self._shifted(params, mean, scatter, -1.0)

    def _shifted(
        self, params: FactorParams, mean: Array, scatter: Array, sign: float
    ) -> tuple[Array, Array]:
        """With the means, and with what is not known of factors, added or taken off."""
        d = params.means.shape[1]
        moments = self._moments(scatter, d)
        factors = moments.factors + sign * factor_analysis.spread(params)
        means = mean.copy()
        means[:, :d] += sign * params.means
        return means, factor_analysis.packed(moments._replace(factors=factors))

    def _moments(self, scatter: Array, d: int) -> Moments:
        return factor_analysis.unpacked(scatter, d, self.hidden)

    def log_density(self, params: Any, x: Array) -> Array:
        known = factor_analysis.posterior(params)
        square = [
            factor_analysis.quadratic(params, known, k, x - mean)
            for k, mean in enumerate(params.means)
        ]
        logs = 0.5 * x.shape[1] * LOG_2PI + known.half_log_determinant
        return np.asarray(-0.5 * np.stack(square, axis=1) - logs)

    def variances(self, params: FactorParams) -> Array:
        """Variances of columns, (K, d)."""
        return np.asarray(np.square(params.loadings).sum(axis=1) + params.noise_variance)

    def expected(self, params: Any, weights: Array) -> Statistics:
        k, q = len(weights), self.hidden
        mean = np.hstack([params.means, np.zeros((k, q))])
        one = np.tile(np.eye(q), (k, 1, 1))
        moments = Moments(self.variances(params), params.loadings, one)
        return Statistics(weights.copy(), mean, factor_analysis.packed(moments), 1.0, 0.0)

    def _seen(self, statistics: Statistics) -> Statistics:
        """Without what is hidden."""
        d = statistics.mean.shape[1] - self.hidden
        return replace(statistics, mean=statistics.mean[:, :d], scatter=statistics.scatter[:, :d])

    def _variances(self, statistics: Statistics) -> Array:
        return statistics.scatter

    def maximize(self, statistics: Statistics) -> tuple[Any, int]:
        seen = self._seen(statistics)
        means = np.ascontiguousarray(seen.mean)
        loadings, noise = factor_analysis.regressed(
            self._moments(statistics.scatter, means.shape[1])
        )
        noise = np.maximum(noise + self.reg_covar, self.least_variance)
        floor = self.variance_floor(seen)
        healthy = noise > floor
        params = FactorParams(means, loadings, np.where(healthy, noise, floor))
        return params, int((~healthy).any(axis=1).sum())

    def _column_variances(self, params: Any, k: int) -> tuple[Array, Array]:
        noise = params.noise_variance[k]
        return np.square(params.loadings[k]).sum(axis=0) + noise, noise

    def sample(self, params: Any, labels: np.ndarray, rng: np.random.Generator) -> Array:
        rows = rng.standard_normal((len(labels), params.means.shape[1]))
        factors = rng.standard_normal((len(labels), self.hidden))
        for k in np.unique(labels):
            chosen = labels == k
            noise = rows[chosen] * np.sqrt(params.noise_variance[k])
            rows[chosen] = params.means[k] + factors[chosen] @ params.loadings[k] + noise
        return rows

    def turned(self, statistics: Statistics, like: Statistics) -> Statistics:
        d = statistics.mean.shape[1] - self.hidden
        own, other = (self._moments(s.scatter, d) for s in (statistics, like))
        scatter = factor_analysis.packed(factor_analysis.turned(own, other))
        return replace(statistics, scatter=scatter)

    def _mahalanobis_kl(self, a: Any, b: Any) -> Array:
        known = factor_analysis.posterior(a)
        inverse = known.precision - np.square(known.reach).sum(axis=1)
        k, d = a.means.shape
        found = inverse @ b.noise_variance.T - d
        for i in range(k):
            spread = factor_analysis.quadratic(a, known, i, b.loadings.reshape(-1, d))
            offset = factor_analysis.quadratic(a, known, i, b.means - a.means[i])
            found[i] += spread.reshape(k, -1).sum(axis=1) + offset
        return np.asarray(0.5 * found)

    def unconstrained(self, params: Any) -> Array:
        loadings = params.loadings.reshape(len(params.means), -1)
        return np.hstack([params.means, loadings, np.log(params.noise_variance)])

    def constrained(self, coordinates: Array, like: Any) -> Any:
        d = like.means.shape[1]
        loadings = coordinates[:, d:-d].reshape(like.loadings.shape)
        noise = np.maximum(np.exp(coordinates[:, -d:]), self.least_variance)
        return FactorParams(coordinates[:, :d].copy(), loadings.copy(), noise)

    def units(self, params: Any) -> Array:
        deviations = np.sqrt(self.variances(params))
        return np.hstack([np.tile(deviations, 1 + self.hidden), np.ones_like(deviations)])

    def blend(self, a: Any, b: Any, t: float) -> Any:
        return FactorParams(
            (1.0 - t) * a.means + t * b.means,
            (1.0 - t) * a.loadings + t * b.loadings,
            (1.0 - t) * a.noise_variance + t * b.noise_variance,
        )

    def extent(self, params: Any) -> tuple[float, float, float]:
        noise = params.noise_variance
        along = np.square(np.linalg.norm(params.loadings, ord=2, axis=(1, 2)))
        location = float(np.abs(params.means).max())
        return location, float(noise.min()), float((along + noise.max(axis=1)).max())

    def n_parameters(self, k: int, d: int) -> int:
        """Means, loadings up to a rotation, noise; no more than a full covariance has.

        Beyond Ledermann's bound, where (d - q)^2 < d + q, factors are as many as are needed for
        any covariance: see Lawley and Maxwell (1971), Factor Analysis as a Statistical Method.
        """
        q = self.hidden
        covariance = d * q - q * (q - 1) // 2 + d
        return k * d + min(k * covariance, STRUCTURES["full"].n_parameters(k, d))
