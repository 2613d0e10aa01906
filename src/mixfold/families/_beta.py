"""Conjugate posteriors of probabilities of success: beta distributions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from mixfold.core.checks import LARGEST_SQUARE, LOWEST, check_array, check_kind
from mixfold.core.conjugate import REACH, Conjugate, Prior, joined, retained_fraction
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value
from mixfold.families._gamma_rates import log_gap

LEAST_COUNT = 0.01  # smallest count of a prior; with none it could not learn from rows at a limit


@value
class BetaPosterior:
    """The probability of success of every column is Beta(successes, failures), both (K, d)."""

    successes: Array
    failures: Array


def digamma_gap(more: Array, count: Array) -> Array:
    """digamma(count + more) - digamma(count), whose terms would cancel where counts are large."""
    return np.asarray(np.log1p(more / count) + log_gap(count + more) - log_gap(count))


class BetaProbabilities(Conjugate[ParamsT, BetaPosterior]):
    """Posteriors of probabilities; a row is added to the counts of successes and failures."""

    def __init__(self, family: ExponentialFamily[ParamsT], count: float) -> None:
        self.family, self.count = family, count

    @abstractmethod
    def gain(self, x: Array, weight: Array) -> tuple[Array, Array]:
        """What rows of some weight add to the successes and failures."""

    def check(self, posterior: BetaPosterior, k: int, d: int) -> None:
        check_kind("components", posterior, BetaPosterior)
        check_array("successes", posterior.successes, (k, d), LOWEST, LARGEST_SQUARE)
        check_array("failures", posterior.failures, (k, d), LOWEST, LARGEST_SQUARE)

    def _means(self, params: ParamsT, prior: Prior, high: float) -> Array:
        """The means of the prior, or of the parameters."""
        own = self.family.mean(params)
        means = prior.given("means", own.shape)
        if means is not None and not ((means > 0.0) & (means < high)).all():
            limit = "" if high == np.inf else f" and below {high:g}"
            raise InvalidInputError(
                f"means of the prior are {means[0]!r}: they must be above 0{limit}"
            )
        return own if means is None else means

    def log_evidence(self, posterior: BetaPosterior, x: Array, weight: Array) -> Array:
        from scipy.special import betaln

        a, b = posterior.successes, posterior.failures
        more, less = self.gain(x[:, None], weight[:, None, None])
        found = (betaln(a + more, b + less) - betaln(a, b)).sum(axis=2)
        return np.asarray(found + (weight * self.family.log_base_measure(x))[:, None])

    def match(
        self, posterior: BetaPosterior, x: Array, weight: float, c: Array
    ) -> tuple[BetaPosterior, int]:
        a, b = posterior.successes, posterior.failures
        more, less = self.gain(x, np.asarray(weight))
        near, c = (c >= REACH)[:, None], c[:, None]
        p, q, spread = _moments(a, b)
        p_after, q_after, spread_after = _moments(a + more, b + less)
        mean, rest = c * p_after + (1.0 - c) * p, c * q_after + (1.0 - c) * q
        variance = c * spread_after + (1.0 - c) * spread
        variance += c * (1.0 - c) * np.square(p_after - p)
        # a mixture of two has a variance below that of a Bernoulli variable with its mean
        total = np.maximum(mean * rest / variance - 1.0, LOWEST)
        return BetaPosterior(
            np.where(near, np.maximum(mean * total, LOWEST), a),
            np.where(near, np.maximum(rest * total, LOWEST), b),
        ), 0

    def absorb(self, posterior: BetaPosterior, blocks: Blocks) -> BetaPosterior:
        (block,) = blocks
        more, less = self.gain(block.mean, block.weight[:, None])
        # rounding may make means negative, or larger than the number of trials
        return BetaPosterior(
            posterior.successes + np.maximum(more, 0.0), posterior.failures + np.maximum(less, 0.0)
        )

    def combine(self, before: BetaPosterior, parts: Sequence[BetaPosterior]) -> BetaPosterior:
        successes, failures = [p.successes for p in parts], [p.failures for p in parts]
        share = np.minimum(
            retained_fraction(before.successes, successes),
            retained_fraction(before.failures, failures),
        )
        return BetaPosterior(
            joined(before.successes, successes, share), joined(before.failures, failures, share)
        )

    def probabilities(self, posterior: BetaPosterior, level: float) -> tuple[Array, Array]:
        """Equal-tailed intervals of the probabilities of success."""
        from scipy.special import betaincinv

        tail = 0.5 - 0.5 * level
        a, b = posterior.successes, posterior.failures
        return betaincinv(a, b, tail), betaincinv(a, b, 1.0 - tail)


def _moments(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """The means of p and of 1 - p, and the variance, where p is Beta(a, b)."""
    total = a + b
    p, q = a / total, b / total
    return p, q, p * q / (total + 1.0)
