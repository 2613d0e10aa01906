"""Products of inverse gamma distributions over columns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mixfold.core.expression import Expression
from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._above_zero import kept_above_zero
from mixfold.families._gamma_statistics import GammaParams, GammaStatistics


@value
class InverseGamma(GammaStatistics):
    """Values whose reciprocals have gamma distributions: t(x) = (1/x, -log x), h = 1/x.

    eta = (-scale, shape) and A = log Gamma(shape) - shape log(scale), in each column. The
    maximum-likelihood estimates are those of a gamma distribution of 1/x, whose rate is the scale
    here. A shape is at most 1e8; a component that would have a larger one is degenerate. `means_`
    are scale / (shape - 1), and infinite where the shape is at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = 1.0 / np.concatenate([rng.gamma(9.0, 1.0, 4000), rng.gamma(9.0, 0.01, 4000)])[:, None]
    >>> model = Mixture("inverse-gamma", 2, random_state=0).fit(x)
    >>> model.scales_.round(-1).tolist()
    [[0.0], [100.0]]
    >>> model.shapes_.round().tolist()
    [[9.0], [9.0]]
    """

    base_power: ClassVar[float] = 1.0

    def gamma_values(self, x: Array) -> Array:
        return np.asarray(1.0 / kept_above_zero(x))

    def gamma_values_expression(self, x: Expression) -> Expression:
        return 1.0 / x.at_least(SMALLEST)

    def scipy_log_density(self, params: GammaParams, x: Array) -> Array:
        from scipy.stats import invgamma

        return np.asarray(
            invgamma.logpdf(x[:, None], params.shapes, scale=params.rates).sum(axis=2)
        )

    def sample(self, params: GammaParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        drawn = rng.standard_gamma(params.shapes[labels])
        return kept_above_zero(params.rates[labels] / kept_above_zero(drawn))

    def standard_deviations(self, params: GammaParams) -> Array:
        """Infinite where the shape is at most 2."""
        with np.errstate(divide="ignore"):
            return np.asarray(_means(params) / np.sqrt(np.maximum(params.shapes - 2.0, 0.0)))

    def attributes(self, params: GammaParams) -> dict[str, Array]:
        return {"means": _means(params), "shapes": params.shapes, "scales": params.rates}

    # the first coordinates are those of location: log of the mean of 1/x, with the other sign

    def unconstrained(self, params: GammaParams) -> Array:
        return _first_negated(super().unconstrained(params))

    def constrained(self, coordinates: Array, like: GammaParams) -> GammaParams:
        return super().constrained(_first_negated(coordinates), like)


def _means(params: GammaParams) -> Array:
    """E[x]; infinite where the shape is at most 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(params.rates / np.maximum(params.shapes - 1.0, 0.0))


def _first_negated(coordinates: Array) -> Array:
    location, shape = np.hsplit(coordinates, 2)
    return np.hstack([-location, shape])
