"""A finite mixture with a component of constant density, for rows far from all others."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mixfold.core.checks import ROUNDING, check_above, check_array, check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.expression import Expression, side_by_side
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.core.value import replace, value
from mixfold.models.mixture_model import (
    SMALLEST_WEIGHT,
    MixtureModel,
    MixtureParams,
)

FIRST_WEIGHT = 0.05  # of noise, before its first M-step


@value
class Box:
    """A box with one side per column, low <= x <= high; of whole numbers it has both ends."""

    low: Array
    high: Array
    whole: np.ndarray

    def check(self, d: int) -> None:
        """Refuse sides of another number, or without a length."""
        for name in ("low", "high"):
            check_array(name, getattr(self, name), (d,))
        check_array("whole", self.whole.astype(np.float64), (d,), 0.0, 1.0)
        if not (self.lengths > 0.0).all():
            column = int(np.flatnonzero(~(self.lengths > 0.0))[0]) + 1
            raise InvalidInputError(
                f"the box of noise has no length in column {column} (counted from 1), where it is "
                f"from {self.low[column - 1]:g} to {self.high[column - 1]:g}: leave out a constant "
                "column, or give noise=(low, high)"
            )

    @property
    def lengths(self) -> Array:
        """The length of each side (d,); the number of values in columns of whole numbers."""
        return np.asarray(self.high - self.low + self.whole)

    def scaled(self, volume: float) -> Self:
        """The box of another volume with the same centre and proportions."""
        lengths = self.lengths
        factor = float(np.exp((np.log(volume) - np.log(lengths).sum()) / len(lengths)))
        more = 0.5 * (factor - 1.0) * lengths
        return replace(self, low=self.low - more, high=self.high + more)

    def log_density(self, x: Array) -> Array:
        """The logarithm of one over the volume of a row's observed columns, (n,)."""
        logs = np.log(self.lengths)
        if not has_missing(x):
            return np.full(len(x), -logs.sum())
        return np.asarray(-(~np.isnan(x) @ logs))

    def sample(self, n: int, rng: np.random.Generator) -> Array:
        """Rows of the box."""
        drawn = self.low + rng.random((n, len(self.low))) * self.lengths
        return np.where(self.whole, np.floor(drawn), drawn)


@value
class NoiseParams(MixtureParams[Any]):
    """The parameters of K components, and the weight of noise; all weights sum to one."""

    noise: float

    def check(self, k: int) -> None:
        check_array("weights", self.weights, (k,), 0.0, 1.0 + ROUNDING)
        check_above("noise", self.noise, 0.0, 1.0 + ROUNDING)
        total = float(self.weights.sum()) + self.noise
        if not abs(total - 1.0) <= ROUNDING:
            raise InvalidInputError(f"weights and noise sum to {total}: they must sum to 1")

    @property
    def of_components(self) -> MixtureParams:
        """The mixture of the components alone."""
        return MixtureParams(self.weights / self.weights.sum(), self.components)


@value
class NoiseStatistics(Statistics):
    """Statistics of K components, and the total responsibility of noise."""

    noise: float

    @staticmethod
    def with_noise(known: Statistics, noise: float) -> NoiseStatistics:
        """Statistics of components with the total responsibility of noise."""
        count = float(known.weight.sum()) + noise
        return NoiseStatistics(known.weight, known.blocks, count, known.log_likelihood, noise)

    def __add__(self, other: Statistics) -> NoiseStatistics:
        return self._of(super().__add__(other), self.noise + noise_of(other))

    def mix(self, other: Statistics, gamma: float) -> NoiseStatistics:
        mixed = self.noise * (1.0 - gamma) + noise_of(other) * gamma
        return self._of(super().mix(other, gamma), mixed)

    def __mul__(self, factor: float) -> NoiseStatistics:
        return self._of(super().__mul__(factor), self.noise * factor)

    @staticmethod
    def _of(known: Statistics, noise: float) -> NoiseStatistics:
        return NoiseStatistics(known.weight, known.blocks, known.count, known.log_likelihood, noise)


def noise_of(statistics: Statistics) -> float:
    """The total responsibility of noise."""
    check_kind("statistics", statistics, NoiseStatistics)
    assert isinstance(statistics, NoiseStatistics)
    return statistics.noise


