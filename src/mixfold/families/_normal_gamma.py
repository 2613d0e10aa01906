"""Conjugate posteriors of Gaussians with diagonal covariances: d Gaussians of one column each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.checks import LARGEST_SQUARE, LOWEST, check_array
from mixfold.core.conjugate import REACH, Prior, joined
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import n_components_with
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families._normal_wishart import (
    FLOOR,
    NormalConjugate,
    NormalWishartPosterior,
    check_normal,
    degrees,
    log_evidence,
    log_gap,
    matched,
    mean_intervals,
    pooled,
    variance_intervals,
)


class NormalGamma(NormalConjugate):
    """Posteriors of means and variances of columns: a normal-Wishart of one column each."""

    def check(self, posterior: NormalWishartPosterior, k: int, d: int) -> None:
        check_normal(posterior, (k, d), (k, d))
        check_array("scale", posterior.scale, (k, d), LOWEST, LARGEST_SQUARE)

    def prior(self, params: GaussianParams, prior: Prior) -> NormalWishartPosterior:
        k, d = params.means.shape
        nu = degrees(prior, 1)
        means, variance = prior.given("means", (k, d)), prior.given("covariance", (k, d))
        if variance is not None and not (variance > 0).all():
            raise InvalidInputError(
                f"covariance of the prior is {variance[0]!r}: variances above 0 are needed"
            )
        scale = params.scale if variance is None else np.sqrt(variance)
        return NormalWishartPosterior(
            params.means.copy() if means is None else means,
            np.full((k, d), prior.kappa),
            np.full((k, d), nu),
            scale * np.sqrt(nu - 2.0),
        )

    def log_evidence(self, posterior: NormalWishartPosterior, x: Array, weight: Array) -> Array:
        q = np.square((x[:, None] - posterior.mean) / posterior.scale)
        columns = log_evidence(1, posterior, np.log(posterior.scale), q, weight[:, None, None])
        return np.asarray(columns.sum(axis=2))

    def match(
        self, posterior: NormalWishartPosterior, x: Array, weight: float, c: Array
    ) -> tuple[NormalWishartPosterior, int]:
        near, e = (c >= REACH)[:, None], x - posterior.mean
        q = np.square(e / posterior.scale)
        to = matched(1, posterior.kappa, posterior.nu, q, c[:, None], weight)
        scale = np.sqrt(to.scale * (np.square(posterior.scale) + to.spread * np.square(e)))
        after = NormalWishartPosterior(
            np.where(near, posterior.mean + to.shift * e, posterior.mean),
            np.where(near, to.kappa, posterior.kappa),
            np.where(near, to.nu, posterior.nu),
            np.where(near, scale, posterior.scale),
        )
        return after, n_components_with(near & to.floored)

    def absorb(self, posterior: NormalWishartPosterior, blocks: Blocks) -> NormalWishartPosterior:
        (block,) = blocks
        n = block.weight[:, None]
        kappa, delta = posterior.kappa + n, block.mean - posterior.mean
        spread = posterior.kappa * n / kappa * np.square(delta)
        v = np.square(posterior.scale) + n * block.scatter + spread
        return NormalWishartPosterior(
            posterior.mean + n / kappa * delta, kappa, posterior.nu + n, np.sqrt(v)
        )

    def combine(
        self, before: NormalWishartPosterior, parts: Sequence[NormalWishartPosterior]
    ) -> NormalWishartPosterior:
        kappa, nu, mean, share = pooled(before, parts)

        def natural(posterior: NormalWishartPosterior) -> Array:
            return np.square(posterior.scale) + posterior.kappa * np.square(posterior.mean - mean)

        v = joined(natural(before), [natural(p) for p in parts], share)
        return NormalWishartPosterior(
            mean, kappa, nu, np.sqrt(np.maximum(v, FLOOR * np.abs(v).max(axis=0)))
        )

    def expected(self, posterior: NormalWishartPosterior, weights: Array) -> GaussianParams:
        return self._params(posterior, posterior.nu - 2.0, weights)

    def _params(
        self, posterior: NormalWishartPosterior, degrees: Array, weights: Array
    ) -> GaussianParams:
        """Parameters with the variances V / degrees, `reg_covar` added, and not below floors."""
        scale = posterior.scale / np.sqrt(degrees)
        if self.limits.reg_covar:
            scale = np.sqrt(np.square(scale) + self.limits.reg_covar)
        floor = self._floors(posterior.mean, np.square(scale), weights)
        return GaussianParams(posterior.mean, np.maximum(scale, np.sqrt(floor)))

    def expected_log_params(
        self, posterior: NormalWishartPosterior, weights: Array
    ) -> tuple[GaussianParams, Array]:
        params = self._params(posterior, posterior.nu, weights)
        return params, log_gap(1, posterior.nu, posterior.kappa).sum(axis=1)

    def intervals(
        self, posterior: NormalWishartPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        v, variances = (
            np.square(posterior.scale),
            np.square(self.expected(posterior, weights).scale),
        )
        floor = self._floors(posterior.mean, variances, weights)
        low, high = self._within_limits(variance_intervals(v, posterior.nu, level), floor)
        return {
            "means": mean_intervals(posterior.mean, v, posterior.kappa, posterior.nu, level),
            "covariances": (low, high),
        }
