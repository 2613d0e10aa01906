"""Logistic regression with random effects."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.special import expit

from mixfold.core.checks import check_array, check_covariance, check_kind, check_whole
from mixfold.core.rows import Array
from mixfold.core.statistics import Totals, outer_full, pack, packed_length, unpack
from mixfold.core.value import value
from mixfold.models._gaussian_effects import (
    GaussianEffects,
    Structure,
    entries,
    from_log_cholesky,
    log_cholesky,
    mended,
)
from mixfold.models._random_effects import Conditional, RandomEffects, table_of

RIDGE = 1e-10  # of the mean curvature: only a direction without any information feels it

START_STEPS = 8


@value
class LogisticMixedParams:
    """Fixed effects beta (p,), here `mean`, and the covariance Omega (q, q) of the random ones."""

    mean: Array
    covariance: Array


@value
class LogisticMixed(RandomEffects):
    """y_ij ~ Bernoulli(expit(A_ij beta + B_ij z_i)), z_i ~ N(0, Omega).

    A table row holds the p columns of A, the q columns of B, and y. The likelihood has no
    finite-dimensional statistics in beta, so an M-step is one Newton step of the expected
    complete log-likelihood (EM gradient): with its gradient g and negative Hessian H at the
    present beta, statistics are H and b = H beta + g, and the step is beta = H^-1 b.

    Examples
    --------
    >>> model = LogisticMixed(n_rows=10, n_fixed=2, n_random=1)
    >>> model.d, model.n_latent
    (41, 6)

    References
    ----------
    Lange (1995), A gradient algorithm locally equivalent to the EM algorithm.
    """

    n_rows: int
    n_fixed: int
    n_random: int
    covariance: Structure = "full"

    def __post_init__(self) -> None:
        check_whole("n_rows", self.n_rows)
        check_whole("n_fixed", self.n_fixed, 0)
        check_whole("n_random", self.n_random)

    def check_params(self, params: LogisticMixedParams) -> None:
        check_kind("params", params, LogisticMixedParams)
        check_array("mean", params.mean, (self.n_fixed,))
        check_covariance("covariance", params.covariance, self.n_random)

    @property
    def n_effects(self) -> int:
        return self.n_random

    @property
    def n_columns(self) -> int:
        return self.n_fixed + self.n_effects + 1

    @property
    def n_latent(self) -> int:
        p, q = self.n_fixed, self.n_effects
        return packed_length("full", p) + p + packed_length("full", q)

    def conditional(self, params: LogisticMixedParams, x: Array) -> LogisticConditional:
        return LogisticConditional(self, params, x)

    def _parts(self, statistics: Totals) -> tuple[Array, Array, Array]:
        """H, b and the sum of z z'."""
        p, q = self.n_fixed, self.n_effects
        h = packed_length("full", p)
        values = statistics.values
        return unpack(values[:h], p), values[h : h + p], unpack(values[h + p :], q)

    def start(self, x: Array) -> LogisticMixedParams:
        """Logistic regression without random effects, and effects of order one."""
        square = np.square(table_of(x, self.n_rows)[0][..., self.n_fixed : -1]).sum(axis=(0, 1))
        omega = np.diag(x[:, 0].sum() / np.maximum(square, np.finfo(np.float64).tiny))
        params = LogisticMixedParams(np.zeros(self.n_fixed), omega)
        nothing = np.zeros((len(x), self.n_effects))
        for _ in range(START_STEPS):
            values = self.conditional(params, x).statistics(nothing).sum(axis=0)
            beta = self.maximize(Totals(values, float(len(x)), 0.0))[0].mean
            params = LogisticMixedParams(beta, omega)
        return params

    def maximize(self, statistics: Totals) -> tuple[LogisticMixedParams, int]:
        h, b, second = self._parts(statistics)
        ridge = RIDGE * (np.trace(h) / len(b)) + np.finfo(np.float64).tiny
        beta = np.linalg.solve(h + ridge * np.eye(len(b)), b)
        omega, repairs = mended(second / statistics.count, self.covariance)
        return LogisticMixedParams(beta, omega), repairs

    def expected(self, params: LogisticMixedParams) -> Totals:
        h = pack(np.eye(self.n_fixed))
        return Totals(np.concatenate([h, params.mean, pack(params.covariance)]), 1.0, 0.0)

    def information(self, params: LogisticMixedParams, statistics: Totals) -> Array:
        h, _, second = self._parts(statistics)
        p, q = self.n_fixed, self.n_effects
        effects = GaussianEffects(np.zeros(q), params.covariance, self.covariance)
        spread = effects.information(np.zeros(q), second, statistics.count)[q:, q:]
        whole = np.zeros((p + len(spread), p + len(spread)))
        whole[:p, :p], whole[p:, p:] = h, spread
        return whole

    def unconstrained(self, params: LogisticMixedParams) -> Array:
        return np.concatenate([params.mean, log_cholesky(params.covariance)])[None]

    def constrained(self, coordinates: Array, like: LogisticMixedParams) -> LogisticMixedParams:
        beta, root = np.split(coordinates[0], [self.n_fixed])
        return LogisticMixedParams(beta, from_log_cholesky(root, self.n_effects))

    def n_parameters(self) -> int:
        """Free parameters."""
        return self.n_fixed + len(entries(self.n_effects, self.covariance)[0])


