"""A finite mixture over one exponential family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend import Backend
from mixfold.core.capabilities import (
    BoundedParameters,
    UnconstrainedCoordinates,
    has_coordinates,
)
from mixfold.core.checks import ROUNDING, check_array, check_kind, check_whole
from mixfold.core.data_limits import CanDegenerate, CanLackRows
from mixfold.core.errors import InvalidInputError
from mixfold.core.expression import Expression
from mixfold.core.family import Family
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array, Rows, effective_number
from mixfold.core.statistics import Block, Statistics
from mixfold.core.value import replace, value
from mixfold.families.density_expressions import density_expression

SMALLEST_WEIGHT = 1e-300
FEW_ROWS = 10
WHOLE = 1e-6  # relative difference from a whole number


@value
class MixtureParams(Generic[ParamsT]):
    """Weights (K,) and the family's parameters of K components."""

    weights: Array
    components: ParamsT

    @property
    def of_components(self) -> MixtureParams[ParamsT]:
        """The mixture of the components alone."""
        return self

    def check(self, k: int) -> None:
        """Raise an error unless the weights are probabilities of K components."""
        check_array("weights", self.weights, (k,), 0.0, 1.0 + ROUNDING)
        total = float(self.weights.sum())
        if not abs(total - 1.0) <= ROUNDING:
            raise InvalidInputError(f"weights sum to {total}: they must sum to 1")


