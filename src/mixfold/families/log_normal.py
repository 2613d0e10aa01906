"""Products of log-normal distributions over columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import KernelTerm
from mixfold.core.checks import check_array, check_kind
from mixfold.core.conjugate import Conjugate
from mixfold.core.expression import Expression, observed
from mixfold.core.family import Family, n_components_with
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, BlockShape
from mixfold.core.value import replace, value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._above_zero import LEAST_VARIATION, AboveZero, kept_above_zero
from mixfold.families._log_scale_posteriors import LogScalePosteriors
from mixfold.families._normal_gamma import NormalGamma
from mixfold.families.gaussian import Gaussian, GaussianParams

LARGEST_LOG = 2.0 * float(np.log(LARGEST))
LEAST_DEVIATION = LEAST_VARIATION**0.5


@value
class LogNormalParams:
    """Means and standard deviations (K, d) of log x."""

    log_means: Array
    log_deviations: Array


def _logs(x: Array) -> Array:
    return np.log(kept_above_zero(x))


def _means(params: LogNormalParams) -> Array:
    """E[x]; infinite if it is beyond the largest number."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(params.log_means + 0.5 * np.square(params.log_deviations)))


@value
class LogNormal(AboveZero[LogNormalParams]):
    """Values whose logarithms are normal with mean m and standard deviation s in each column.

    t(x) = (log x, (log x)^2), eta = (m / s^2, -1 / (2 s^2)), A = m^2 / (2 s^2) + log s,
    h = 1 / (x sqrt(2 pi)). Statistics are variances of log x about the mean, which do not cancel.
    s is at least 1e-4, and its square at least what the resolution of log x in the data allows, as
    of `Gaussian`; a component whose rows vary less is degenerate. `means_` are those of x,
    exp(m + s^2 / 2); m and s are `log_means_` and `log_deviations_`.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.lognormal(0.0, 0.5, 2000), rng.lognormal(4.0, 0.5, 2000)])
    >>> model = Mixture("log-normal", 2, random_state=0).fit(x[:, None])
    >>> (abs(model.log_means_.round(1))).tolist()
    [[0.0], [4.0]]
    >>> model.log_deviations_.round(1).tolist()
    [[0.5], [0.5]]

    References
    ----------
    Johnson, Kotz and Balakrishnan (1994), Continuous univariate distributions, volume 1.
    """

    normal: Gaussian = field(default=Gaussian("diag"), repr=False)  # of log x, with its limits

    def check_params(self, params: LogNormalParams, k: int, d: int) -> None:
        check_kind("components", params, LogNormalParams)
        check_array("log_means", params.log_means, (k, d), -LARGEST_LOG, LARGEST_LOG)
        low, high = 0.5 * LEAST_DEVIATION, 2.0 * LARGEST_LOG
        check_array("log_deviations", params.log_deviations, (k, d), low, high)

    def example(self, k: int, d: int, rng: np.random.Generator) -> LogNormalParams:
        return LogNormalParams(rng.normal(size=(k, d)), rng.uniform(0.3, 1.0, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return 2 * d

    def sufficient_statistics(self, x: Array) -> Array:
        return self.normal.sufficient_statistics(_logs(x))

    def log_base_measure(self, x: Array) -> Array:
        logs = _logs(x)
        return np.asarray(self.normal.log_base_measure(logs) - logs.sum(axis=1))

    def to_natural(self, params: LogNormalParams) -> Array:
        return self.normal.to_natural(self.to_normal(params))

    def log_normalizer(self, eta: Array) -> Array:
        return self.normal.log_normalizer(eta)

    def mean(self, params: LogNormalParams) -> Array:
        return self.normal.mean(self.to_normal(params))

    def log_density(self, params: LogNormalParams, x: Array) -> Array:
        logs = _logs(x)
        found = self.normal.log_density(self.to_normal(params), logs)
        return np.asarray(found + self.log_volumes(logs))

    def density_expression(
        self, params: LogNormalParams, x: Expression, marginalize: bool
    ) -> Expression:
        logs = x.at_least(SMALLEST).log()
        volumes = observed(x, logs) if marginalize else logs
        normal = self.normal.density_expression(self.to_normal(params), logs, marginalize)
        return normal - volumes.sum(1, keepdims=True)

    def scipy_log_density(self, params: LogNormalParams, x: Array) -> Array:
        from scipy.stats import lognorm

        scale = np.exp(params.log_means)
        return np.asarray(
            lognorm.logpdf(x[:, None], params.log_deviations, scale=scale).sum(axis=2)
        )

    # the logarithms are normal

    def transformed(self, x: Array) -> Array:
        """log x."""
        return _logs(x)

    def log_volumes(self, y: Array) -> Array:
        """log |dy/dx| of every row, (n, 1)."""
        return -np.asarray(y.sum(axis=1, keepdims=True))

    def to_normal(self, params: LogNormalParams) -> GaussianParams:
        """The parameters of log x."""
        return GaussianParams(params.log_means, params.log_deviations)

    def from_normal(self, params: GaussianParams) -> LogNormalParams:
        """The parameters of x, within their limits."""
        return LogNormalParams(
            params.means.clip(-LARGEST_LOG, LARGEST_LOG),
            params.scale.clip(LEAST_DEVIATION, LARGEST_LOG),
        )

    @property
    def conjugate(self) -> Conjugate | None:
        normal = NormalGamma(self.normal)
        return LogScalePosteriors(self, normal, ("log_means", "log_variances"))

    # blocks hold means and variances of log x

    def n_sums(self, d: int) -> int:
        return self.normal.n_sums(d)

    def sums(self, params: LogNormalParams, x: Array, responsibilities: Array) -> Array:
        return self.normal.sums(self.to_normal(params), _logs(x), responsibilities)

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return self.normal.block_shapes(d)

    def to_blocks(self, params: LogNormalParams, table: Array) -> Blocks:
        return self.normal.to_blocks(self.to_normal(params), table)

    def blocks_of_means(self, params: LogNormalParams, weight: Array, means: Array) -> Blocks:
        return self.normal.blocks_of_means(self.to_normal(params), weight, means)

    def to_sums(self, params: LogNormalParams, blocks: Blocks) -> Array:
        return self.normal.to_sums(self.to_normal(params), blocks)

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        return self.normal.blocks_of(_logs(x), responsibilities)

    def expected(self, params: LogNormalParams, weights: Array) -> Blocks:
        return self.normal.expected(self.to_normal(params), weights)

    def maximize(self, blocks: Blocks) -> tuple[LogNormalParams, int]:
        (block,) = blocks
        floor = np.maximum(self.normal.variance_floor(block), LEAST_DEVIATION**2)
        count_degenerate = n_components_with(block.scatter < floor)
        deviations = np.sqrt(np.maximum(block.scatter, floor))
        return self.from_normal(GaussianParams(block.mean, deviations)), count_degenerate

    def degenerate(self, params: LogNormalParams, weights: Array) -> NDArray[np.bool_]:
        """Where a standard deviation is at its limit."""
        least = params.log_deviations <= TOUCHING * LEAST_DEVIATION
        return np.asarray(least | self.normal.degenerate(self.to_normal(params), weights))

    def sample(
        self, params: LogNormalParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        logs = self.normal.sample(self.to_normal(params), labels, rng)
        return np.asarray(np.exp(logs.clip(-LARGEST_LOG, LARGEST_LOG)))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """Half the squared distance of the logarithms, scaled by their standard deviations."""
        return self.normal.divergence(_logs(x), _logs(centers), weight)

    def symmetric_kl(self, a: LogNormalParams, b: LogNormalParams) -> Array:
        return self.normal.symmetric_kl(self.to_normal(a), self.to_normal(b))

    def standard_deviations(self, params: LogNormalParams) -> Array:
        with np.errstate(over="ignore"):
            ratio = np.sqrt(np.expm1(np.square(params.log_deviations)))
            return np.asarray(_means(params) * ratio)

    def attributes(self, params: LogNormalParams) -> dict[str, Array]:
        return {
            "means": _means(params),
            "log_means": params.log_means,
            "log_deviations": params.log_deviations,
        }

    # the smallest variances of log x

    @property
    def takes_limits(self) -> bool:
        """Always: the smallest variances come from the data."""
        return True

    def with_limits(self, x: NDArray[np.floating]) -> LogNormal:
        return replace(self, normal=self.normal.with_limits(_logs(x.astype(np.float64))))

    def with_limits_of(self, params: LogNormalParams, weights: Array) -> LogNormal:
        return replace(self, normal=self.normal.with_limits_of(self.to_normal(params), weights))

    def without_limits(self) -> LogNormal:
        return replace(self, normal=self.normal.without_limits())

    def common_limits(self, others: list[LogNormal]) -> LogNormal:
        return replace(self, normal=self.normal.common_limits([one.normal for one in others]))

    def check_columns(self, d: int) -> None:
        self.normal.check_columns(d)

    def of_columns(self, chosen: Sequence[int]) -> LogNormal:
        return replace(self, normal=self.normal.of_columns(chosen))

    def join_families(self, others: Sequence[Family]) -> LogNormal | None:
        """The family of all columns, with their limits."""
        normals = [one.normal for one in others if isinstance(one, LogNormal)]
        joined = self.normal.join_families(normals) if len(normals) == len(others) else None
        return None if joined is None else replace(self, normal=joined)

    # capabilities

    def unconstrained(self, params: LogNormalParams) -> Array:
        return self.normal.unconstrained(self.to_normal(params))

    def constrained(self, coordinates: Array, like: LogNormalParams) -> LogNormalParams:
        bounded = coordinates.clip(-LARGEST_LOG, LARGEST_LOG)
        return self.from_normal(self.normal.constrained(bounded, self.to_normal(like)))

    def kernel_term(self, params: LogNormalParams) -> KernelTerm | None:
        deviations = params.log_deviations
        if deviations.shape[1] != 1:
            return None
        parts = [-np.log(deviations), params.log_means, 1.0 / deviations]
        return KernelTerm("normal", np.hstack(parts), transformed=True, base_measure="own")

    def kernel_values(self, x: Array) -> Array:
        return _logs(x)

    def coordinate_scales(self, params: LogNormalParams) -> Array:
        return self.normal.coordinate_scales(self.to_normal(params))
