"""Multivariate Student t distributions with full or diagonal scale matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import NamedTuple, Self

import numpy as np
from scipy.spatial.distance import cdist

from mixfold.core.checks import check_array, check_kind, check_least
from mixfold.core.errors import unknown_name
from mixfold.core.expression import Expression
from mixfold.core.family import groups
from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape
from mixfold.core.value import replace, value
from mixfold.core.variance_floors import QUARTILES
from mixfold.families._gamma_expressions import log1p
from mixfold.families._gamma_ratios import log_gamma_ratio
from mixfold.families._gamma_shapes import gamma_shapes, log_less_digamma
from mixfold.families._gaussian_expressions import distances_expression
from mixfold.families._variance_limits import VarianceLimits
from mixfold.families.gaussian import LOG_2PI, Gaussian, GaussianParams

COVARIANCES = ["full", "diag"]
LEAST_DEGREES, MOST_DEGREES = 0.1, 1e6
INITIAL_DEGREES = 4.0  # where they are estimated
LEAST_PRECISION = 1e-80  # of a row that is drawn, so that it is finite
ROUNDING = 1e-9  # of fractions of rows
N_LATENT = 2  # statistics of the precisions


@value
class StudentTParams:
    """Means (K, d), scales as those of Gaussians, and degrees of freedom (K,)."""

    means: Array
    scale: Array
    degrees: Array

    @property
    def gaussian(self) -> GaussianParams:
        """Gaussian components with the same means and scales."""
        return GaussianParams(self.means, self.scale)


@value
class StudentT(VarianceLimits[StudentTParams]):
    """Multivariate Student t: Gaussian rows whose precisions vary, for clusters with far rows.

    x = mu + z / sqrt(u) with z ~ N(0, Sigma) and u ~ Gamma(nu / 2, rate nu / 2), one u per row.
    Given x, E[u] = (nu + d) / (nu + delta), where delta is the squared Mahalanobis distance, so
    that far rows count little:

        mu = sum r u x / sum r u,    Sigma = sum r u (x - mu)(x - mu)' / sum r u,
        log(nu / 2) - digamma(nu / 2) = log(mean u) - mean(log u).

    Sigma is divided by the sum of r u, and not of r: this is parameter expansion, which is faster
    and has the same fixed points. Initial components have robust means and scales too. Estimated
    degrees are from 0.1 to 1e6; if they are large, a component is close to Gaussian, and EM
    approaches it slowly.

    `means_` are the centres, `scale_matrices_` are Sigma, (K, d, d) or (K, d), and `degrees_` are
    nu, (K,). The covariance of a component is nu / (nu - 2) Sigma if nu is above 2; otherwise it
    has none.

    Parameters
    ----------
    covariance : {"full", "diag"}, default="full"
        Whether Sigma has any or only diagonal entries. With "diag" columns are uncorrelated, but
        not independent: a row has one u, so that a row that is far in one column counts less in
        all columns.
    degrees : float from 0.1 to 1e6 or None, default=4.0
        The degrees of freedom nu of all components; None estimates them for each component.
    floor, reg_covar : float or None
        Limits of the entries of Sigma, as the variances of `Gaussian` have. By default they come
        from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture, StudentT
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(2.0, 1.0, 500), rng.normal(9.0, 1.0, 500), [500.0, -900.0]])
    >>> model = Mixture(StudentT(degrees=3.0), 2, random_state=0).fit(x[:, None])
    >>> np.sort(model.means_.ravel()).round().tolist()
    [2.0, 9.0]

    References
    ----------
    Peel and McLachlan (2000), Robust mixture modelling using the t distribution; Kent, Tyler and
    Vardi (1994) and Liu, Rubin and Wu (1998) for parameter expansion.
    """

    statistics_depend_on_params = True
    cap = column_variances = None  # limits that only Gaussians have

    covariance: str = "full"
    degrees: float | None = 4.0
    floor: float | None = None
    reg_covar: float = 0.0
    column_floors: Array | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.covariance not in COVARIANCES:
            raise unknown_name("covariance", self.covariance, COVARIANCES)
        if self.degrees is not None:
            check_least("degrees", self.degrees, LEAST_DEGREES, MOST_DEGREES)
        self.gaussian.__post_init__()

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(c, degrees) for c in COVARIANCES for degrees in (4.0, None)]

    @property
    def initial_degrees(self) -> float:
        """The known degrees of freedom, or where their estimates begin."""
        return INITIAL_DEGREES if self.degrees is None else float(self.degrees)

    @property
    def gaussian(self) -> Gaussian:
        """The family of rows given their precisions, with the same limits."""
        return Gaussian(
            self.covariance, self.floor, self.reg_covar, column_floors=self.column_floors
        )

    def _with_limits(self, floors: Array | None, variances: Array | None) -> Self:
        return replace(self, column_floors=floors)

    def _column_variances(self, params: StudentTParams, k: int) -> tuple[Array, Array]:
        return self.gaussian._column_variances(params.gaussian, k)

    def check_params(self, params: StudentTParams, k: int, d: int) -> None:
        check_kind("components", params, StudentTParams)
        self.gaussian.check_params(params.gaussian, k, d)
        low, high = (LEAST_DEGREES, MOST_DEGREES) if self.degrees is None else (self.degrees,) * 2
        check_array("degrees", params.degrees, (k,), (1 - 1e-9) * low, (1 + 1e-9) * high)

    def example(self, k: int, d: int, rng: np.random.Generator) -> StudentTParams:
        gaussian = self.gaussian.example(k, d, rng)
        degrees = rng.uniform(3.0, 12.0, size=k)
        return self._with_degrees(gaussian, degrees)

    def _with_degrees(self, gaussian: GaussianParams, estimated: Array) -> StudentTParams:
        """Parameters with these degrees of freedom, unless they are known."""
        if self.degrees is not None:
            estimated = np.full(len(gaussian.means), float(self.degrees))
        return StudentTParams(gaussian.means, gaussian.scale, estimated)

    def n_parameters(self, k: int, d: int) -> int:
        return self.gaussian.n_parameters(k, d) + (k if self.degrees is None else 0)

    # densities

    def _distances(self, params: StudentTParams, x: Array) -> Array:
        """Squared Mahalanobis distances, (n, K)."""
        return np.asarray(np.square(self.gaussian.centred(params.gaussian, x)).sum(axis=2).T)

    def log_density(self, params: StudentTParams, x: Array) -> Array:
        log_determinant = self.gaussian.log_determinant(params.gaussian)
        distances = self._distances(params, x)
        return log_density_at(distances, params.degrees, log_determinant, x.shape[1])

    def density_expression(
        self, params: StudentTParams, x: Expression, marginalize: bool
    ) -> Expression:
        nu, d = params.degrees, params.means.shape[1]
        log_determinant = self.gaussian.log_determinant(params.gaussian)
        nearest: Array = log_density_at(np.zeros((1, len(nu))), nu, log_determinant, d)
        distances = distances_expression(self.gaussian, params.gaussian, x, False)
        power: Array = -0.5 * (nu + d)
        return log1p(distances / nu) * power + nearest

    def scipy_log_density(self, params: StudentTParams, x: Array) -> Array:
        from scipy.stats import multivariate_t

        d = params.means.shape[1]
        scales = params.scale
        if scales.ndim == 2:
            scales = scales[:, None] * np.eye(d)
        each = zip(params.means, scales @ scales.swapaxes(1, 2), params.degrees, strict=True)
        found = [multivariate_t(mu, sigma, nu, True).logpdf(x) for mu, sigma, nu in each]
        return np.stack([one.reshape(len(x)) for one in found], axis=1)

    def sample(self, params: StudentTParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        half = 0.5 * params.degrees[labels]
        precisions = np.maximum(rng.standard_gamma(half) / half, LEAST_PRECISION)
        centred = replace(params.gaussian, means=np.zeros_like(params.means))
        noise = self.gaussian.sample(centred, labels, rng)
        return np.asarray(params.means[labels] + noise / np.sqrt(precisions)[:, None])

    # sums: of the precisions, and the Gaussian's with r u in place of r

    def n_sums(self, d: int) -> int:
        return 1 + N_LATENT + self.gaussian.n_sums(d)

    def sums(self, params: StudentTParams, x: Array, responsibilities: Array) -> Array:
        known = precisions_at(self._distances(params, x), params.degrees, x.shape[1])
        gaussian = self.gaussian.sums(params.gaussian, x, responsibilities * known.u)
        return np.hstack([known.sums(responsibilities), gaussian])

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return (BlockShape(N_LATENT), *self.gaussian.block_shapes(d))

    def to_blocks(self, params: StudentTParams, table: Array) -> Blocks:
        latent = Block.of_sums(table[:, 0], table[:, 1 : 1 + N_LATENT])
        return (latent, *self.gaussian.to_blocks(params.gaussian, table[:, 1 + N_LATENT :]))

    def to_sums(self, params: StudentTParams, blocks: Blocks) -> Array:
        latent, moments = blocks
        gaussian = self.gaussian.to_sums(params.gaussian, (moments,))
        return np.hstack([latent.weight[:, None], latent.sums(), gaussian])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        """Rows have the u of their distances from the medians, in units of robust deviations.

        The moments with all u = 1 are too large where some rows are far: EM would begin with
        components that are alike.
        """
        weight, u = responsibilities.sum(axis=0), np.ones_like(responsibilities)
        nu, d = self.initial_degrees, x.shape[1]
        every = robust_location(x, responsibilities.sum(axis=1))[1]
        for k, members, normalized in groups(responsibilities, weight):
            middle, spread = robust_location(x[members], normalized)
            spread = np.where(spread > 0.0, spread, np.where(every > 0.0, every, 1.0))
            away = (x[members] - middle) / np.maximum(spread, SMALLEST)
            u[members, k] = (nu + d) / (nu + np.square(away).sum(axis=1))
        (moments,) = self.gaussian.blocks_of(x, responsibilities * u)
        start = np.full(len(weight), INITIAL_DEGREES)
        return (self._latent(weight, start), moments)

    def _latent(self, weight: Array, degrees: Array) -> Block:
        """The expected block of the precisions: E[u] = 1."""
        mean = np.stack([np.zeros_like(degrees), log_less_digamma(0.5 * degrees)], axis=1)
        return Block.of_means(weight.copy(), mean)

    def expected(self, params: StudentTParams, weights: Array) -> Blocks:
        moments = self.gaussian.expected(params.gaussian, weights)
        return (self._latent(weights, params.degrees), *moments)

    def maximize(self, blocks: Blocks) -> tuple[StudentTParams, int]:
        latent, moments = blocks
        # a component's part of all rows is the sum of r, not of r u
        normal = replace(moments, weight=latent.weight)
        gaussian, n_degenerate = self.gaussian.maximize((normal,))
        return self._with_degrees(gaussian, _degrees(latent.mean)), n_degenerate

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The log density that is lost by the distance, in units of robust deviations.

        It grows with the logarithm of the distance, so that initializers seldom choose far rows.
        """
        return self.loss_at(self.robust_distances(x, centers, weight), x.shape[1])

    def robust_distances(self, x: Array, centers: Array, weight: Array) -> Array:
        """Squared distances of rows from centres, in units of robust deviations, (n, c)."""
        spread, plain = robust_location(x, weight)[1], self.gaussian.deviations_of(x, weight)
        scale = np.maximum(np.where(spread > 0.0, spread, plain), SMALLEST)
        origin = centers[0]  # subtracted, so that rows far from zero lose no digits
        rows, scaled = (x - origin) / scale, (centers - origin) / scale
        return np.asarray(cdist(rows, scaled, "sqeuclidean"))

    def loss_at(self, square: Array, d: int) -> Array:
        """The log density that is lost at squared distances from the centre in d columns."""
        nu = self.initial_degrees
        return np.asarray(0.5 * (nu + d) * np.log1p(square / nu))

    # columns

    def take_columns(self, params: StudentTParams, chosen: Sequence[int]) -> StudentTParams:
        """The marginal distribution of some of the columns."""
        gaussian = self.gaussian.take_columns(params.gaussian, chosen)
        return StudentTParams(gaussian.means, gaussian.scale, params.degrees)

    # other capabilities

    def unconstrained(self, params: StudentTParams) -> Array:
        found = self.gaussian.unconstrained(params.gaussian)
        if self.degrees is not None:
            return found
        return np.hstack([found, np.log(params.degrees)[:, None]])

    def constrained(self, coordinates: Array, like: StudentTParams) -> StudentTParams:
        degrees = np.exp(coordinates[:, -1].clip(*np.log([LEAST_DEGREES, MOST_DEGREES])))
        if self.degrees is None:
            coordinates = coordinates[:, :-1]
        gaussian = self.gaussian.constrained(coordinates, like.gaussian)
        return self._with_degrees(gaussian, degrees)

    def coordinate_scales(self, params: StudentTParams) -> Array:
        found = self.gaussian.coordinate_scales(params.gaussian)
        if self.degrees is not None:
            return found
        return np.hstack([found, np.ones((len(found), 1))])

    def blend(self, a: StudentTParams, b: StudentTParams, t: float) -> StudentTParams:
        gaussian = self.gaussian.blend(a.gaussian, b.gaussian, t)
        return self._with_degrees(gaussian, (1.0 - t) * a.degrees + t * b.degrees)

    def parameter_bounds(self, params: StudentTParams) -> tuple[float, float, float]:
        return self.gaussian.parameter_bounds(params.gaussian)

    def standard_deviations(self, params: StudentTParams) -> Array:
        """Of columns, (K, d); infinite where there are no more than two degrees of freedom."""
        nu = params.degrees
        above = np.maximum(nu - 2.0, 0.0)
        factor = np.divide(nu, above, out=np.full_like(nu, np.inf), where=above > 0.0)
        return self.gaussian.standard_deviations(params.gaussian) * np.sqrt(factor)[:, None]

    def attributes(self, params: StudentTParams) -> dict[str, Array]:
        return {
            "means": params.means,
            "scale_matrices": self.gaussian.covariances(params.gaussian),
            "degrees": params.degrees,
        }


