"""Conjugate posteriors of rates, as of Poisson and exponential distributions: gamma."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from mixfold.core.checks import LARGEST_SQUARE, LOWEST, check_array, check_kind
from mixfold.core.conjugate import REACH, Conjugate, Prior, joined, retained_fraction
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import SMALLEST
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value
from mixfold.families.mean_params import MeanParams

LEAST_SHAPE = 0.1  # smallest shape above one, so that the mean exists
LARGE_SHAPE = 1e6  # above it two terms of the series are exact
LEAST_COUNT = 0.1  # smallest count of a prior; with less it could not learn from zeros


@value
class GammaPosterior:
    """The rate of every column is Gamma(shape, rate), both (K, d)."""

    shape: Array
    rate: Array


def log_gap(shape: Array) -> Array:
    """digamma(a) - log(a), whose terms would cancel where a is large."""
    from scipy.special import digamma

    large = np.maximum(shape, LARGE_SHAPE)
    series = -0.5 / large - 1.0 / (12.0 * np.square(large))
    return np.where(shape > LARGE_SHAPE, series, digamma(shape) - np.log(shape))


class GammaRates(Conjugate[ParamsT, GammaPosterior]):
    """Posteriors of rates; the statistics t(x) of a row are added to shape or rate."""

    def check(self, posterior: GammaPosterior, k: int, d: int) -> None:
        check_kind("components", posterior, GammaPosterior)
        check_array("shape", posterior.shape, (k, d), LOWEST, LARGEST_SQUARE)
        check_array("rate", posterior.rate, (k, d), LOWEST, LARGEST_SQUARE)

    def statistics(self, x: Array) -> Array:
        """t(x), with the shape of x."""
        return x

    @abstractmethod
    def gain(self, t: Array, weight: Array) -> tuple[Array, Array]:
        """The amounts that rows with statistics t and some weight add to shape and rate."""

    @abstractmethod
    def log_base_measure(self, x: Array) -> Array:
        """log of the base measure of every row, (n,)."""

    def log_evidence(self, posterior: GammaPosterior, x: Array, weight: Array) -> Array:
        from scipy.special import gammaln

        a, b = posterior.shape, posterior.rate
        shape, rate = self.gain(self.statistics(x)[:, None], weight[:, None, None])
        terms = gammaln(a + shape) - gammaln(a) + a * np.log(b) - (a + shape) * np.log(b + rate)
        return np.asarray(terms.sum(axis=2) + (weight * self.log_base_measure(x))[:, None])

    def match(
        self, posterior: GammaPosterior, x: Array, weight: float, c: Array
    ) -> tuple[GammaPosterior, int]:
        a, b = posterior.shape, posterior.rate
        shape, rate = self.gain(self.statistics(x), np.asarray(weight))
        near, c = (c >= REACH)[:, None], c[:, None]
        # all in units of the mean a / b, which may be very small or large
        after = (a + shape) / a * (b / (b + rate))
        mean = c * after + (1.0 - c)
        spread = c * np.square(after) / (a + shape) + (1.0 - c) / a
        variance = spread + c * (1.0 - c) * np.square(after - 1.0)
        found = np.square(mean) / variance
        return GammaPosterior(
            np.where(near, found, a), np.where(near, found / mean * (b / a), b)
        ), 0

    def absorb(self, posterior: GammaPosterior, blocks: Blocks) -> GammaPosterior:
        (block,) = blocks
        shape, rate = self.gain(block.mean, block.weight[:, None])
        return GammaPosterior(posterior.shape + shape, posterior.rate + rate)

    def combine(self, before: GammaPosterior, parts: Sequence[GammaPosterior]) -> GammaPosterior:
        shapes, rates = [p.shape for p in parts], [p.rate for p in parts]
        share = np.minimum(
            retained_fraction(before.shape, shapes), retained_fraction(before.rate, rates)
        )
        return GammaPosterior(
            joined(before.shape, shapes, share), joined(before.rate, rates, share)
        )

    def rates(self, posterior: GammaPosterior, level: float) -> tuple[Array, Array]:
        """Equal-tailed intervals of the rates."""
        from scipy.special import gammaincinv

        tail = 0.5 - 0.5 * level
        return (
            gammaincinv(posterior.shape, tail) / posterior.rate,
            gammaincinv(posterior.shape, 1.0 - tail) / posterior.rate,
        )


def prior_means(params: MeanParams, prior: Prior) -> Array:
    """The means of the prior, or else those of the initial parameters, (K, d)."""
    means = prior.given("means", params.means.shape)
    if means is not None and not (means > 0).all():
        raise InvalidInputError(f"means of the prior are {means[0]!r}: they must be above 0")
    return params.means if means is None else means


class PoissonRates(GammaRates[MeanParams]):
    """Posteriors of the means of counts."""

    compiled = "poisson"

    def prior(self, params: MeanParams, prior: Prior) -> GammaPosterior:
        means = np.maximum(prior_means(params, prior), LEAST_COUNT)
        return GammaPosterior(prior.kappa * means, np.full_like(means, prior.kappa))

    def gain(self, t: Array, weight: Array) -> tuple[Array, Array]:
        return weight * t, weight * np.ones_like(t)

    def log_base_measure(self, x: Array) -> Array:
        from scipy.special import gammaln

        return np.asarray(-gammaln(x + 1.0).sum(axis=1))

    def expected(self, posterior: GammaPosterior, weights: Array) -> MeanParams:
        return MeanParams(np.maximum(posterior.shape / posterior.rate, SMALLEST))

    def expected_log_params(
        self, posterior: GammaPosterior, weights: Array
    ) -> tuple[MeanParams, Array]:
        gap, mean = log_gap(posterior.shape), posterior.shape / posterior.rate
        # exp(digamma(shape)) / rate, and what it is above the mean
        means = np.maximum(mean * np.exp(gap), SMALLEST)
        return MeanParams(means), (mean * np.expm1(gap)).sum(axis=1)

    def intervals(
        self, posterior: GammaPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        return {"means": self.rates(posterior, level)}


class ReciprocalRates(GammaRates[ParamsT]):
    """Posteriors of 1 / theta, where t(x) is exponentially distributed with mean theta."""

    @abstractmethod
    def to_params(self, theta: Array) -> ParamsT:
        """Parameters of components with these means of t(x), within the family's limits."""

    def centred(self, theta: Array, prior: Prior) -> GammaPosterior:
        """The prior with this mean of theta."""
        # one more than kappa rows: theta has then a mean itself
        return GammaPosterior(np.full_like(theta, 1.0 + prior.kappa), prior.kappa * theta)

    def gain(self, t: Array, weight: Array) -> tuple[Array, Array]:
        return weight * np.ones_like(t), weight * t

    def expected(self, posterior: GammaPosterior, weights: Array) -> ParamsT:
        return self.to_params(posterior.rate / np.maximum(posterior.shape - 1.0, LEAST_SHAPE))

    def expected_log_params(
        self, posterior: GammaPosterior, weights: Array
    ) -> tuple[ParamsT, Array]:
        params = self.to_params(posterior.rate / posterior.shape)
        return params, log_gap(posterior.shape).sum(axis=1)


class ExponentialRates(ReciprocalRates[MeanParams]):
    """Posteriors of the reciprocals of mean waiting times."""

    compiled = "exponential"

    def prior(self, params: MeanParams, prior: Prior) -> GammaPosterior:
        return self.centred(prior_means(params, prior), prior)

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))

    def to_params(self, theta: Array) -> MeanParams:
        return MeanParams(np.maximum(theta, SMALLEST))

    def intervals(
        self, posterior: GammaPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        low, high = self.rates(posterior, level)
        return {"means": (1.0 / high, 1.0 / low)}
