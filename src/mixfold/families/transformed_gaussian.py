"""Gaussian distributions of rows some of whose columns are on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import conjugate_of
from mixfold.core.checks import check_kind
from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.conjugate import Conjugate
from mixfold.core.data_limits import without_limits
from mixfold.core.errors import InvalidInputError
from mixfold.core.expression import Expression, observed, side_by_side
from mixfold.core.family import Family
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks, BlockShape
from mixfold.core.support import Support
from mixfold.core.value import replace, value
from mixfold.families._above_zero import AboveZeroSupport, kept_above_zero
from mixfold.families._log_scale_posteriors import LogScalePosteriors
from mixfold.families._normal_wishart import NormalConjugate
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.observed_gaussian import ObservedGaussian

LARGEST_LOG = 2.0 * float(np.log(LARGEST))


@value
class TransformedGaussian(MeansAreAttributes, Family[GaussianParams]):
    """Rows y of Gaussian distributions, where y_j is x_j, or its logarithm in some columns.

    log p(x|k) = log N(y; m_k, S_k) - sum of log x_j over the columns on the logarithmic scale,
    whose values are above 0. These columns are log-normal, and all columns may depend on one
    another. If cells of x are missing, those of y are, and given the observed ones y is Gaussian:
    its mean m and variance v become the mean exp(m + v/2) of x. `means_` are those of x; the
    parameters m and S are `transformed_means_` and `transformed_covariances_`.

    Parameters
    ----------
    logs : tuple of int, default=()
        The numbers of the columns on the logarithmic scale, from 0 on.
    normal : family, default=Gaussian("full")
        The distribution of y.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> from mixfold.families.transformed_gaussian import TransformedGaussian
    >>> z = np.random.default_rng(0).normal(size=(5000, 2)) @ [[1.0, 0.9], [0.0, 0.4]]
    >>> x = np.column_stack([np.exp(z[:, 0]), z[:, 1]])
    >>> model = Mixture(TransformedGaussian(logs=(0,)), 1).fit(x)
    >>> model.transformed_covariances_[0].round(1).tolist()
    [[1.0, 0.9], [0.9, 1.0]]

    References
    ----------
    Aitchison and Brown (1957), The lognormal distribution; Little and Rubin (2019), Statistical
    analysis with missing data, chapter 11.
    """

    logs: tuple[int, ...] = ()
    normal: Gaussian | ObservedGaussian = Gaussian("full")

    def __post_init__(self) -> None:
        numbers = all(type(j) is int and j >= 0 for j in self.logs)
        if not isinstance(self.logs, tuple) or not numbers or len(set(self.logs)) < len(self.logs):
            raise InvalidInputError(
                f"logs is {self.logs!r}: give a tuple of different numbers of columns, from 0 on"
            )
        if not isinstance(self.normal, Gaussian | ObservedGaussian):
            raise InvalidInputError(
                f"normal is {self.normal!r}: give a Gaussian family with covariance matrices"
            )

    def __repr__(self) -> str:
        return f"TransformedGaussian(logs={self.logs!r}, normal={self.normal!r})"

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls((0,)), cls((1, 0)), cls((0,), Gaussian("tied"))]

    # the transformation

    def transformed(self, x: NDArray[np.floating]) -> Array:
        """The rows y of rows x; missing cells stay missing."""
        found = np.array(x, dtype=np.float64)
        chosen = list(self.logs)
        found[:, chosen] = np.log(kept_above_zero(found[:, chosen]))
        return found

    def restored(self, y: Array) -> Array:
        """The rows x of rows y."""
        found = np.array(y, dtype=np.float64)
        chosen = list(self.logs)
        found[:, chosen] = np.exp(found[:, chosen].clip(-LARGEST_LOG, LARGEST_LOG))
        return found

    def _on_log_scale(self, d: int) -> NDArray[np.bool_]:
        return np.isin(np.arange(d), self.logs)

    def log_volumes(self, y: Array) -> Array:
        """log |dy/dx| of the observed cells of every row, (n, 1)."""
        return -np.asarray(np.nansum(y[:, list(self.logs)], axis=1, keepdims=True))

    def to_normal(self, params: GaussianParams) -> GaussianParams:
        """The parameters of y, which are the family's own."""
        return params

    def from_normal(self, params: GaussianParams) -> GaussianParams:
        """The family's parameters, which are those of y."""
        return params

    @property
    def conjugate(self) -> Conjugate | None:
        """That of y, for complete rows."""
        normal = conjugate_of(self.normal)
        if not isinstance(normal, NormalConjugate):
            return None
        return LogScalePosteriors(self, normal, ("transformed_means", "transformed_covariances"))

    def log_density(self, params: GaussianParams, x: Array) -> Array:
        y = self.transformed(x)
        return np.asarray(self.normal.log_density(params, y) + self.log_volumes(y))

    def density_expression(
        self, params: GaussianParams, x: Expression, marginalize: bool
    ) -> Expression:
        chosen = list(self.logs)
        if not chosen:
            return self.normal.density_expression(params, x, marginalize)
        order, d = np.arange(params.means.shape[1]), params.means.shape[1]
        logs = x.columns(chosen).at_least(SMALLEST).log()
        order[chosen] = d + np.arange(len(chosen))
        y = side_by_side(x, logs).columns(order)
        volumes = observed(x.columns(chosen), logs) if marginalize else logs
        density = self.normal.density_expression(params, y, marginalize)
        return density - volumes.sum(1, keepdims=True)

    def scipy_log_density(self, params: GaussianParams, x: Array) -> Array:
        y = self.transformed(x)
        return np.asarray(self.normal.scipy_log_density(params, y) + self.log_volumes(y))

    def sample(self, params: GaussianParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return self.restored(self.normal.sample(params, labels, rng))

    def maximize(self, blocks: Blocks) -> tuple[GaussianParams, int]:
        return self.normal.maximize(blocks)

    def example(self, k: int, d: int, rng: np.random.Generator) -> GaussianParams:
        params = self.normal.example(k, d, rng)
        return replace(params, means=params.means / 3.0)  # logarithms of moderate size

    def n_parameters(self, k: int, d: int) -> int:
        return self.normal.n_parameters(k, d)

    # support and checks

    def supports(self, d: int) -> tuple[Support, ...]:
        return tuple(AboveZeroSupport.support if j in self.logs else Support() for j in range(d))

    def support_message_of(self, column: int) -> str:
        return AboveZeroSupport.support_message if column in self.logs else Support().message

    def out_of_support(self, x: Array) -> np.ndarray | None:
        outside: np.ndarray = x <= 0.0
        outside[:, ~self._on_log_scale(x.shape[1])] = False
        return outside

    def into_support(self, x: Array) -> Array:
        found = np.array(x, dtype=np.float64)
        chosen = list(self.logs)
        found[:, chosen] = np.maximum(np.abs(found[:, chosen]), 1.0)
        return found

    def check_columns(self, d: int) -> None:
        if max(self.logs, default=0) >= d:
            raise InvalidInputError(
                f"logs is {self.logs!r}, and there are {d} columns: give numbers below {d}"
            )
        self.normal.check_columns(d)

    def check_params(self, params: Any, k: int, d: int) -> None:
        check_kind("components", params, GaussianParams)
        self.normal.check_params(params, k, d)

    @property
    def accepts_missing(self) -> bool:
        return self.normal.accepts_missing

    @property
    def statistics_depend_on_params(self) -> bool:
        return self.normal.statistics_depend_on_params

    def with_missing(self) -> TransformedGaussian:
        """The family of rows whose cells may be missing."""
        normal = self.normal
        return (
            replace(self, normal=ObservedGaussian(normal)) if isinstance(normal, Gaussian) else self
        )

    def for_complete_rows(self) -> TransformedGaussian:
        return replace(self, normal=self.normal.for_complete_rows())

    # blocks are those of the rows y

    def n_sums(self, d: int) -> int:
        return self.normal.n_sums(d)

    def sums(self, params: GaussianParams, x: Array, responsibilities: Array) -> Array:
        return self.normal.sums(params, self.transformed(x), responsibilities)

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return self.normal.block_shapes(d)

    def to_blocks(self, params: GaussianParams, table: Array) -> Blocks:
        return self.normal.to_blocks(params, table)

    def to_sums(self, params: GaussianParams, blocks: Blocks) -> Array:
        return self.normal.to_sums(params, blocks)

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        return self.normal.blocks_of(self.transformed(x), responsibilities)

    def expected(self, params: GaussianParams, weights: Array) -> Blocks:
        return self.normal.expected(params, weights)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        return self.normal.divergence(self.transformed(x), self.transformed(centers), weight)

    def symmetric_kl(self, a: GaussianParams, b: GaussianParams) -> Array:
        return self.normal.symmetric_kl(a, b)

    def attributes(self, params: GaussianParams) -> dict[str, Array]:
        known = self.normal.for_complete_rows()
        assert isinstance(known, Gaussian)
        variances = np.square(known.standard_deviations(params))
        return {
            "means": self._means(params.means, variances, self._on_log_scale(variances.shape[1])),
            "transformed_means": params.means,
            "transformed_covariances": known.covariances(params),
        }

    def _means(self, means: Array, variances: Array, logs: NDArray[np.bool_]) -> Array:
        """E[x] of columns whose y have these means and variances; `logs` says how y was made."""
        above = np.exp(np.minimum(means + 0.5 * variances, LARGEST_LOG))
        return np.where(logs, above, means)

    # the missing cells given the observed ones

    def of_columns(self, chosen: Sequence[int]) -> TransformedGaussian:
        logs = tuple(i for i, j in enumerate(chosen) if j in self.logs)
        return replace(self, logs=logs, normal=self.normal.of_columns(chosen))

    def take_columns(self, params: GaussianParams, chosen: Sequence[int]) -> GaussianParams:
        return self.normal.take_columns(params, chosen)

    def _observed(self) -> ObservedGaussian:
        found = self.with_missing().normal
        assert isinstance(found, ObservedGaussian)
        return found

    def given_cells(self, params: GaussianParams, row: Array) -> tuple[Family, GaussianParams]:
        missing = [int(j) for j in np.flatnonzero(np.isnan(row))]
        _, found = self._observed().given_cells(params, self.transformed(row[None])[0])
        return self.of_columns(missing), found

    def expected_cells(self, params: GaussianParams, x: Array, responsibilities: Array) -> Array:
        found, logs = np.array(x, dtype=np.float64), self._on_log_scale(x.shape[1])
        for given in self._observed().conditional_moments(params, self.transformed(x)):
            rows, missing = given.pattern.rows, given.pattern.missing
            means = self._means(given.means, given.variances[:, None], logs[missing])
            found[rows[:, None], missing] = np.einsum("nk,knm->nm", responsibilities[rows], means)
        return found

    def sample_cells(
        self, params: GaussianParams, x: Array, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        drawn = self._observed().sample_cells(params, self.transformed(x), labels, rng)
        return np.where(np.isnan(x), self.restored(drawn), x)

    # coordinates and limits are those of the rows y

    def unconstrained(self, params: GaussianParams) -> Array:
        return self.normal.unconstrained(params)

    def constrained(self, coordinates: Array, like: GaussianParams) -> GaussianParams:
        found: GaussianParams = self.normal.constrained(coordinates, like)
        return found

    def coordinate_scales(self, params: GaussianParams) -> Array:
        return self.normal.coordinate_scales(params)

    def degenerate(self, params: GaussianParams, weights: Array) -> NDArray[np.bool_]:
        """Where a column's variance, given the columns before it, is on its floor."""
        return self.normal.degenerate(params, weights)

    @property
    def takes_limits(self) -> bool:
        """Whether the smallest variances come from the data."""
        return self.normal.takes_limits

    def with_limits(self, x: NDArray[np.floating]) -> TransformedGaussian:
        return replace(self, normal=self.normal.with_limits(self.transformed(x)))

    def with_limits_of(self, params: GaussianParams, weights: Array) -> TransformedGaussian:
        return replace(self, normal=self.normal.with_limits_of(params, weights))

    def without_limits(self) -> TransformedGaussian:
        return replace(self, normal=without_limits(self.normal))

    def common_limits(self, others: list[TransformedGaussian]) -> TransformedGaussian:
        normals: Any = [other.normal for other in others]
        return replace(self, normal=self.normal.common_limits(normals))
