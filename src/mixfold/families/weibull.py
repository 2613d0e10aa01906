"""Products of Weibull distributions over columns."""

from __future__ import annotations

from math import gamma
from typing import Any, Self

import numpy as np

from mixfold.core.checks import check_least
from mixfold.core.expression import Expression
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.families._scales import ScaleParams, Scales
from mixfold.families._weibull_shapes import WeibullParams, WeibullShapes

__all__ = ["Weibull", "WeibullParams", "WeibullShapes"]

LEAST = 1e-100  # in the base measure, which is zero or infinite at zero
LEAST_SHAPE, MOST_SHAPE = 0.1, 100.0


@value
class Weibull(Scales):
    """Life times: t(x) = x^shape, eta = -scale^-shape, A = shape log(scale).

    h = shape x^(shape - 1), where the shape c is known and the same for all components and columns:
    only then is it an exponential family. With `shape=None` it is estimated. Failures become rarer
    with time if c is below 1, and more frequent if it is above; c = 1 is the exponential
    distribution, and c = 2 Rayleigh's. Values are at most 1e60 to the power 1/c, so that t(x) is at
    most 1e60: if the shape is large, divide them by their typical size.

    Parameters
    ----------
    shape : float from 0.1 to 100 or None, default=1.0
        The known shape. None estimates a shape for each component and column: see `WeibullShapes`.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> from mixfold.families.weibull import Weibull
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.weibull(3.0, 4000), 9.0 * rng.weibull(3.0, 4000)])[:, None]
    >>> model = Mixture(Weibull(shape=3.0), 2, random_state=0).fit(x)
    >>> model.scales_.round().tolist()
    [[1.0], [9.0]]
    """

    shape: float | None = 1.0

    support = Support(low=0.0)

    def __new__(cls, shape: float | None = 1.0) -> Self:
        """Without a shape it is a `WeibullShapes`."""
        other: Any = WeibullShapes
        return other(shape) if shape is None else object.__new__(cls)

    def __post_init__(self) -> None:
        check_least("shape", self.shape, LEAST_SHAPE, MOST_SHAPE)

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(), cls(shape=0.7), cls(shape=2.5), cls(shape=None)]

    @property
    def c(self) -> float:
        """The known shape."""
        assert self.shape is not None
        return self.shape

    @property
    def accepted(self) -> Support:
        if self.c <= 1.0:
            return self.support
        return Support(low=0.0, high=LARGEST ** (1.0 / self.c))

    def to_theta(self, scales: Array) -> Array:
        return np.asarray(scales**self.c)

    def to_scales(self, theta: Array) -> Array:
        return np.asarray(theta ** (1.0 / self.c))

    def sufficient_statistics(self, x: Array) -> Array:
        return np.asarray(x**self.c)

    def log_base_measure(self, x: Array) -> Array:
        logs = np.log(np.maximum(x, LEAST))
        return np.asarray((np.log(self.c) + (self.c - 1.0) * logs).sum(axis=1))

    def statistics_expression(self, x: Expression) -> Expression:
        return Expression("Pow", x, self.c)

    def base_measure_expression(self, x: Expression) -> Expression:
        return (self.c - 1.0) * x.at_least(LEAST).log() + float(np.log(self.c))

    def scipy_log_density(self, params: ScaleParams, x: Array) -> Array:
        from scipy.stats import weibull_min

        density = weibull_min.logpdf(x[:, None], self.c, scale=params.scales)
        return np.asarray(density.sum(axis=2))

    def sample(self, params: ScaleParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        scales = params.scales[labels]
        return np.asarray(scales * rng.weibull(self.c, size=scales.shape))

    def standard_deviations(self, params: ScaleParams) -> Array:
        return np.asarray(params.scales * np.sqrt(self._moment(2) - self._moment(1) ** 2))

    def attributes(self, params: ScaleParams) -> dict[str, Array]:
        return {"means": params.scales * self._moment(1), "scales": params.scales}

    def _moment(self, power: int) -> float:
        """E[(x / scale)^power]."""
        return gamma(1.0 + power / self.c)