@value
class NoiseMixture(MixtureModel):
    """p(x) = sum_k w_k p(x | k) + w_0 / V, where V is the volume of a box.

    An E-step returns the sums of the mixture, and then the total responsibility of noise.
    Responsibilities have a last column for it.

    Reference: Banfield and Raftery (1993), Model-based Gaussian and non-Gaussian clustering.
    """

    box: Box

    def __post_init__(self) -> None:
        super().__post_init__()
        self.box.check(self.d)

    def check_params(self, params: MixtureParams) -> None:
        check_kind("params", params, NoiseParams)
        super().check_params(params)

    def check_statistics(self, statistics: Statistics) -> None:
        check_array("noise", np.array([noise_of(statistics)]), (1,), 0.0)
        super().check_statistics(statistics)

    @property
    def n_expectations(self) -> int:
        return self.k + 1

    @property
    def n_sums(self) -> int:
        return super().n_sums + 1

    @property
    def has_coordinates(self) -> bool:
        return False

    @property
    def has_bounds(self) -> bool:
        return False

    @property
    def has_noise(self) -> bool:
        return True

    def of_components(self, k: int) -> MixtureModel:
        return MixtureModel(self.family, k, self.d)

    def initial(self, params: MixtureParams) -> NoiseParams:
        if isinstance(params, NoiseParams):
            return params
        weights = (1.0 - FIRST_WEIGHT) * params.weights
        return NoiseParams(weights, params.components, FIRST_WEIGHT)

    def weights_in(self, sums: Array) -> Array:
        return super().weights_in(sums[:-1])

    def statistics(self, params: MixtureParams, sums: Array) -> Statistics:
        found = super().statistics(params, sums[:-1])
        return NoiseStatistics.with_noise(found, max(float(sums[-1]), 0.0))

    def sums(self, params: MixtureParams, statistics: Statistics) -> Array:
        return np.append(super().sums(params, statistics), noise_of(statistics))

    def recursive(
        self, statistics: Statistics, batch: Statistics, gamma: float
    ) -> tuple[Statistics, int]:
        found, cut = super().recursive(statistics, batch, gamma)
        noise = noise_of(statistics) + gamma * (noise_of(batch) - noise_of(statistics))
        return NoiseStatistics.with_noise(found, max(noise, 0.0)), cut

    def expected(self, params: MixtureParams) -> Statistics:
        known = self.initial(params)
        return NoiseStatistics.with_noise(super().expected(known), known.noise)

    def maximize(self, statistics: Statistics) -> tuple[MixtureParams, int]:
        found, count_degenerate = super().maximize(statistics)
        if not isinstance(statistics, NoiseStatistics):
            return self.initial(found), count_degenerate
        total = float(statistics.weight.sum()) + statistics.noise
        noise = max(statistics.noise / total, SMALLEST_WEIGHT)
        return NoiseParams((1.0 - noise) * found.weights, found.components, noise), count_degenerate

    def log_joint(self, params: MixtureParams, x: Array) -> Array:
        known = self.initial(params)
        noise = self.box.log_density(x) + np.log(known.noise)
        return np.column_stack([super().log_joint(known, x), noise])

    def joint_expression(
        self, params: MixtureParams, x: Expression, marginalize: bool
    ) -> Expression:
        known = self.initial(params)
        there = x.is_missing().choose(0.0, 1.0)
        noise = there @ -np.log(self.box.lengths)[:, None] + np.log(known.noise)
        return side_by_side(super().joint_expression(known, x, marginalize), noise)

    def sample(
        self, params: MixtureParams, n: int, rng: np.random.Generator
    ) -> tuple[Array, np.ndarray]:
        """Draw rows; also returns their components, -1 for noise."""
        known = self.initial(params)
        x, labels = super().sample(known.of_components, n, rng)
        far = rng.random(n) < known.noise
        x[far], labels[far] = self.box.sample(int(far.sum()), rng), -1
        return x, labels

    def n_parameters(self) -> int:
        """Free parameters; as in mclust, noise has two: its weight and its volume."""
        return super().n_parameters() + 2

    def blend(self, a: MixtureParams, b: MixtureParams, t: float) -> MixtureParams:
        one, other = self.initial(a), self.initial(b)
        found = super().blend(one, other, t)
        noise = (1.0 - t) * one.noise + t * other.noise
        return NoiseParams(found.weights, found.components, noise)
