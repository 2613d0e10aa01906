"""Products of exponential distributions over columns."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from mixfold.core.capabilities import RowUpdates
from mixfold.core.conjugate import Conjugate
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._divergences import itakura_saito
from mixfold.families._gamma_rates import ExponentialRates
from mixfold.families._positive import Positive
from mixfold.families.mean_params import MeanParams


@value
class Exponential(Positive):
    """Waiting times: t(x) = x, eta = -rate, A = -log(rate); kept by the mean 1/rate.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold.families.exponential import Exponential
    >>> from mixfold.families.mean_params import MeanParams
    >>> Exponential().log_density(MeanParams(np.array([[0.5]])), np.array([[1.0]])).round(4)
    array([[-1.3069]])
    """

    floor: float = 1e-8

    base_measure: ClassVar[Literal["one", "factorial"]] = "one"

    @property
    def row_updates(self) -> RowUpdates:
        return RowUpdates("exponential", self.floor)

    @property
    def conjugate(self) -> Conjugate:
        return ExponentialRates()

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))

    def scipy_log_density(self, params: MeanParams, x: Array) -> Array:
        from scipy.stats import expon

        return np.asarray(expon.logpdf(x[:, None], scale=params.means).sum(axis=2))

    def to_natural(self, params: MeanParams) -> Array:
        return np.asarray(-1.0 / params.means)

    def log_normalizer(self, eta: Array) -> Array:
        return np.asarray(-np.log(-eta).sum(axis=1))

    def sample(self, params: MeanParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        return np.asarray(rng.exponential(params.means[labels]))

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """x/c - log(x/c) - 1 (Itakura-Saito), summed over columns; zeros are moved off zero."""
        return itakura_saito(x, centers, weight)

    def blend(self, a: MeanParams, b: MeanParams, t: float) -> MeanParams:
        """A line in the rates, as in the mini-batch paper."""
        return MeanParams(1.0 / ((1.0 - t) / a.means + t / b.means))

    def parameter_bounds(self, params: MeanParams) -> tuple[float, float, float]:
        rates = 1.0 / params.means
        return float(rates.max()), float(rates.min()), float(rates.max())
