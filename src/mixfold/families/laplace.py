"""Products of Laplace distributions about a known location over columns."""

from __future__ import annotations

from typing import Self

import numpy as np

from mixfold.core.checks import check_least
from mixfold.core.expression import Expression
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._scales import ScaleParams, Scales


@value
class Laplace(Scales):
    """Errors about a known location: t(x) = |x - location|, eta = -1 / scale, A = log(scale).

    h = 1/2. The location is known and the same for all components and columns: only then is it an
    exponential family. Components differ in scale, as of errors of several sizes, returns of
    calm and turbulent days, or coefficients of which most are small. The maximum-likelihood scale
    is the mean of |x - location|; the standard deviation is sqrt(2) times the scale.

    Parameters
    ----------
    location : float, default=0.0
        The known location, which is the mean and the median of every component.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> from mixfold.families.laplace import Laplace
    >>> rng = np.random.default_rng(0)
    >>> x = 5.0 + np.concatenate([rng.laplace(0, 1.0, 9000), rng.laplace(0, 50.0, 9000)])[:, None]
    >>> model = Mixture(Laplace(location=5.0), 2, random_state=0).fit(x)
    >>> model.scales_.round().tolist()
    [[1.0], [50.0]]
    """

    location: float = 0.0

    def __post_init__(self) -> None:
        check_least("location", self.location, -LARGEST, LARGEST)

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(), cls(location=-2.5)]

    @property
    def corner(self) -> float:
        return self.location

    def example(self, k: int, d: int, rng: np.random.Generator) -> ScaleParams:
        return ScaleParams(np.exp(rng.uniform(-1.0, 4.0, size=(k, d))))

    def to_theta(self, scales: Array) -> Array:
        return scales

    def to_scales(self, theta: Array) -> Array:
        return theta

    def sufficient_statistics(self, x: Array) -> Array:
        return np.abs(x - self.location)

    def log_base_measure(self, x: Array) -> Array:
        return np.full(len(x), -x.shape[1] * np.log(2.0))

    def statistics_expression(self, x: Expression) -> Expression:
        return (x - self.location).abs()

    def base_measure_expression(self, x: Expression) -> Expression:
        return 0.0 * x - float(np.log(2.0))

    def scipy_log_density(self, params: ScaleParams, x: Array) -> Array:
        from scipy.stats import laplace

        density = laplace.logpdf(x[:, None], self.location, params.scales)
        return np.asarray(density.sum(axis=2))

    def sample(self, params: ScaleParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return np.asarray(rng.laplace(self.location, params.scales[labels]))

    def standard_deviations(self, params: ScaleParams) -> Array:
        return np.asarray(np.sqrt(2.0) * params.scales)

    def attributes(self, params: ScaleParams) -> dict[str, Array]:
        return {"means": np.full_like(params.scales, self.location), "scales": params.scales}
