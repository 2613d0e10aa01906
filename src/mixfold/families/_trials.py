"""Successes in a known number of trials: what the families of them share."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array, check_kind
from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.conjugate import Conjugate, Prior
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import n_components_with
from mixfold.core.independent_columns import IndependentColumns
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.families._beta import (
    LEAST_COUNT,
    BetaPosterior,
    BetaProbabilities,
    digamma_gap,
)
from mixfold.families._probabilities import (
    LEAST,
    LOWEST,
    ProbabilityParams,
    at_least,
    halfway_to_mean,
    weighted_mean,
)


class Trials(MeansAreAttributes, IndependentColumns, ExponentialFamily[ProbabilityParams]):
    """t(x) = x, eta = log(p / (1 - p)), A = n log(1 + exp(eta)), for n trials."""

    @property
    @abstractmethod
    def n_trials(self) -> int:
        """The number n of trials of every column."""

    @property
    def support(self) -> Support:
        return Support(0.0, float(self.n_trials), whole=True)

    def check_params(self, params: ProbabilityParams, k: int, d: int) -> None:
        check_kind("components", params, ProbabilityParams)
        check_array("probabilities", params.probabilities, (k, d), LOWEST, 1.0 - LOWEST)

    def example(self, k: int, d: int, rng: np.random.Generator) -> ProbabilityParams:
        return ProbabilityParams(rng.uniform(0.1, 0.9, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return d

    def sufficient_statistics(self, x: Array) -> Array:
        return x

    def to_natural(self, params: ProbabilityParams) -> Array:
        return np.asarray(np.log(params.probabilities) - np.log1p(-params.probabilities))

    def log_normalizer(self, eta: Array) -> Array:
        return np.asarray(self.n_trials * np.logaddexp(0.0, eta).sum(axis=1))

    def mean(self, params: ProbabilityParams) -> Array:
        return np.asarray(self.n_trials * params.probabilities)

    def maximize(self, blocks: Blocks) -> tuple[ProbabilityParams, int]:
        (block,) = blocks
        found = block.mean / self.n_trials
        p = found.clip(LEAST, 1.0 - LEAST)
        return ProbabilityParams(p), n_components_with(p != found)

    def degenerate(self, params: ProbabilityParams, weights: Array) -> NDArray[np.bool_]:
        """Where a probability is at a limit."""
        return at_least(params.probabilities) | at_least(1.0 - params.probabilities)

    def scipy_log_density(self, params: ProbabilityParams, x: Array) -> Array:
        from scipy.stats import binom

        found = binom.logpmf(x[:, None], self.n_trials, params.probabilities)
        return np.asarray(found.sum(axis=2))

    def sample(
        self, params: ProbabilityParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        return np.asarray(
            rng.binomial(self.n_trials, params.probabilities[labels]), dtype=np.float64
        )

    def attributes(self, params: ProbabilityParams) -> dict[str, Array]:
        """Means, and the probabilities of success."""
        return {"means": self.mean(params), "probabilities": params.probabilities}

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """n KL(p, q) of rows and centres, both moved half of the way to the mean of all rows."""
        mean = weighted_mean(x, weight)
        p, q = (halfway_to_mean(t, mean) / self.n_trials for t in (x, centers))
        return np.stack([self.n_trials * _divergence(p, one).sum(axis=1) for one in q], axis=1)

    # capabilities

    @property
    def conjugate(self) -> Conjugate:
        return TrialProbabilities(self, float(self.n_trials))

    def unconstrained(self, params: ProbabilityParams) -> Array:
        return self.to_natural(params)

    def constrained(self, coordinates: Array, like: ProbabilityParams) -> ProbabilityParams:
        from scipy.special import expit

        return ProbabilityParams(expit(coordinates).clip(LEAST, 1.0 - LEAST))

    def coordinate_scales(self, params: ProbabilityParams) -> Array:
        return np.ones_like(params.probabilities)

    def parameter_bounds(self, params: ProbabilityParams) -> tuple[float, float, float]:
        """Those of the odds."""
        odds = params.probabilities / (1.0 - params.probabilities)
        return float(odds.max()), float(odds.min()), float(odds.max())


class TrialProbabilities(BetaProbabilities[ProbabilityParams]):
    """Posteriors of the probabilities of success in `count` trials."""

    def prior(self, params: ProbabilityParams, prior: Prior) -> BetaPosterior:
        means = self._means(params, prior, self.count)
        rest = np.maximum(self.count - means, LEAST_COUNT)
        return BetaPosterior(prior.kappa * np.maximum(means, LEAST_COUNT), prior.kappa * rest)

    def gain(self, x: Array, weight: Array) -> tuple[Array, Array]:
        return weight * x, weight * (self.count - x)

    def expected(self, posterior: BetaPosterior, weights: Array) -> ProbabilityParams:
        a, b = posterior.successes, posterior.failures
        return ProbabilityParams((a / (a + b)).clip(LEAST, 1.0 - LEAST))

    def expected_log_params(
        self, posterior: BetaPosterior, weights: Array
    ) -> tuple[ProbabilityParams, Array]:
        from scipy.special import expit

        a, b = posterior.successes, posterior.failures
        log_p, log_q = -digamma_gap(b, a), -digamma_gap(a, b)  # their expectations
        p = expit(log_p - log_q).clip(LEAST, 1.0 - LEAST)
        return ProbabilityParams(p), self.count * (log_q - np.log1p(-p)).sum(axis=1)

    def intervals(
        self, posterior: BetaPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        low, high = self.probabilities(posterior, level)
        return {"means": (self.count * low, self.count * high)}


def _divergence(p: Array, q: Array) -> Array:
    """Kullback-Leibler divergence of one trial of probability q from one of probability p."""
    from scipy.special import rel_entr

    return np.asarray(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))