class Precisions(NamedTuple):
    """u, u - 1, and u - 1 less the expectation of log u, given rows; (n, K) each."""

    u: Array
    above: Array
    excess: Array

    def sums(self, responsibilities: Array) -> Array:
        """Sums of responsibilities and of the statistics of the precisions, (K, 3)."""
        each = [(responsibilities * one).sum(axis=0) for one in (1.0, self.above, self.excess)]
        return np.stack(each, axis=1)


def precisions_at(delta: Array, nu: Array, d: int) -> Precisions:
    """The expected precisions of rows of d cells at squared distances (n, K)."""
    u, above = (nu + d) / (nu + delta), (d - delta) / (nu + delta)
    log_u = np.where(above > -0.5, np.log1p(np.maximum(above, -0.5)), np.log(u))
    return Precisions(u, above, above - log_u + log_less_digamma(0.5 * (nu + d)))


def log_density_at(delta: Array, nu: Array, log_determinant: Array, d: int) -> Array:
    """The log density of rows of d cells at squared distances (n, K)."""
    half = 0.5 * d
    constant = log_gamma_ratio(0.5 * nu, half) - half * LOG_2PI
    constant = constant - log_determinant
    return np.asarray(constant - (0.5 * nu + half) * np.log1p(delta / nu))


def _degrees(latent: Array) -> Array:
    """Degrees of freedom from the means of u - 1 and of u - 1 - log u, (K, 2)."""
    above, excess = np.maximum(latent[:, 0], -1.0 + 1e-15), latent[:, 1]
    gap = np.log1p(above) - above + excess  # log(mean u) - mean(log u), which does not cancel
    most, least = log_less_digamma(0.5 * np.array([LEAST_DEGREES, MOST_DEGREES]))
    return 2.0 * gamma_shapes(gap.clip(least, most))


def robust_location(x: Array, weight: Array) -> tuple[Array, Array]:
    """Medians of columns, and deviations by their quartiles, (d,) each.

    A few far rows have no influence. Deviations are zero where half of the rows are equal.
    """
    order = np.argsort(x, axis=0, kind="stable")
    ordered, below = np.take_along_axis(x, order, 0), np.cumsum(weight[order], axis=0)
    # less what sums are rounded by, so that a common factor of weights does not matter
    reached = [below >= (q - ROUNDING) * below[-1] for q in (0.25, 0.5, 0.75)]
    places = (one.argmax(axis=0)[None] for one in reached)
    low, middle, high = (np.take_along_axis(ordered, place, 0)[0] for place in places)
    return middle, (high - low) / QUARTILES