@value
class MixtureModel:
    """p(x) = sum_k w_k p(x | k) in d columns.

    An E-step returns `sums`, a flat additive vector: the log-likelihood, then for each component
    a row of the family's table of sums, which begins with its total responsibility.
    """

    is_constrained: ClassVar[bool] = False  # whether M-steps are other than the family's
    has_prior: ClassVar[bool] = False  # whether M-steps count a prior once among all rows
    only_means: ClassVar[bool] = False  # whether weights and scales are fixed

    family: Family
    k: int
    d: int

    def __post_init__(self) -> None:
        check_whole("k", self.k)
        check_whole("d", self.d)

    def check_params(self, params: MixtureParams) -> None:
        """Refuse parameters outside their domain, or of another number of components or columns."""
        check_kind("params", params, MixtureParams)
        params.check(self.k)
        self.family.check_params(params.components, self.k, self.d)

    def check_statistics(self, statistics: Statistics) -> None:
        """Refuse statistics of another shape, or outside their domain."""
        check_kind("statistics", statistics, Statistics)
        statistics.check(self.k, self.family.block_shapes(self.d))

    def check_rows(self, rows: Rows) -> None:
        """Refuse rows of another width, or outside the support of the family."""
        rows.check(self.d, self.family.accepts_missing)
        outside = self.family.out_of_support(rows.x)
        if outside is not None and outside.any():
            raise InvalidInputError(f"rows are outside the support of {self.family!r}")

    @property
    def is_exchangeable(self) -> bool:
        """Whether components can change places."""
        return self.family.exchangeable

    @property
    def has_labels(self) -> bool:
        """Whether the latent variable of a row is one of K labels."""
        return True

    @property
    def has_noise(self) -> bool:
        """Whether rows may belong to none of the components."""
        return False

    def of_components(self, k: int) -> MixtureModel:
        """A mixture of k components of the family, without anything else."""
        return replace(self, k=k)

    def initial(self, params: MixtureParams) -> MixtureParams:
        """Initial parameters of the model, from those of this or of another mixture."""
        return params.of_components

    @property
    def n_expectations(self) -> int:
        """Number of expectations of a row: its responsibilities."""
        return self.k

    @property
    def n_sums(self) -> int:
        """Length of the vector of sums."""
        return 1 + self.k * self.family.n_sums(self.d)

    @property
    def statistics_depend_on_params(self) -> bool:
        """Whether statistics under given responsibilities depend on the parameters."""
        return self.family.statistics_depend_on_params

    @property
    def has_coordinates(self) -> bool:
        """Whether parameters have unconstrained coordinates."""
        return has_coordinates(self.family)

    @property
    def has_bounds(self) -> bool:
        """Whether the size of parameters can be measured, so that they can be truncated."""
        return isinstance(self.family, BoundedParameters)

    def weights_in(self, sums: Array) -> Array:
        """The total responsibilities of the components, as they are in sums."""
        return np.asarray(sums[1:].reshape(self.k, -1)[:, 0])

    def statistics(self, params: MixtureParams, sums: Array) -> Statistics:
        """Statistics from the sums of an E-step made under `params`."""
        table = sums[1:].reshape(self.k, -1)
        weight = np.maximum(table[:, 0], 0.0)  # differences of statistics may leave the domain
        blocks = self.family.to_blocks(params.components, table)
        if min([np.minimum.reduce(block.weight, axis=None) for block in blocks]) <= 0.0:
            pairs = zip(blocks, self.expected(params).blocks, strict=True)
            blocks = tuple(block.with_gaps_from(old) for block, old in pairs)
        return Statistics.of(blocks, weight, float(sums[0]))

    def sums(self, params: MixtureParams, statistics: Statistics) -> Array:
        """The inverse of `statistics`: the sums of an E-step under `params`."""
        table = self.family.to_sums(params.components, statistics.blocks)
        table[:, 0] = statistics.weight
        return np.concatenate([[statistics.log_likelihood], table.ravel()])

    def mode(self, responsibilities: Array) -> Array:
        """Hard assignments to the most probable component of each row, (n, K)."""
        return self._one_of(responsibilities.argmax(axis=1))

    def draw(self, responsibilities: Array, uniforms: Array) -> Array:
        """Hard assignments to a component drawn for each row; `uniforms` are (n,)."""
        reached = responsibilities.cumsum(axis=1) > uniforms[:, None] * responsibilities.sum(
            axis=1, keepdims=True
        )
        return self._one_of(reached.argmax(axis=1))

    def _one_of(self, labels: np.ndarray) -> Array:
        """Responsibilities of rows that belong to one of the labels."""
        return np.asarray(labels[:, None] == np.arange(self.n_expectations), dtype=np.float64)

    def recursive(
        self, statistics: Statistics, batch: Statistics, gamma: float
    ) -> tuple[Statistics, int]:
        """A step of length gamma in the coordinates (weights, mean parameters).

        Where it would leave their domain it is cut to half the way to the border.
        """
        weight = statistics.weight + gamma * (batch.weight - statistics.weight)
        blocks, cut = [], np.zeros(self.k, dtype=bool)
        for block, other in zip(statistics.blocks, batch.blocks, strict=True):
            moved, too_far = _recursive_step(block, other, gamma)
            blocks.append(moved)
            cut |= too_far
        return Statistics(weight, tuple(blocks), 1.0, 0.0), int(cut.sum())

    def expected(self, params: MixtureParams) -> Statistics:
        """The normalised statistics of which `params` is the maximiser."""
        blocks = self.family.expected(params.components, params.weights)
        return Statistics(params.weights.copy(), blocks, 1.0, 0.0)

    def maximize(self, statistics: Statistics) -> tuple[MixtureParams, int]:
        """Parameters of highest expected likelihood, and how many components were degenerate."""
        weights = np.maximum(statistics.weight / statistics.weight.sum(), SMALLEST_WEIGHT)
        components, count_degenerate = self.family.maximize(statistics.blocks)
        return MixtureParams(weights / weights.sum(), components), count_degenerate

    def log_joint(self, params: MixtureParams, x: Array) -> Array:
        """log w_k p(x | k), (n, K)."""
        return self.family.log_density(params.components, x) + np.log(params.weights)

    def joint_expression(
        self, params: MixtureParams, x: Expression, marginalize: bool
    ) -> Expression:
        """`log_joint` as an expression; see `density_expression` for missing cells."""
        density = density_expression(self.family, params.components, x, marginalize)
        return density + np.log(params.weights)

    def sample(
        self, params: MixtureParams, n: int, rng: np.random.Generator
    ) -> tuple[Array, np.ndarray]:
        """Draw rows; also returns their components."""
        labels = rng.choice(self.k, size=n, p=params.weights)
        return self.family.sample(params.components, labels, rng), labels

    def n_parameters(self) -> int:
        """Free parameters."""
        return self.k - 1 + self.family.n_parameters(self.k, self.d)

    @property
    def _coordinates(self) -> UnconstrainedCoordinates:
        return cast(UnconstrainedCoordinates, self.family)  # learners ask for has_coordinates

    def unconstrained(self, params: MixtureParams) -> Array:
        """Coordinates (K, 1 + q): log weights and the family's."""
        logs = np.log(params.weights)[:, None]
        return np.concatenate([logs, self._coordinates.unconstrained(params.components)], axis=1)

    def constrained(self, coordinates: Array, like: MixtureParams) -> MixtureParams:
        """The inverse of `unconstrained`, with weights scaled to sum to one."""
        logs = coordinates[:, 0] - coordinates[:, 0].max()
        weights = np.maximum(np.exp(logs), SMALLEST_WEIGHT)
        components = self._coordinates.constrained(coordinates[:, 1:], like.components)
        return MixtureParams(weights / weights.sum(), components)

    def coordinate_scales(self, params: MixtureParams) -> Array:
        """The natural length of each unconstrained coordinate."""
        scales = self._coordinates.coordinate_scales(params.components)
        return np.concatenate([np.ones((self.k, 1)), scales], axis=1)

    def blend(self, a: MixtureParams, b: MixtureParams, t: float) -> MixtureParams:
        """Parameters on the line from `a` to `b`."""
        weights = (1.0 - t) * a.weights + t * b.weights
        return MixtureParams(weights, self.family.blend(a.components, b.components, t))

    def truncation_excess(self, params: MixtureParams, bounds: tuple[float, float, float]) -> float:
        """How many levels the truncation region must grow to hold `params`; <= 0 is inside."""
        bounded = cast(BoundedParameters, self.family)  # learners ask for has_bounds
        location, low, high = bounded.parameter_bounds(params.components)
        c1, c2, c3 = bounds
        lightest = 1.0 / max(float(params.weights.min()), SMALLEST_WEIGHT)
        steepest = 1.0 / max(low, SMALLEST_WEIGHT)
        return max(lightest - c1, location - c2, high - c3, steepest - c3)