class LogisticConditional(Conditional):
    """log p(y | z) = sum_j log expit(s_j eta_j) with s = 2 y - 1 and eta = A beta + B z."""

    def __init__(self, model: LogisticMixed, params: LogisticMixedParams, x: Array) -> None:
        p, q = model.n_fixed, model.n_effects
        table, there = table_of(x, model.n_rows)
        self.beta = params.mean
        self.a, self.y = table[..., :p], table[..., -1]
        self.there = there.astype(np.float64)
        self.b = np.ascontiguousarray(np.moveaxis(table[..., p : p + q], -1, 0))
        self.offset = (self.a * params.mean).sum(axis=-1)
        self.sign = 2.0 * self.y - 1.0
        self.effects = GaussianEffects(np.zeros(q), params.covariance, model.covariance)

    @cached_property
    def _squares(self) -> Array:
        return outer_full(self.a)

    def _eta(self, z: Array) -> Array:
        eta = self.offset + self.b[0] * z[..., 0, None]
        for j in range(1, len(self.b)):
            eta += self.b[j] * z[..., j, None]
        return np.asarray(eta)

    def log_likelihood(self, z: Array) -> Array:
        return self._log_likelihood(self._eta(z))

    def _log_likelihood(self, eta: Array) -> Array:
        loss = np.maximum(-self.sign * eta, 0.0) + np.log1p(np.exp(-np.abs(eta)))
        return np.asarray(-(self.there * loss).sum(axis=-1))

    def curvature(self, z: Array) -> tuple[Array, Array, Array]:
        eta = self._eta(z)
        chance = expit(eta)
        gap = self.there * (self.y - chance)
        weight = self.there * chance * (1.0 - chance)
        gradient = np.stack([(b * gap).sum(axis=-1) for b in self.b], axis=-1)
        weighted = self.b * weight
        information = np.array([[(w * b).sum(axis=-1) for b in self.b] for w in weighted])
        return self._log_likelihood(eta), gradient, np.moveaxis(information, -1, 0)

    def _gradient(self, z: Array) -> tuple[Array, Array]:
        """Gradient in beta (n, p), and the weights of its negative Hessian (n, n_rows)."""
        chance = expit(self._eta(z))
        gap = self.there * (self.y - chance)
        return (self.a * gap[..., None]).sum(axis=1), self.there * chance * (1.0 - chance)

    def statistics(self, z: Array) -> Array:
        gradient, weight = self._gradient(z)
        h = (self._squares * weight[..., None]).sum(axis=1)
        hb = (unpack(h, len(self.beta)) * self.beta).sum(axis=-1)
        return np.hstack([h, hb + gradient, outer_full(z)])

    def scores(self, z: Array) -> Array:
        return np.hstack([self._gradient(z)[0], self.effects.scores(z)[:, z.shape[-1] :]])
