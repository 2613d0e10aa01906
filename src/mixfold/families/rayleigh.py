"""Products of Rayleigh distributions over columns."""

from __future__ import annotations

import numpy as np

from mixfold.core.expression import Expression
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.families._scales import ScaleParams, Scales

LEAST = 1e-100  # in the base measure, which is zero at zero


@value
class Rayleigh(Scales):
    """Lengths of vectors: t(x) = x^2, eta = -1 / (2 scale^2), A = log(2 scale^2), h = 2x.

    It is the distribution of the length of a vector in the plane whose coordinates are independent
    and normal with mean zero and standard deviation `scale`, as of wave heights, wind speeds and
    amplitudes of signals. Values are at most 1e30, so that their squares are at most 1e60.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.rayleigh(1.0, 5000), rng.rayleigh(20.0, 5000)])[:, None]
    >>> model = Mixture("rayleigh", 2, random_state=0).fit(x)
    >>> model.scales_.round().tolist()
    [[1.0], [20.0]]
    """

    support = Support(low=0.0)
    accepted = Support(low=0.0, high=LARGEST**0.5)

    def to_theta(self, scales: Array) -> Array:
        return 2.0 * np.square(scales)

    def to_scales(self, theta: Array) -> Array:
        return np.sqrt(0.5 * theta)

    def sufficient_statistics(self, x: Array) -> Array:
        return np.square(x)

    def log_base_measure(self, x: Array) -> Array:
        return np.asarray(np.log(2.0 * np.maximum(x, LEAST)).sum(axis=1))

    def statistics_expression(self, x: Expression) -> Expression:
        return x.square()

    def base_measure_expression(self, x: Expression) -> Expression:
        return (2.0 * x.at_least(LEAST)).log()

    def scipy_log_density(self, params: ScaleParams, x: Array) -> Array:
        from scipy.stats import rayleigh

        return np.asarray(rayleigh.logpdf(x[:, None], scale=params.scales).sum(axis=2))

    def sample(self, params: ScaleParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return np.asarray(rng.rayleigh(params.scales[labels]))

    def standard_deviations(self, params: ScaleParams) -> Array:
        return np.asarray(np.sqrt(2.0 - np.pi / 2.0) * params.scales)

    def attributes(self, params: ScaleParams) -> dict[str, Array]:
        return {"means": np.sqrt(np.pi / 2.0) * params.scales, "scales": params.scales}
