"""Conjugate posteriors of probabilities of several outcomes: Dirichlet distributions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from mixfold.core.checks import LARGEST_SQUARE, LOWEST, check_array, check_kind
from mixfold.core.conjugate import REACH, Conjugate, Prior, joined, retained_fraction
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value
from mixfold.families._beta import LEAST_COUNT, digamma_gap
from mixfold.families._probabilities import LEAST, ProbabilityParams, normalized


@value
class DirichletPosterior:
    """Probabilities along the last axis are Dirichlet(counts), (K, d) or (K, d, L)."""

    counts: Array


class DirichletProbabilities(Conjugate[ProbabilityParams, DirichletPosterior]):
    """Posteriors of probabilities; the outcomes of a row are added to the counts."""

    def __init__(self, family: ExponentialFamily[ProbabilityParams], trials: int) -> None:
        self.family, self.trials = family, trials

    @abstractmethod
    def shape(self, k: int, d: int) -> tuple[int, ...]:
        """The shape of the counts of K components in d columns."""

    @abstractmethod
    def outcomes(self, t: Array) -> Array:
        """Statistics t(x), (n, p), in the shape of the counts."""

    def prior(self, params: ProbabilityParams, prior: Prior) -> DirichletPosterior:
        """Counts of `kappa` rows; means of a prior have the shape of the probabilities."""
        own = self.trials * params.probabilities
        means = prior.given("means", own.shape)
        if means is not None and not (means > 0.0).all():
            raise InvalidInputError(f"means of the prior are {means[0]!r}: they must be above 0")
        means = own if means is None else means
        least = LEAST_COUNT * means.mean(axis=-1, keepdims=True)
        return DirichletPosterior(prior.kappa * np.maximum(means, least))

    def check(self, posterior: DirichletPosterior, k: int, d: int) -> None:
        check_kind("components", posterior, DirichletPosterior)
        check_array("counts", posterior.counts, self.shape(k, d), LOWEST, LARGEST_SQUARE)

    def log_evidence(self, posterior: DirichletPosterior, x: Array, weight: Array) -> Array:
        counts, found = posterior.counts, self.outcomes(self.family.sufficient_statistics(x))
        more = found * weight.reshape(-1, *[1] * (found.ndim - 1))
        gain = _log_beta(counts + more[:, None]) - _log_beta(counts)
        inside = gain.reshape(len(x), len(counts), -1).sum(axis=2)
        return np.asarray(inside + (weight * self.family.log_base_measure(x))[:, None])

    def match(
        self, posterior: DirichletPosterior, x: Array, weight: float, c: Array
    ) -> tuple[DirichletPosterior, int]:
        """Means, and the sum of the variances of all outcomes, are matched."""
        before = posterior.counts
        after = before + weight * self.outcomes(self.family.sufficient_statistics(x[None]))
        shape = (-1, *[1] * (before.ndim - 1))
        near, c = (c >= REACH).reshape(shape), c.reshape(shape)
        p, spread = _moments(before)
        p_after, spread_after = _moments(after)
        mean = c * p_after + (1.0 - c) * p
        variance = c * spread_after + (1.0 - c) * spread
        variance += c * (1.0 - c) * np.square(p_after - p).sum(axis=-1, keepdims=True)
        # a mixture of two has a variance below that of a single outcome with its mean
        total = np.maximum(_one_outcome(mean) / variance - 1.0, LOWEST)
        return DirichletPosterior(np.where(near, np.maximum(mean * total, LOWEST), before)), 0

    def absorb(self, posterior: DirichletPosterior, blocks: Blocks) -> DirichletPosterior:
        (block,) = blocks
        # rounding may make sums negative
        return DirichletPosterior(posterior.counts + self.outcomes(np.maximum(block.sums(), 0.0)))

    def combine(
        self, before: DirichletPosterior, parts: Sequence[DirichletPosterior]
    ) -> DirichletPosterior:
        counts = [part.counts for part in parts]
        share = retained_fraction(before.counts, counts).min(axis=-1, keepdims=True)
        return DirichletPosterior(joined(before.counts, counts, share))

    def expected(self, posterior: DirichletPosterior, weights: Array) -> ProbabilityParams:
        return ProbabilityParams(normalized(posterior.counts)[0])

    def expected_logs(self, posterior: DirichletPosterior) -> Array:
        """The expectations of the logarithms of the probabilities, within their limit."""
        counts = posterior.counts
        rest = np.maximum(counts.sum(axis=-1, keepdims=True) - counts, 0.0)
        return np.asarray(np.maximum(-digamma_gap(rest, counts), np.log(LEAST)))

    def probabilities(self, posterior: DirichletPosterior, level: float) -> tuple[Array, Array]:
        """Equal-tailed intervals of every probability."""
        from scipy.special import betaincinv

        a = posterior.counts
        rest = np.maximum(a.sum(axis=-1, keepdims=True) - a, LOWEST)
        tail = 0.5 - 0.5 * level
        return betaincinv(a, rest, tail), betaincinv(a, rest, 1.0 - tail)


def _log_beta(counts: Array) -> Array:
    """The logarithm of the multivariate beta function along the last axis."""
    from scipy.special import betaln

    before = counts[..., :-1].cumsum(axis=-1)
    return np.asarray(betaln(before, counts[..., 1:]).sum(axis=-1))


def _one_outcome(p: Array) -> Array:
    """1 - sum of p^2 along the last axis, by the products of all pairs, as terms would cancel."""
    before = p[..., :-1].cumsum(axis=-1)
    return np.asarray(2.0 * (before * p[..., 1:]).sum(axis=-1, keepdims=True))


def _moments(counts: Array) -> tuple[Array, Array]:
    """Means, and the sum of the variances, of Dirichlet distributions along the last axis."""
    total = counts.sum(axis=-1, keepdims=True)
    p = counts / total
    return p, _one_outcome(p) / (total + 1.0)
