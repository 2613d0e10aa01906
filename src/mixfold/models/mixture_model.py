"""A finite mixture over one exponential family."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import ROUNDING, check_array, check_kind, check_whole
from mixfold.core.data_limits import CanDegenerate
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Statistics, outer_like, packed_length
from mixfold.core.value import value

SMALLEST_WEIGHT = 1e-300


@value
class MixtureParams:
    """Weights (K,) and the family's parameters of K components."""

    weights: Array
    components: Any

    def check(self, k: int) -> None:
        """Refuse weights that are no probabilities of K components."""
        check_array("weights", self.weights, (k,), 0.0, 1.0 + ROUNDING)
        total = float(self.weights.sum())
        if not abs(total - 1.0) <= ROUNDING:
            raise InvalidInputError(f"weights sum to {total}: they must sum to 1")


@value
class MixtureModel:
    """p(x) = sum_k w_k p(x | k) in d columns.

    An E-step returns `sums`, a flat additive vector: the log-likelihood, then for each component
    its responsibility, its first and its second moments in the family's local coordinates.
    """

    only_means: ClassVar[bool] = False  # whether weights and factors stay as they are given

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
        statistics.check(self.k, self.n_means, self.n_products)

    def check_rows(self, rows: Rows) -> None:
        """Refuse rows of another width, or outside the support of the family."""
        rows.check(self.d)
        outside = self.family.outside(rows.x)
        if outside is not None and outside.any():
            raise InvalidInputError(f"rows are outside the support of {self.family!r}")

    @property
    def has_labels(self) -> bool:
        """Whether the latent variable of a row is one of K labels."""
        return True

    @property
    def n_latent(self) -> int:
        """Length of a row's latent vector: its responsibilities."""
        return self.k

    @property
    def n_sums(self) -> int:
        """Length of the vector of sums."""
        return 1 + self.k * (1 + self.n_means + self.n_products)

    @property
    def n_means(self) -> int:
        """First moments of a component: of columns, and of hidden ones."""
        return self.d + self.family.hidden

    @property
    def n_products(self) -> int:
        """Second moments of a component."""
        return packed_length(self.family.scatter, self.n_means, self.family.hidden)

    def statistics(self, params: MixtureParams, sums: Array) -> Statistics:
        """Statistics from the sums of an E-step made under `params`."""
        table = sums[1:].reshape(self.k, -1)
        weight = np.maximum(table[:, 0], 0.0)  # signed changes may leave the domain
        held = weight > 0
        share = np.divide(1.0, weight, out=np.zeros_like(weight), where=held)[:, None]
        local_mean = table[:, 1 : 1 + self.n_means] * share
        local_scatter = table[:, 1 + self.n_means :] * share
        local_scatter -= outer_like(local_mean, local_scatter.shape[1])
        mean, scatter = self.family.from_local(params.components, local_mean, local_scatter)
        if not held.all():
            old = self.expected(params)
            mean = np.where(held[:, None], mean, old.mean)
            scatter = np.where(held[:, None], scatter, old.scatter)
        return Statistics(weight, mean, scatter, float(weight.sum()), float(sums[0]))

    def sums(self, params: MixtureParams, statistics: Statistics) -> Array:
        """The inverse of `statistics`: the sums that an E-step under `params` would have made."""
        mean, scatter = self.family.to_local(params.components, statistics.mean, statistics.scatter)
        raw = scatter + outer_like(mean, scatter.shape[1])
        table = statistics.weight[:, None] * np.hstack([np.ones((self.k, 1)), mean, raw])
        return np.concatenate([[statistics.log_likelihood], table.ravel()])

    def mode(self, latent: Array) -> Array:
        """Responsibilities with all on the largest of each row."""
        labels = latent.argmax(axis=1)
        return np.asarray(labels[:, None] == np.arange(self.k), dtype=np.float64)

    def draw(self, latent: Array, uniforms: Array) -> Array:
        """Responsibilities with all on a component drawn for each row; `uniforms` are (n,)."""
        reached = latent.cumsum(axis=1) > uniforms[:, None] * latent.sum(axis=1, keepdims=True)
        return np.asarray(reached.argmax(axis=1)[:, None] == np.arange(self.k), dtype=np.float64)

    def recursive(
        self, statistics: Statistics, batch: Statistics, gamma: float
    ) -> tuple[Statistics, int]:
        """A step of length gamma in the coordinates (weights, mean parameters).

        Where it would leave their domain it is cut to half the way to the border.
        """
        weight = statistics.weight + gamma * (batch.weight - statistics.weight)
        t = gamma * batch.weight / np.maximum(statistics.weight, SMALLEST_WEIGHT)
        far = (t >= 1.0) & (statistics.weight < 1.0)  # a single component may take it all
        t = np.where(far, 0.5, t)[:, None]
        delta = batch.mean - statistics.mean
        spread = t * (1.0 - t) * outer_like(delta, statistics.scatter.shape[1])
        scatter = (1.0 - t) * statistics.scatter + t * batch.scatter + spread
        mean = statistics.mean + t * delta
        return Statistics(weight, mean, scatter, 1.0, 0.0), int(far.sum())

    def expected(self, params: MixtureParams) -> Statistics:
        """The normalised statistics of which `params` is the maximiser."""
        return self.family.expected(params.components, params.weights)

    def maximize(self, statistics: Statistics) -> tuple[MixtureParams, int]:
        """Parameters of highest expected likelihood, and how many components were mended."""
        weights = np.maximum(statistics.weight / statistics.weight.sum(), SMALLEST_WEIGHT)
        components, repairs = self.family.maximize(statistics)
        return MixtureParams(weights / weights.sum(), components), repairs

    def log_joint(self, params: MixtureParams, x: Array) -> Array:
        """log w_k p(x | k), (n, K)."""
        return self.family.log_density(params.components, x) + np.log(params.weights)

    def sample(
        self, params: MixtureParams, n: int, rng: np.random.Generator
    ) -> tuple[Array, np.ndarray]:
        """Rows and the components they came from."""
        labels = rng.choice(self.k, size=n, p=params.weights)
        return self.family.sample(params.components, labels, rng), labels

    def n_parameters(self) -> int:
        """Free parameters."""
        return self.k - 1 + self.family.n_parameters(self.k, self.d)

    def unconstrained(self, params: MixtureParams) -> Array:
        """Coordinates (K, 1 + q): log weights and the family's."""
        logs = np.log(params.weights)[:, None]
        return np.hstack([logs, self.family.unconstrained(params.components)])

    def constrained(self, coordinates: Array, like: MixtureParams) -> MixtureParams:
        """The inverse of `unconstrained`, with weights scaled to sum to one."""
        logs = coordinates[:, 0] - coordinates[:, 0].max()
        weights = np.maximum(np.exp(logs), SMALLEST_WEIGHT)
        components = self.family.constrained(coordinates[:, 1:], like.components)
        return MixtureParams(weights / weights.sum(), components)

    def units(self, params: MixtureParams) -> Array:
        """The natural length of each unconstrained coordinate."""
        return np.hstack([np.ones((self.k, 1)), self.family.units(params.components)])

    def blend(self, a: MixtureParams, b: MixtureParams, t: float) -> MixtureParams:
        """Parameters on the line from `a` to `b`."""
        weights = (1.0 - t) * a.weights + t * b.weights
        return MixtureParams(weights, self.family.blend(a.components, b.components, t))

    def overreach(self, params: MixtureParams, bounds: tuple[float, float, float]) -> float:
        """How many levels the truncation region must grow to hold `params`; <= 0 is inside."""
        location, low, high = self.family.extent(params.components)
        c1, c2, c3 = bounds
        lightest = 1.0 / max(float(params.weights.min()), SMALLEST_WEIGHT)
        steepest = 1.0 / max(low, SMALLEST_WEIGHT)
        return max(lightest - c1, location - c2, high - c3, steepest - c3)


def degenerate(model: MixtureModel, params: MixtureParams) -> NDArray[np.bool_]:
    """Which components are on a limit of their family, by columns, (K, d)."""
    if isinstance(model.family, CanDegenerate):
        return model.family.degenerate(params.components, params.weights)
    return np.zeros((model.k, model.d), dtype=bool)


def n_degenerate(model: MixtureModel, params: MixtureParams) -> int:
    """How many components are on a limit in some column."""
    return int(degenerate(model, params).any(axis=1).sum())
