"""Products of Poisson distributions over columns."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from mixfold.core.capabilities import RowUpdates
from mixfold.core.conjugate import Conjugate
from mixfold.core.rows import Array
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.families._divergences import typical_size
from mixfold.families._failures import poisson_counts
from mixfold.families._gamma_rates import PoissonRates
from mixfold.families._positive import Positive
from mixfold.families.mean_params import MeanParams


@value
class Poisson(Positive):
    """Counts: t(x) = x, eta = log(rate), A = rate, h = 1/x!.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold.families.poisson import Poisson
    >>> from mixfold.families.mean_params import MeanParams
    >>> Poisson().log_density(MeanParams(np.array([[2.0]])), np.array([[3.0]])).round(4)
    array([[-1.7123]])
    """

    floor: float = 1e-8
    base_measure: ClassVar[Literal["one", "factorial"]] = "factorial"
    support = Support(low=0.0, whole=True)

    @property
    def row_updates(self) -> RowUpdates:
        return RowUpdates("poisson", self.floor)

    @property
    def conjugate(self) -> Conjugate:
        return PoissonRates()

    def log_base_measure(self, x: Array) -> Array:
        from scipy.special import gammaln

        return np.asarray(-gammaln(x + 1.0).sum(axis=1))

    def scipy_log_density(self, params: MeanParams, x: Array) -> Array:
        from scipy.stats import poisson

        return np.asarray(poisson.logpmf(x[:, None], params.means).sum(axis=2))

    def to_natural(self, params: MeanParams) -> Array:
        return np.log(params.means)

    def log_normalizer(self, eta: Array) -> Array:
        return np.asarray(np.exp(eta).sum(axis=1))

    def sample(self, params: MeanParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return poisson_counts(params.means[labels], rng)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """x log(x/c) - x + c, summed over columns; a centre at zero is moved off it."""
        from scipy.special import kl_div

        c = np.maximum(centers, 0.5 * typical_size(x, weight))
        return np.stack([kl_div(x, one).sum(axis=1) for one in c], axis=1)

    def blend(self, a: MeanParams, b: MeanParams, t: float) -> MeanParams:
        return MeanParams((1.0 - t) * a.means + t * b.means)

    def parameter_bounds(self, params: MeanParams) -> tuple[float, float, float]:
        return float(params.means.max()), float(params.means.min()), float(params.means.max())
