"""Products of gamma distributions over columns."""

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
class Gamma(GammaStatistics):
    """Values above zero: t(x) = (x, log x), eta = (-rate, shape), h = 1/x.

    A = log Gamma(shape) - shape log(rate), in each column. The maximum-likelihood shape solves
    log(shape) - digamma(shape) = log(mean x) - mean(log x) by Newton's method, and the rate is
    shape / mean x. A shape is at most 1e8, where the standard deviation is 1e-4 of the mean; a
    component whose rows vary less is degenerate. `means_` are shape / rate.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.gamma(2.0, 1.0, 4000), rng.gamma(9.0, 4.0, 4000)])[:, None]
    >>> model = Mixture("gamma", 2, random_state=0).fit(x)
    >>> model.means_.round().tolist()
    [[2.0], [36.0]]
    >>> model.shapes_.round().tolist()
    [[2.0], [9.0]]

    References
    ----------
    Minka (2002), Estimating a gamma distribution.
    """

    base_power: ClassVar[float] = -1.0

    def gamma_values(self, x: Array) -> Array:
        return kept_above_zero(x)

    def gamma_values_expression(self, x: Expression) -> Expression:
        return x.at_least(SMALLEST)

    def scipy_log_density(self, params: GammaParams, x: Array) -> Array:
        from scipy.stats import gamma

        scale = 1.0 / params.rates
        return np.asarray(gamma.logpdf(x[:, None], params.shapes, scale=scale).sum(axis=2))

    def sample(self, params: GammaParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        drawn = rng.standard_gamma(params.shapes[labels]) / params.rates[labels]
        return kept_above_zero(drawn)

    def standard_deviations(self, params: GammaParams) -> Array:
        return np.asarray(np.sqrt(params.shapes) / params.rates)

    def attributes(self, params: GammaParams) -> dict[str, Array]:
        means = params.shapes / params.rates
        return {"means": means, "shapes": params.shapes, "rates": params.rates}
