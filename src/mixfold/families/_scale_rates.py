"""Conjugate posteriors of scales, as of Rayleigh, Weibull and Laplace distributions."""

from __future__ import annotations

from typing import Protocol

from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._gamma_rates import GammaPosterior, ReciprocalRates


@value
class ScaleParams:
    """Scales (K, d) of products over columns."""

    scales: Array


class ExponentialStatistics(Protocol):
    """A family in which t(x) of each column is exponentially distributed with mean theta."""

    @property
    def limits(self) -> tuple[float, float]: ...
    def to_theta(self, scales: Array) -> Array: ...
    def to_scales(self, theta: Array) -> Array: ...
    def sufficient_statistics(self, x: Array) -> Array: ...
    def log_base_measure(self, x: Array) -> Array: ...


class ScaleRates(ReciprocalRates[ScaleParams]):
    """Posteriors of 1 / theta, where theta is a power of the scale."""

    def __init__(self, family: ExponentialStatistics) -> None:
        self.family = family

    def statistics(self, x: Array) -> Array:
        return self.family.sufficient_statistics(x)

    def log_base_measure(self, x: Array) -> Array:
        return self.family.log_base_measure(x)

    def prior(self, params: ScaleParams, prior: Prior) -> GammaPosterior:
        if prior.means is not None:
            raise InvalidInputError(
                f"means of the prior are given, but {self.family!r} has scales only: give them by "
                "initial parameters, on which the prior is centred"
            )
        return self.centred(self.family.to_theta(params.scales), prior)

    def to_params(self, theta: Array) -> ScaleParams:
        return ScaleParams(self._scales(theta))

    def intervals(
        self, posterior: GammaPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        low, high = self.rates(posterior, level)
        return {"scales": (self._scales(1.0 / high), self._scales(1.0 / low))}

    def _scales(self, theta: Array) -> Array:
        return self.family.to_scales(theta).clip(*self.family.limits)
