"""Gaussian distributions with full, tied, diagonal, spherical or factor covariances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_above, check_array, check_kind, check_least
from mixfold.core.conjugate import Conjugate
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.expression import Expression
from mixfold.core.family import Family, groups
from mixfold.core.independent_columns import in_turn
from mixfold.core.limits import LARGEST, LEAST_VARIANCE
from mixfold.core.rows import Array
from mixfold.core.statistics import (
    Block,
    Blocks,
    Scatter,
    lower_triangle,
    pack,
    packed_diagonal,
    packed_length,
    unpack,
)
from mixfold.core.value import equal, value
from mixfold.families._covariance import STRUCTURES, lower_root
from mixfold.families._covariance_shapes import NAMES, structure_of
from mixfold.families._factor_gaussian import FACTOR, FactorGaussian
from mixfold.families._gaussian_capabilities import GaussianCapabilities, for_each
from mixfold.families._gaussian_expressions import density_expression
from mixfold.families._gaussian_params import GaussianParams, scipy_log_density
from mixfold.families._normal_gamma import NormalGamma
from mixfold.families._normal_wishart import NormalWishart
from mixfold.families.distances import squared_distances
from mixfold.families.factor_analysis import LOG_2PI, FactorParams

__all__ = ["LOG_2PI", "FactorGaussian", "FactorParams", "Gaussian", "GaussianParams"]

CONJUGATES: dict[str, type[NormalWishart | NormalGamma]] = {
    "full": NormalWishart,
    "diag": NormalGamma,
}


@value
class Gaussian(GaussianCapabilities):
    """Multivariate normal: t(x) = (x, xx'), maximised by mean and covariance.

    `floor` keeps every conditional variance above this fraction of the data's variance in the
    column, so that no component can collapse. None, the default, computes the floors from the
    resolution and the scale of the data when a fit begins: if values are recorded in steps of s, no
    variance is below s^2 / 12; a constant column has a standard deviation of a thousandth of its
    value, or 0.001; all others have a fraction of 1e-8. They are stored as `column_floors`,
    and robust variances of the columns as `column_variances`.
    `reg_covar` is added to every variance; where it is given, no floor is taken from the data.
    `cap` is the largest precision: no eigenvalue of a covariance falls below 1 / cap, and
    components at the cap do not count as degenerate. `covariance="factor"` describes full
    covariances in high dimension by `rank` factors: see `FactorGaussian`.

    `covariance` is "full", "tied", "diag", "spherical", "factor", or one of the fourteen names of
    mclust, whose letters say whether the volume, shape and orientation of covariances, in this
    order, are equal in all components (E), vary (V), or are those of the identity (I): EII, VII,
    EEI, VEI, EVI, VVI, EEE, VEE, EVE, VVE, EEV, VEV, EVV, VVV. VII is "spherical", VVI "diag", EEE
    "tied" and VVV "full".

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold.families.gaussian import Gaussian, GaussianParams
    >>> family = Gaussian(covariance="diag")
    >>> params = GaussianParams(np.zeros((1, 2)), np.ones((1, 2)))
    >>> family.log_density(params, np.zeros((1, 2))).round(4)
    array([[-1.8379]])
    """

    default_init = "k-means++"

    covariance: str = "full"
    floor: float | None = None
    reg_covar: float = 0.0
    rank: int | None = None
    cap: float | None = None
    column_floors: Array | None = field(default=None, repr=False)
    column_variances: Array | None = field(default=None, repr=False)
    prior_share: float = field(default=1.0, repr=False)

    def __new__(cls, covariance: str = "full", *others: Any, **named: Any) -> Self:
        """With factors it is a `FactorGaussian`."""
        other: Any = FactorGaussian
        return other(covariance, *others, **named) if covariance == FACTOR else object.__new__(cls)

    def __post_init__(self) -> None:
        if structure_of(self.covariance) is None:
            raise unknown_name("covariance", self.covariance, [*NAMES, FACTOR])
        if self.rank is not None:
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
    def scatter(self) -> Scatter:
        return self.structure.scatter

    def _column_variances(self, params: GaussianParams, k: int) -> tuple[Array, Array]:
        scale = params.scale[min(k, len(params.scale) - 1)]
        if scale.ndim == 1:
            return np.square(scale), np.square(scale)
        return np.square(scale).sum(axis=1), np.square(np.diagonal(scale))

    def lacks_rows(self, params: GaussianParams, weights: Array, n: float) -> NDArray[np.bool_]:
        """Which components have too few of n rows, and a variance nearer its floor than its column.

        It is compared with both on the scale of logarithms.
        """
        found = self.structure.undetermined(n * weights, params.means.shape[1])
        if self.cap is not None or not found.any():
            return np.zeros_like(found)
        floor = self._floors_of(params, weights)
        for k in np.flatnonzero(found).tolist():
            column, own = self._column_variances(params, k)
            found[k] = (np.square(own / column) <= floor / column).any()
        return found

    @classmethod
    def variants(cls) -> list[Self]:
        plain = [cls(covariance=name) for name in (*STRUCTURES, "VEI", "VEV")]
        return [*plain, cls(FACTOR, rank=1), cls("diag", cap=1.0)]

    def check_params(self, params: Any, k: int, d: int) -> None:
        check_kind("components", params, GaussianParams)
        check_array("means", params.means, (k, d))
        self.structure.check(params.scale, k, d)

    def example(self, k: int, d: int, rng: np.random.Generator) -> GaussianParams:
        spread = rng.normal(size=(k, 3 * d, d)) + np.arange(d)
        scatter = np.stack([np.cov(rows.T, ddof=0).reshape(d, d) for rows in spread])
        packed = pack(scatter) if self.scatter == "full" else np.diagonal(scatter, axis1=1, axis2=2)
        means = 3.0 * rng.normal(size=(k, d))
        return self.maximize((Block(np.full(k, 1.0 / k), means, packed),))[0]

    def centred(self, params: GaussianParams, x: Array) -> Array:
        centred = x[None] - params.means[:, None]
        whiten = self.whiten(params)
        if whiten.ndim == 2:
            return np.asarray(centred * whiten[:, None])
        return np.asarray(centred @ whiten.swapaxes(1, 2))

    def log_density(self, params: GaussianParams, x: Array) -> Array:
        centred, d = self.centred(params, x), x.shape[1]
        square = np.einsum("knj,knj->nk", centred, centred)
        return np.asarray(-0.5 * (square + d * LOG_2PI) - self.log_determinant(params))

    def density_expression(
        self, params: GaussianParams, x: Expression, marginalize: bool
    ) -> Expression:
        return density_expression(self, params, x, marginalize)

    def scipy_log_density(self, params: GaussianParams, x: Array) -> Array:
        k, d = params.means.shape
        scale = params.scale
        if scale.ndim == 2:
            scale = for_each(scale, (k, d))[:, None] * np.eye(d)
        dense = GaussianParams(params.means, for_each(scale, (k, d, d)))
        return scipy_log_density(dense, x)

    def from_centred(
        self, params: GaussianParams, mean: Array, scatter: Array
    ) -> tuple[Array, Array]:
        scale = params.scale
        if scale.ndim == 2:
            return params.means + scale * mean, np.square(scale) * scatter
        means = params.means + (scale @ mean[:, :, None])[:, :, 0]
        return means, pack(scale @ unpack(scatter, mean.shape[1]) @ scale.swapaxes(1, 2))

    def to_centred(
        self, params: GaussianParams, mean: Array, scatter: Array
    ) -> tuple[Array, Array]:
        whiten, offset = self.whiten(params), mean - params.means
        if whiten.ndim == 2:
            return whiten * offset, np.square(whiten) * scatter
        square = whiten @ unpack(scatter, mean.shape[1]) @ whiten.swapaxes(1, 2)
        return (whiten @ offset[:, :, None])[:, :, 0], pack(square)

    def n_products(self, d: int) -> int:
        return packed_length(self.scatter, d)

    def products(self, weighted: Array, centred: Array) -> Array:
        if self.scatter == "diag":
            return np.asarray((weighted * centred).sum(axis=1))
        i, j = lower_triangle(centred.shape[2])
        return np.asarray((weighted.swapaxes(1, 2) @ centred)[:, i, j])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        weight, d = responsibilities.sum(axis=0), x.shape[1]
        mean = np.tile(responsibilities.sum(axis=1) @ x / weight.sum(), (len(weight), 1))
        scatter = np.zeros((len(weight), packed_length(self.scatter, d)))
        for k, members, normalized in groups(responsibilities, weight):
            own = x[members]
            mean[k] = normalized @ own
            scatter[k] = self._scatter(own - mean[k], normalized)
        return (Block(weight, mean, scatter),)

    def _scatter(self, away: Array, normalized: Array) -> Array:
        if self.scatter == "diag":
            return np.asarray(normalized @ np.square(away))
        return pack((normalized[:, None] * away).T @ away)

    def n_statistics(self, d: int) -> int:
        return d + packed_length(self.scatter, d)

    def sufficient_statistics(self, x: Array) -> Array:
        if self.scatter == "diag":
            return np.hstack([x, np.square(x)])
        return np.hstack([x, pack(x[:, :, None] * x[:, None, :])])

    def log_base_measure(self, x: Array) -> Array:
        return np.full(len(x), -0.5 * x.shape[1] * LOG_2PI)

    def to_natural(self, params: GaussianParams) -> Array:
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
        squares = self.full_scatter(params) + self.sufficient_statistics(params.means)[:, d:]
        return np.hstack([params.means, squares])

    def full_scatter(self, params: GaussianParams) -> Array:
        """Covariances of every component in the packing of its statistics, (K, p)."""
        k, d = params.means.shape
        if params.scale.ndim == 2:
            return for_each(np.square(params.scale), (k, d))
        packed = pack(params.scale @ params.scale.swapaxes(1, 2))
        return for_each(packed, (k, packed.shape[1]))

    def expected(self, params: GaussianParams, weights: Array) -> Blocks:
        return (Block(weights.copy(), params.means.copy(), self.full_scatter(params)),)

    def variance_floor(self, statistics: Block) -> Array:
        """The smallest variance allowed in each column, from the data's own scale."""
        centre = statistics.pooled(statistics.mean)
        if not self.floor_share:  # limits from the data do not depend on variances of a pass
            return self.floors(np.zeros_like(centre), centre)
        spread = self._variances(statistics) + np.square(statistics.mean - centre)
        return self.floors(statistics.pooled(spread), centre)

    def _variances(self, statistics: Block) -> Array:
        if self.scatter == "diag":
            return statistics.scatter
        places = packed_diagonal(statistics.mean.shape[1])
        return statistics.scatter.take(places, axis=1)

    def maximize(self, blocks: Blocks) -> tuple[GaussianParams, int]:
        (statistics,) = blocks
        floor = self.variance_floor(statistics)
        scale, n_degenerate = self.structure.factorize(
            statistics.weight, statistics.scatter, self.reg_covar, self.least_variance, floor
        )
        return GaussianParams(statistics.mean, scale), n_degenerate

    def sample(self, params: GaussianParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        k, d = params.means.shape
        noise = rng.standard_normal((len(labels), d))
        if params.scale.ndim == 2:
            spread = np.broadcast_to(params.scale, (k, d))[labels]
            return np.asarray(params.means[labels] + noise * spread)
        rows = np.empty((len(labels), d))
        scales = np.broadcast_to(params.scale, (k, d, d))
        for component in np.flatnonzero(np.bincount(labels, minlength=k)):
            chosen = labels == component
            rows[chosen] = params.means[component] + noise[chosen] @ scales[component].T
        return rows

    def deviations_of(self, x: Array, weight: Array) -> Array:
        normalized = weight / weight.sum()
        away = x - normalized @ x
        spread = np.sqrt(normalized @ np.square(away, out=away))
        return np.where(spread > 0, spread, 1.0)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """Half the squared distance: all components share one covariance before learning."""
        scale = self.deviations_of(x, weight)
        origin = centers[0]  # subtracted, so that rows far from zero lose no digits
        rows = x - origin
        rows /= scale
        return squared_distances(rows, (centers - origin) / scale)

    def symmetric_kl(self, a: GaussianParams, b: GaussianParams) -> Array:
        """The same as the general form, without its cancellation far from zero."""
        return self._mahalanobis_kl(a, b) + self._mahalanobis_kl(b, a).T

    def _mahalanobis_kl(self, a: GaussianParams, b: GaussianParams) -> Array:
        """Half of tr(A_i^-1 B_j) - d + |b_j - a_i|^2 in the metric of A_i, (K, K)."""
        k, d = a.means.shape
        whiten, scale = self.whiten(a)[:, None], b.scale[None]
        offset = (b.means[None] - a.means[:, None])[..., None]
        if whiten.ndim == 3:
            spread = np.broadcast_to(whiten * scale, (k, k, d))
            square = np.square(spread) + np.square(whiten * offset[..., 0])
            return np.asarray(0.5 * (square - 1.0).sum(axis=2))
        spread = np.square(whiten @ scale).sum(axis=(2, 3))
        return np.asarray(0.5 * (spread - d + np.square(whiten @ offset).sum(axis=(2, 3))))

    def n_parameters(self, k: int, d: int) -> int:
        return k * d + self.structure.n_parameters(k, d)

    def attributes(self, params: GaussianParams) -> dict[str, Array]:
        return {"means": params.means, "covariances": self.covariances(params)}

    def with_prior_share(self, share: float) -> Gaussian:
        return replace(self, prior_share=share)

    def without_limits(self) -> Self:
        return replace(super().without_limits(), prior_share=1.0)

    # columns are independent if covariances are diagonal

    @property
    def columns_are_independent(self) -> bool:
        return self.structure_name == "diag"

    def take_columns(self, params: GaussianParams, chosen: Sequence[int]) -> GaussianParams:
        """The marginal distribution of some of the columns."""
        means, scale = params.means[:, chosen], params.scale
        if scale.ndim == 2:
            narrow = scale if scale.shape[1] == 1 else scale[:, chosen]
            return GaussianParams(means, np.ascontiguousarray(narrow))
        return GaussianParams(means, lower_root(scale[:, chosen]))

    def join_columns(self, parts: Sequence[GaussianParams]) -> GaussianParams:
        """All columns, from parts that follow one another."""
        means, scales = ([getattr(part, n) for part in parts] for n in ("means", "scale"))
        return GaussianParams(np.concatenate(means, axis=1), np.concatenate(scales, axis=1))

    def join_families(self, others: Sequence[Family]) -> Gaussian | None:
        """The Gaussians of all columns, with their limits."""
        known = [self, *(one for one in others if isinstance(one, Gaussian))]
        plain = [one._with_limits(None, None) for one in known]
        if len(known) <= len(others) or not all(equal(plain[0], one) for one in plain):
            return None
        limits = [(one.column_floors, one.column_variances) for one in known]
        joined = []
        for each in zip(*limits, strict=True):
            given = [one for one in each if one is not None]
            if given and len(given) < len(known):
                return None
            joined.append(np.concatenate(given) if given else None)
        return self._with_limits(*joined)

    def columns_of_statistics(self, d: int) -> NDArray[np.intp]:
        """Of the means and of the variances."""
        return in_turn(d, 2)

    def capped(self, cap: float) -> Gaussian:
        return replace(self, cap=min(cap, self.cap or cap))

    @property
    def conjugate(self) -> Conjugate | None:
        found = CONJUGATES.get(self.structure_name or "") if self.cap is None else None
        return None if found is None else found(self)

    def standard_deviations(self, params: GaussianParams) -> Array:
        scale = params.scale
        if scale.ndim == 3:
            scale = np.sqrt(np.square(scale).sum(axis=2))
        return for_each(scale, params.means.shape)