MixtureBackend: TypeAlias = Backend[MixtureModel]


def _recursive_step(block: Block, batch: Block, gamma: float) -> tuple[Block, np.ndarray]:
    """A block after a step towards that of a batch, and which steps were shortened."""
    t = gamma * batch.weight / np.maximum(block.weight, SMALLEST_WEIGHT)
    far = (t >= 1.0) & (block.weight < 1.0)  # not for a single component
    t = np.where(far, 0.5, t).reshape(len(t), -1)
    weight = block.weight + gamma * (batch.weight - block.weight)
    return block.moved(weight, batch, t), np.asarray(far.reshape(len(t), -1).any(axis=1))


def degenerate(model: MixtureModel, params: MixtureParams) -> NDArray[np.bool_]:
    """Which components are on a limit of their family, by columns, (K, d)."""
    if isinstance(model.family, CanDegenerate):
        return model.family.degenerate(params.components, params.weights)
    return np.zeros((model.k, model.d), dtype=bool)


def count_spurious(model: MixtureModel, params: MixtureParams, parts: Sequence[Rows]) -> int:
    """How many components are on a limit in some column, or near it, and have few of the rows.

    Many rows are on a limit in discrete columns, but few only if they were chosen for that. Where
    all columns are discrete in the family too, densities are at most one, and none is spurious.
    """
    if all(support.whole for support in model.family.supports(model.d)):
        return 0
    found, n = degenerate(model, params).any(axis=1), number_of_rows(parts)
    if isinstance(model.family, CanLackRows):
        found |= model.family.lacks_rows(params.components, params.weights, n)
    few = params.weights * n < max(FEW_ROWS, 2 * (model.d + 1))
    return int((found & few).sum())


def number_of_rows(parts: Sequence[Rows]) -> float:
    """How many rows there are, if weights count rows, and as many as tell as much if they do not.

    They count rows if all are whole multiples of the lightest; otherwise it is the effective
    number (Kish 1965), which a common factor does not change either.
    """
    if all(rows.weight is None for rows in parts):
        return float(sum(map(len, parts)))
    weight = np.concatenate([rows.weights() for rows in parts])
    times = weight / min(rows.lightest() for rows in parts)
    if (np.abs(times - np.rint(times)) <= WHOLE * times).all():
        return float(times.sum())
    return effective_number(times)


def count_degenerate(model: MixtureModel, params: MixtureParams) -> int:
    """How many components are on a limit in some column."""
    return int(degenerate(model, params).any(axis=1).sum())
