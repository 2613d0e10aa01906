"""Beliefs about a mixture: Dirichlet over its weights, conjugate over its components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.capabilities import conjugate_of
from mixfold.core.checks import LOWEST, check_array, check_kind
from mixfold.core.conjugate import Conjugate, Prior, held, joined
from mixfold.core.limits import SMALLEST
from mixfold.core.params import Params
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.core.value import value
from mixfold.models.mixture_model import SMALLEST_WEIGHT, MixtureModel, MixtureParams


@value
class MixturePosterior:
    """Weights are Dir(alpha), alpha (K,); `components` are the family's conjugate beliefs."""

    alpha: Array
    components: Params


@value
class BayesianMixture:
    """What can be done with beliefs about the parameters of a mixture."""

    model: MixtureModel

    @property
    def conjugate(self) -> Conjugate:
        """The conjugate prior of the family."""
        found = conjugate_of(self.model.family)
        assert found is not None, "learners say which families they serve"
        return found

    def check(self, beliefs: MixturePosterior) -> None:
        """Refuse beliefs outside their domain, or about another number of components or columns."""
        check_kind("posterior", beliefs, MixturePosterior)
        check_array("alpha", beliefs.alpha, (self.model.k,), LOWEST)
        self.conjugate.check(beliefs.components, self.model.k, self.model.d)

    def prior(self, params: MixtureParams, prior: Prior) -> MixturePosterior:
        """Beliefs before any row, around the parameters of a start."""
        components = self.conjugate.prior(params.components, prior)
        return MixturePosterior(np.full(self.model.k, prior.alpha), components)

    def log_evidence(self, beliefs: MixturePosterior, x: Array, weight: Array) -> Array:
        """log of the chance that a row is component k's, and there, (n, K)."""
        from scipy.special import gammaln

        alpha, w = beliefs.alpha, weight[:, None]
        share = gammaln(alpha + w) - gammaln(alpha)
        total = gammaln(alpha.sum() + w) - gammaln(alpha.sum())
        inside = self.conjugate.log_evidence(beliefs.components, x, weight)
        return np.asarray(share - total + inside)

    def predictive(self, beliefs: MixturePosterior, x: Array) -> Array:
        """log p(x | rows learned), (n,)."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.log_evidence(beliefs, x, np.ones(len(x))), axis=1))

    def match(
        self, beliefs: MixturePosterior, x: Array, weight: float
    ) -> tuple[MixturePosterior, float, int]:
        """Beliefs with the moments of the exact posterior after a row, its log density; repairs."""
        log_joint = self.log_evidence(beliefs, x[None], np.array([weight]))[0]
        peak = log_joint.max()
        share = np.exp(log_joint - peak)
        total = share.sum()
        c = share / total
        components, repairs = self.conjugate.match(beliefs.components, x, weight, c)
        alpha = matched_weights(beliefs.alpha, weight, c)
        return MixturePosterior(alpha, components), float(peak + np.log(total)), repairs

    def absorb(self, beliefs: MixturePosterior, statistics: Statistics) -> MixturePosterior:
        """Beliefs after rows that are known to belong where the statistics say."""
        components = self.conjugate.absorb(beliefs.components, statistics.blocks)
        return MixturePosterior(beliefs.alpha + statistics.weight, components)

    def combine(
        self, before: MixturePosterior, parts: Sequence[MixturePosterior]
    ) -> MixturePosterior:
        """Beliefs after all rows, from those after some of them each, all learned from `before`."""
        alphas = [part.alpha for part in parts]
        alpha = joined(before.alpha, alphas, held(before.alpha, alphas))
        components = self.conjugate.combine(before.components, [p.components for p in parts])
        return MixturePosterior(alpha, components)

    def expected(self, beliefs: MixturePosterior) -> MixtureParams:
        """Parameters on average."""
        weights = beliefs.alpha / beliefs.alpha.sum()
        return MixtureParams(weights, self.conjugate.expected(beliefs.components))

    def surrogate(self, beliefs: MixturePosterior) -> MixtureParams:
        """Parameters whose log joint density is E[log p(x, k)]; weights sum to less than 1."""
        from scipy.special import digamma

        components, gap = self.conjugate.surrogate(beliefs.components)
        log_weight = digamma(beliefs.alpha) - digamma(beliefs.alpha.sum()) + gap
        return MixtureParams(np.maximum(np.exp(log_weight), SMALLEST_WEIGHT), components)

    def intervals(self, beliefs: MixturePosterior, level: float) -> dict[str, tuple[Array, Array]]:
        """Equal-tailed credible intervals by name of the parameter."""
        from scipy.special import betaincinv

        alpha, rest = beliefs.alpha, beliefs.alpha.sum() - beliefs.alpha
        if self.model.k == 1:
            weights = np.ones(1), np.ones(1)
        else:
            tails = 0.5 - 0.5 * level, 0.5 + 0.5 * level
            weights = betaincinv(alpha, rest, tails[0]), betaincinv(alpha, rest, tails[1])
        return {"weights": weights, **self.conjugate.intervals(beliefs.components, level)}


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
    # within - among, which cancel where the row is heavy
    gap = rest * (rest * (alpha / before * other).sum() + 2.0 * share * (c * other).sum())
    return np.asarray(np.maximum(mean * (total * gap / (within + among * total)), SMALLEST))
