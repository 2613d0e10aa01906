"""Products of Weibull distributions whose shapes are estimated."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import HIGHEST, LOWEST, check_array, check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.expression import Expression, observed
from mixfold.core.family import n_components_with
from mixfold.core.limits import LARGEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._above_zero import AboveZeroSupport, kept_above_zero
from mixfold.families._divergences import itakura_saito
from mixfold.families._expected_statistics import ExpectedStatistics, towards

LEAST_SHAPE, MOST_SHAPE = 0.1, 1e4  # at the latter the standard deviation is 1e-4 of the mean
MOST_INITIAL = 20.0  # where estimates of shapes begin
LARGEST_LOG = 65.0  # of (x / scale)^shape in statistics, whose squares are then below 1e60
LARGEST_LOSS = 500.0  # the same in densities
LEAST_MEAN = 1e-60

# expectations of y, e^y, y e^y, y^2 e^y, e^2y and e^(y/2), where e^y is exponentially distributed
EULER = float(np.euler_gamma)
TILTED = 1.0 - EULER
EXPECTED = (
    -EULER,
    1.0,
    TILTED,
    np.pi**2 / 6.0 - 1.0 + TILTED**2,
    2.0,
    0.5 * np.sqrt(np.pi),
)


@value
class WeibullParams:
    """Scales and shapes (K, d)."""

    scales: Array
    shapes: Array


@value
class WeibullShapes(AboveZeroSupport, ExpectedStatistics[WeibullParams]):
    """Life times with a scale and a shape for each component and column, both estimated.

    It is what `Weibull(shape=None)` returns. With y = shape log(x / scale) at the present
    parameters, statistics are y, e^y, y e^y, y^2 e^y, e^2y and e^(y/2). They bound the mean of
    e^(by) for b from 1/2 to 2, and the maximum of the bound of the likelihood gives the next shape,
    b times the present one, and scale. Zeros are refused, and values below 1e-60 count as 1e-60.
    Shapes are from 0.1 to 1e4; a component whose rows vary less than that is degenerate.

    `means_`, `scales_` and `shapes_` are attributes of a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture, Weibull
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.weibull(3.0, 4000), 20.0 * rng.weibull(1.0, 4000)])[:, None]
    >>> model = Mixture(Weibull(shape=None), 2, random_state=0).fit(x)
    >>> model.shapes_.round().tolist()
    [[3.0], [1.0]]
    """

    registered_as: ClassVar[str] = "weibull"

    shape: None = None

    def __post_init__(self) -> None:
        if self.shape is not None:
            raise InvalidInputError(f"shape is {self.shape!r}: use Weibull({self.shape!r})")

    def __repr__(self) -> str:
        return "Weibull(shape=None)"

    def check_params(self, params: WeibullParams, k: int, d: int) -> None:
        check_kind("components", params, WeibullParams)
        check_array("scales", params.scales, (k, d), LOWEST, HIGHEST)
        check_array("shapes", params.shapes, (k, d), 0.5 * LEAST_SHAPE, 2.0 * MOST_SHAPE)

    def example(self, k: int, d: int, rng: np.random.Generator) -> WeibullParams:
        scales = rng.uniform(0.5, 8.0, size=(k, d))
        return WeibullParams(scales, rng.uniform(0.8, 4.0, size=(k, d)))

    def n_parameters(self, k: int, d: int) -> int:
        return 2 * k * d

    def log_density(self, params: WeibullParams, x: Array) -> Array:
        ratios = kept_above_zero(x)[:, None] / params.scales
        y = params.shapes * np.log(ratios)
        logs = np.log(params.shapes) - np.log(kept_above_zero(x))[:, None] + y
        return np.asarray((logs - np.exp(np.minimum(y, LARGEST_LOSS))).sum(axis=2))

    def density_expression(
        self, params: WeibullParams, x: Expression, marginalize: bool
    ) -> Expression:
        logs = x.at_least(SMALLEST).log().with_axis(1)
        y = params.shapes * (logs - np.log(params.scales))
        found = np.log(params.shapes) - logs + y - y.at_most(LARGEST_LOSS).exp()
        return (observed(x.with_axis(1), found) if marginalize else found).sum(2)

    def scipy_log_density(self, params: WeibullParams, x: Array) -> Array:
        from scipy.stats import weibull_min

        density = weibull_min.logpdf(x[:, None], params.shapes, scale=params.scales)
        return np.asarray(density.sum(axis=2))

    def sample(self, params: WeibullParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return kept_above_zero(params.scales[labels] * rng.weibull(params.shapes[labels]))

    # statistics: those of y, log(shape) and log(scale), in all columns

    def n_statistics(self, d: int) -> int:
        return (len(EXPECTED) + 2) * d

    def expected_statistics(self, params: WeibullParams, x: Array) -> Array:
        shapes, scales = params.shapes[:, None], params.scales[:, None]
        y = np.minimum(shapes * np.log(kept_above_zero(x) / scales), LARGEST_LOG)
        inside = np.maximum(y, -LARGEST_LOG)
        power = np.exp(inside)
        first = inside * power
        parts = (y, power, first, inside * first, np.square(power), np.exp(0.5 * inside))
        known = np.log(shapes), np.log(scales)
        return np.concatenate(np.broadcast_arrays(*parts, *known), axis=2)

    def initial_params(self, x: Array, normalized: Array) -> WeibullParams:
        """By the mean and the variance of log x, which is pi^2 / 6 / shape^2."""
        logs = np.log(kept_above_zero(x))
        mean = normalized @ logs
        deviations = np.sqrt(normalized @ np.square(logs - mean))
        least = np.pi / np.sqrt(6.0) / MOST_INITIAL
        shapes = np.pi / np.sqrt(6.0) / np.maximum(deviations, least)
        shapes = np.maximum(shapes, LEAST_SHAPE)
        scales = np.exp((mean + EULER / shapes).clip(*np.log([SMALLEST, LARGEST])))
        return WeibullParams(scales[None], shapes[None])

    def expected(self, params: WeibullParams, weights: Array) -> Blocks:
        parts = [np.full_like(params.shapes, number) for number in EXPECTED]
        mean = np.hstack([*parts, np.log(params.shapes), np.log(params.scales)])
        return (Block.of_means(weights.copy(), mean),)

    def maximize(self, blocks: Blocks) -> tuple[WeibullParams, int]:
        (block,) = blocks
        *parts, log_shapes, log_scales = np.hsplit(block.mean, len(EXPECTED) + 2)
        present = np.exp(log_shapes).clip(LEAST_SHAPE, MOST_SHAPE)
        factor, log_power = next_shapes(parts, LEAST_SHAPE / present, MOST_SHAPE / present)
        shapes = present * factor
        log_scales = log_scales + log_power / shapes
        scales = np.exp(log_scales.clip(*np.log([SMALLEST, LARGEST])))
        params = WeibullParams(scales, shapes)
        return params, n_components_with(self._at_limit(params))

    def _at_limit(self, params: WeibullParams) -> NDArray[np.bool_]:
        return np.asarray(params.shapes * TOUCHING >= MOST_SHAPE)

    def degenerate(self, params: WeibullParams, weights: Array) -> NDArray[np.bool_]:
        """Where a shape is at its upper limit."""
        return self._at_limit(params)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The Itakura-Saito divergence, which depends on ratios of values only."""
        return itakura_saito(kept_above_zero(x), kept_above_zero(centers), weight)

    # capabilities

    def _moment(self, params: WeibullParams, power: int) -> Array:
        """E[(x / scale)^power], (K, d)."""
        from scipy.special import gamma

        return np.asarray(gamma(1.0 + power / params.shapes))

    def standard_deviations(self, params: WeibullParams) -> Array:
        variance = self._moment(params, 2) - np.square(self._moment(params, 1))
        return np.asarray(params.scales * np.sqrt(np.maximum(variance, 0.0)))

    def attributes(self, params: WeibullParams) -> dict[str, Array]:
        means = params.scales * self._moment(params, 1)
        return {"means": means, "scales": params.scales, "shapes": params.shapes}

    def unconstrained(self, params: WeibullParams) -> Array:
        return np.log(np.hstack([params.scales, params.shapes]))

    def constrained(self, coordinates: Array, like: WeibullParams) -> WeibullParams:
        log_scales, log_shapes = np.hsplit(coordinates, 2)
        scales = np.exp(log_scales.clip(*np.log([SMALLEST, LARGEST])))
        shapes = np.exp(log_shapes.clip(*np.log([LEAST_SHAPE, MOST_SHAPE])))
        return WeibullParams(scales, shapes)

    def coordinate_scales(self, params: WeibullParams) -> Array:
        return np.hstack([1.0 / params.shapes, np.ones_like(params.shapes)])


