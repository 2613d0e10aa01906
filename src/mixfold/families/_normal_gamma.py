"""Conjugate beliefs about Gaussians with diagonal covariances: d Gaussians of one column each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.checks import LARGEST_SQUARE, LOWEST, check_array
from mixfold.core.conjugate import REACH, Conjugate, Prior, joined
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.statistics import Statistics
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._normal_wishart import (
    FLOOR,
    NormalBeliefs,
    check_normal,
    degrees,
    log_evidence,
    log_gap,
    matched,
    mean_intervals,
    pooled,
    variance_intervals,
)


class NormalGamma(Conjugate):
    """Beliefs about means and variances of columns: a normal-Wishart of one column each."""

    def check(self, beliefs: NormalBeliefs, k: int, d: int) -> None:
        check_normal(beliefs, (k, d), (k, d))
        check_array("factor", beliefs.factor, (k, d), LOWEST, LARGEST_SQUARE)

    def prior(self, params: GaussianParams, prior: Prior) -> NormalBeliefs:
        k, d = params.means.shape
        nu = degrees(prior, 1)
        means, variance = prior.given("means", (k, d)), prior.given("covariance", (k, d))
        if variance is not None and not (variance > 0).all():
            raise InvalidInputError(
                f"covariance of the prior is {variance[0]!r}: variances above 0 are needed"
            )
        factor = params.factor if variance is None else np.sqrt(variance)
        return NormalBeliefs(
            params.means.copy() if means is None else means,
            np.full((k, d), prior.kappa),
            np.full((k, d), nu),
            factor * np.sqrt(nu - 2.0),
        )

    def log_evidence(self, beliefs: NormalBeliefs, x: Array, weight: Array) -> Array:
        q = np.square((x[:, None] - beliefs.mean) / beliefs.factor)
        columns = log_evidence(1, beliefs, np.log(beliefs.factor), q, weight[:, None, None])
        return np.asarray(columns.sum(axis=2))

    def match(
        self, beliefs: NormalBeliefs, x: Array, weight: float, c: Array
    ) -> tuple[NormalBeliefs, int]:
        near, e = (c >= REACH)[:, None], x - beliefs.mean
        q = np.square(e / beliefs.factor)
        to = matched(1, beliefs.kappa, beliefs.nu, q, c[:, None], weight)
        factor = np.sqrt(to.scale * (np.square(beliefs.factor) + to.spread * np.square(e)))
        after = NormalBeliefs(
            np.where(near, beliefs.mean + to.shift * e, beliefs.mean),
            np.where(near, to.kappa, beliefs.kappa),
            np.where(near, to.nu, beliefs.nu),
            np.where(near, factor, beliefs.factor),
        )
        return after, int((near & to.floored).any(axis=1).sum())

    def absorb(self, beliefs: NormalBeliefs, statistics: Statistics) -> NormalBeliefs:
        n = statistics.weight[:, None]
        kappa, delta = beliefs.kappa + n, statistics.mean - beliefs.mean
        spread = beliefs.kappa * n / kappa * np.square(delta)
        v = np.square(beliefs.factor) + n * statistics.scatter + spread
        return NormalBeliefs(beliefs.mean + n / kappa * delta, kappa, beliefs.nu + n, np.sqrt(v))

    def combine(self, before: NormalBeliefs, parts: Sequence[NormalBeliefs]) -> NormalBeliefs:
        kappa, nu, mean, share = pooled(before, parts)

        def natural(beliefs: NormalBeliefs) -> Array:
            return np.square(beliefs.factor) + beliefs.kappa * np.square(beliefs.mean - mean)

        v = joined(natural(before), [natural(p) for p in parts], share)
        return NormalBeliefs(mean, kappa, nu, np.sqrt(np.maximum(v, FLOOR * np.abs(v).max(axis=0))))

    def expected(self, beliefs: NormalBeliefs) -> GaussianParams:
        return GaussianParams(beliefs.mean, beliefs.factor / np.sqrt(beliefs.nu - 2.0))

    def surrogate(self, beliefs: NormalBeliefs) -> tuple[GaussianParams, Array]:
        params = GaussianParams(beliefs.mean, beliefs.factor / np.sqrt(beliefs.nu))
        return params, log_gap(1, beliefs.nu, beliefs.kappa).sum(axis=1)

    def intervals(self, beliefs: NormalBeliefs, level: float) -> dict[str, tuple[Array, Array]]:
        v = np.square(beliefs.factor)
        return {
            "means": mean_intervals(beliefs.mean, v, beliefs.kappa, beliefs.nu, level),
            "covariances": variance_intervals(v, beliefs.nu, level),
        }
