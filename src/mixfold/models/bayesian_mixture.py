"""The posterior of a mixture: Dirichlet for its weights, conjugate for its components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

import numpy as np

from mixfold.core.capabilities import conjugate_of
from mixfold.core.checks import LOWEST, check_array, check_kind
from mixfold.core.conjugate import Conjugate, Prior, joined, retained_fraction
from mixfold.core.limits import SMALLEST
from mixfold.core.params import ParamsT
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.core.value import value
from mixfold.models.mixture_model import SMALLEST_WEIGHT, MixtureModel, MixtureParams


@value
class MixturePosterior(Generic[ParamsT]):
    """Weights are Dir(alpha), alpha (K,); `components` are the family's conjugate posteriors."""

    alpha: Array
    components: ParamsT


@value
class BayesianMixture:
    """Operations on the posterior of the parameters of a mixture."""

    model: MixtureModel

    @property
    def conjugate(self) -> Conjugate:
        """The conjugate prior of the family."""
        found = conjugate_of(self.model.family)
        assert found is not None, "learners say which families they serve"
        return found

    def check(self, posterior: MixturePosterior) -> None:
        """Refuse a posterior outside its domain, or of other numbers of components or columns."""
        check_kind("posterior", posterior, MixturePosterior)
        check_array("alpha", posterior.alpha, (self.model.k,), LOWEST)
        self.conjugate.check(posterior.components, self.model.k, self.model.d)

    def prior(self, params: MixtureParams, prior: Prior) -> MixturePosterior:
        """The prior; what it leaves open is centred at the initial parameters."""
        components = self.conjugate.prior(params.components, prior)
        return MixturePosterior(np.full(self.model.k, prior.alpha), components)

    def common_prior(self, params: MixtureParams, prior: Prior) -> MixturePosterior:
        """The same prior for all components, centred at one component for all rows."""
        statistics = self.model.expected(params)
        whole = tuple(block.united() for block in statistics.blocks)
        one = self.model.maximize(Statistics.of(whole, statistics.weight))[0]
        return self.prior(one, prior)

    def log_evidence(self, posterior: MixturePosterior, x: Array, weight: Array) -> Array:
        """log of the probability that a row belongs to component k, times its density, (n, K)."""
        from scipy.special import gammaln

        alpha, w = posterior.alpha, weight[:, None]
        share = gammaln(alpha + w) - gammaln(alpha)
        total = gammaln(alpha.sum() + w) - gammaln(alpha.sum())
        inside = self.conjugate.log_evidence(posterior.components, x, weight)
        return np.asarray(share - total + inside)

    def predictive(self, posterior: MixturePosterior, x: Array) -> Array:
        """log p(x | rows learned), (n,)."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.log_evidence(posterior, x, np.ones(len(x))), axis=1))

    def match(
        self, posterior: MixturePosterior, x: Array, weight: float
    ) -> tuple[MixturePosterior, float, int]:
        """The posterior with the moments of the exact one after a row, and its log density."""
        log_joint = self.log_evidence(posterior, x[None], np.array([weight]))[0]
        peak = log_joint.max()
        share = np.exp(log_joint - peak)
        total = share.sum()
        c = share / total
        components, n_degenerate = self.conjugate.match(posterior.components, x, weight, c)
        alpha = matched_weights(posterior.alpha, weight, c)
        return MixturePosterior(alpha, components), float(peak + np.log(total)), n_degenerate

    def absorb(self, posterior: MixturePosterior, statistics: Statistics) -> MixturePosterior:
        """The posterior after rows with these statistics."""
        components = self.conjugate.absorb(posterior.components, statistics.blocks)
        return MixturePosterior(posterior.alpha + statistics.weight, components)

    def combine(
        self, before: MixturePosterior, parts: Sequence[MixturePosterior]
    ) -> MixturePosterior:
        """Combine posteriors that were learned from different rows, starting from `before`."""
        alphas = [part.alpha for part in parts]
        alpha = joined(before.alpha, alphas, retained_fraction(before.alpha, alphas))
        components = self.conjugate.combine(before.components, [p.components for p in parts])
        return MixturePosterior(alpha, components)

    def expected(self, posterior: MixturePosterior) -> MixtureParams:
        """The posterior means of the parameters."""
        weights = mean_weights(posterior)
        return MixtureParams(weights, self.conjugate.expected(posterior.components, weights))

    def expected_log_params(self, posterior: MixturePosterior) -> MixtureParams:
        """Parameters whose log joint density is E[log p(x, k)]; weights sum to less than 1."""
        from scipy.special import digamma

        components, gap = self.conjugate.expected_log_params(
            posterior.components, mean_weights(posterior)
        )
        log_weight = digamma(posterior.alpha) - digamma(posterior.alpha.sum()) + gap
        return MixtureParams(np.maximum(np.exp(log_weight), SMALLEST_WEIGHT), components)

    def row_counts(self, posterior: MixturePosterior) -> dict[str, float]:
        """For how many rows the posterior counts, by the names of its intervals."""
        total = float(posterior.alpha.sum())
        return {"weights": total, **self.conjugate.row_counts(posterior.components)}

    def intervals(
        self, posterior: MixturePosterior, level: float
    ) -> dict[str, tuple[Array, Array]]:
        """Equal-tailed credible intervals by name of the parameter."""
        from scipy.special import betaincinv

        alpha, rest = posterior.alpha, posterior.alpha.sum() - posterior.alpha
        if self.model.k == 1:
            weights = np.ones(1), np.ones(1)
        else:
            tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
            weights = betaincinv(alpha, rest, tails[0]), betaincinv(alpha, rest, tails[1])
        components = self.conjugate.intervals(posterior.components, mean_weights(posterior), level)
        return {"weights": weights, **components}


def mean_weights(posterior: MixturePosterior) -> Array:
    """The posterior means of the weights, (K,)."""
    return np.asarray(posterior.alpha / posterior.alpha.sum())


def matched_weights(alpha: Array, weight: float, c: Array) -> Array:
    """The Dirichlet with the mean and the total variance of sum_k c_k Dir(alpha + weight e_k)."""
    before = alpha.sum()
    total = before + weight
    rest, share, other = before / total, weight / total, 1.0 - alpha / before
    mean = (alpha + weight * c) / total
    within = (mean * (1.0 - mean)).sum()
    among = np.square(share) * (c * (1.0 - c)).sum()
    if not within > 0.0:  # a single component
        return alpha + weight * c
    # within - among, computed without cancellation for large weights of the row
    gap = rest * (rest * (alpha / before * other).sum() + 2.0 * share * (c * other).sum())
    return np.asarray(np.maximum(mean * (total * gap / (within + among * total)), SMALLEST))