def next_shapes(parts: list[Array], least: Array, most: Array) -> tuple[Array, Array]:
    """Factors b of the shapes, from `least` to `most`, and bounds of log(mean of e^(by)).

    `parts` are the means of y, e^y, y e^y, y^2 e^y, e^2y and e^(y/2). With weights in proportion to
    e^y, m and v are the mean and the variance of y. The mean of e^(by) is that of e^y times
    e^(em) (1 + e^2 R(e)), where e = b - 1 and R(e) is the mean of (y - m)^2 f(e (y - m)) with
    f(z) = (e^z - 1 - z) / z^2, a mixture of exponential functions of z. So R is convex. It is v/2
    at e = 0 and known at the ends, and between them at most its chord. As log(1 + z) is at most z,
    the mean log-likelihood is at least

        log(1 + e) + e (mean y - m) - e^2 (v/2 + slope |e|)

    and what does not depend on e. If the chord falls, v/2 is used throughout. The bound is concave.
    """
    mean, total, first, second, double, half = parts
    total = np.maximum(total, LEAST_MEAN)
    m = (first / total).clip(-LARGEST_LOG, LARGEST_LOG)
    v = np.maximum(second / total - np.square(m), 0.0)
    at_double = double / total * np.exp(-m) - 1.0  # R at e = 1
    at_half = 4.0 * (half / total * np.exp(0.5 * m) - 1.0)  # R at e = -1/2
    up = 1.0 + mean - m > 0.0
    chord = np.maximum(np.where(up, at_double - 0.5 * v, 2.0 * (at_half - 0.5 * v)), 0.0)

    def slope(b: Array) -> Array:
        e = b - 1.0
        found = 1.0 / b + (mean - m) - e * (v + 3.0 * chord * np.abs(e))
        return np.asarray(np.where(up, found, -found))

    end = np.where(up, np.minimum(2.0, most), np.maximum(0.5, least))
    b = towards(slope, np.ones_like(m), end)
    e = b - 1.0
    rest = np.log1p(np.square(e) * (0.5 * v + chord * np.abs(e)))
    return b, np.log(total) + e * m + rest
