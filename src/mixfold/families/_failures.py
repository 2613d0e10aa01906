"""Numbers of failures before a given number of successes: what the families of them share."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from mixfold.core.conjugate import Conjugate, Prior
from mixfold.core.limits import SMALLEST
from mixfold.core.rows import Array
from mixfold.core.support import Support
from mixfold.families._beta import (
    LEAST_COUNT,
    BetaPosterior,
    BetaProbabilities,
    digamma_gap,
)
from mixfold.families._divergences import typical_size
from mixfold.families._positive import Positive
from mixfold.families.mean_params import MeanParams

LEAST_MORE = 0.1  # smallest count of successes above one, so that the mean exists
LARGEST_RATE = 1e15  # above it a Poisson count is its rate, within a relative 1e-7


def log1mexp(x: Array) -> Array:
    """log(1 - exp(x)) for x < 0, without cancellation at either end."""
    border = -np.log(2.0)
    near, far = np.maximum(x, border), np.minimum(x, border)
    return np.asarray(np.where(x > border, np.log(-np.expm1(near)), np.log1p(-np.exp(far))))


def poisson_counts(rates: Array, rng: np.random.Generator) -> Array:
    """Poisson counts, or rounded rates where these are too large to be drawn."""
    counts = rng.poisson(np.minimum(rates, LARGEST_RATE)).astype(np.float64)
    return np.asarray(np.where(rates > LARGEST_RATE, np.rint(rates), counts))


def failures_divergence(x: Array, centers: Array, weight: Array, r: Array | float) -> Array:
    """x log(x/c) - (x + r) log((x + r)/(c + r)), summed over columns, (n, c)."""
    from scipy.special import xlog1py

    c = np.maximum(centers, 0.5 * typical_size(x, weight))
    own = xlog1py(x, r / np.maximum(x, 1.0))
    found = [x * np.log1p(r / one) - own - r * np.log((x + r) / (one + r)) for one in c]
    return np.stack([np.maximum(one, 0.0).sum(axis=1) for one in found], axis=1)


class Failures(Positive):
    """t(x) = x, eta = log(mean / (mean + r)), A = -r log(1 - exp(eta)), for r successes."""

    support = Support(low=0.0, whole=True)

    @property
    @abstractmethod
    def successes(self) -> float:
        """The number r of successes after which failures are no longer counted."""

    def to_natural(self, params: MeanParams) -> Array:
        return -np.log1p(self.successes / params.means)

    def log_normalizer(self, eta: Array) -> Array:
        return np.asarray(-self.successes * log1mexp(eta).sum(axis=1))

    def scipy_log_density(self, params: MeanParams, x: Array) -> Array:
        from scipy.stats import nbinom

        r = self.successes
        return np.asarray(nbinom.logpmf(x[:, None], r, r / (r + params.means)).sum(axis=2))

    def sample(self, params: MeanParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        """Poisson counts whose rates have a gamma distribution."""
        r = self.successes
        return poisson_counts(rng.gamma(r, params.means[labels] / r), rng)

    def attributes(self, params: MeanParams) -> dict[str, Array]:
        """Means, and the probabilities of success."""
        r = self.successes
        return {"means": params.means, "probabilities": r / (r + params.means)}

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """x log(x/c) - (x + r) log((x + r)/(c + r)), summed over columns.

        A centre at zero is moved off it.
        """
        return failures_divergence(x, centers, weight, self.successes)

    @property
    def conjugate(self) -> Conjugate:
        return FailureProbabilities(self, self.successes)

    def parameter_bounds(self, params: MeanParams) -> tuple[float, float, float]:
        return float(params.means.max()), float(params.means.min()), float(params.means.max())


class FailureProbabilities(BetaProbabilities[MeanParams]):
    """Posteriors of the probabilities of success, of which each row has `count`."""

    def prior(self, params: MeanParams, prior: Prior) -> BetaPosterior:
        means = self._means(params, prior, np.inf)
        # one success more than in kappa rows: the mean number of failures has then a mean itself
        return BetaPosterior(
            np.full_like(means, 1.0 + prior.kappa * self.count),
            prior.kappa * np.maximum(means, LEAST_COUNT),
        )

    def gain(self, x: Array, weight: Array) -> tuple[Array, Array]:
        return weight * np.full_like(x, self.count), weight * x

    def expected(self, posterior: BetaPosterior, weights: Array) -> MeanParams:
        """The mean of r (1 - p) / p."""
        more = np.maximum(posterior.successes - 1.0, LEAST_MORE)
        return MeanParams(np.maximum(self.count * posterior.failures / more, SMALLEST))

    def expected_log_params(
        self, posterior: BetaPosterior, weights: Array
    ) -> tuple[MeanParams, Array]:
        a, b = posterior.successes, posterior.failures
        log_p, eta = -digamma_gap(b, a), -digamma_gap(a, b)  # expectations of log p, log(1 - p)
        means = np.maximum(self.count / np.expm1(-eta), SMALLEST)
        return MeanParams(means), self.count * (log_p - log1mexp(eta)).sum(axis=1)

    def intervals(
        self, posterior: BetaPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        low, high = self.probabilities(posterior, level)
        return {"means": (self.count * (1.0 - high) / high, self.count * (1.0 - low) / low)}
