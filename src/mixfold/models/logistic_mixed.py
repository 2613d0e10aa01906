"""Logistic regression with random effects."""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.special import expit

from mixfold.core.checks import check_above, check_array, check_covariance, check_kind, check_whole
from mixfold.core.rows import Array
from mixfold.core.statistics import (
    Totals,
    lower_triangle,
    outer_full,
    pack,
    packed_length,
    unpack,
)
from mixfold.core.value import value
from mixfold.models.gaussian_effects import (
    GaussianEffects,
    Structure,
    entries,
    from_log_cholesky,
    log_cholesky,
    raise_to_floor,
)
from mixfold.models.random_effects import Conditional, RandomEffects, table_of

# relative to each parameter's curvature; it matters only in directions without information
RIDGE = 1e-10
LARGEST_CHANGE = 0.5  # largest relative change of the scale of random effects in one step
START_STEPS, START_HALVINGS = 8, 10
MOST_QUADRATURE_EFFECTS = 2
FEWEST_POINTS, MOST_POINTS = 3, 64  # with a single point the variance would be zero


def check_points(name: str, number: Any) -> None:
    """Refuse numbers of quadrature points that are not whole, or not between 3 and 64."""
    check_whole(name, number, FEWEST_POINTS)
    check_above(name, number, 0, MOST_POINTS)


@value
class LogisticMixedParams:
    """Fixed effects beta (p,), here `mean`, and the covariance Omega (q, q) of the random ones."""

    mean: Array
    covariance: Array


@value
class LogisticMixed(RandomEffects):
    """y_ij ~ Bernoulli(expit(A_ij beta + B_ij z_i)), z_i ~ N(0, Omega).

    A table row holds the p columns of A, the q columns of B, and y. The model is learned with
    expanded parameters, eta = A beta + B Lambda z, where Lambda is the identity before each M-step
    (PX-EM), and diagonal if Omega is. The likelihood has no finite-dimensional statistics in
    theta = (beta, Lambda), so an M-step is one Newton step of the expected complete
    log-likelihood (EM gradient): with its gradient g and negative Hessian H at the present theta,
    statistics are H, b = H theta + g and the sum of z z'. The step is theta = H^-1 b, and then
    Omega = Lambda E[z z'] Lambda'.

    Up to two random effects are integrated by adaptive Gauss-Hermite quadrature with `n_points`
    points each; more can only be drawn.

    Examples
    --------
    >>> model = LogisticMixed(n_rows=10, n_fixed=2, n_random=1)
    >>> model.d, model.n_expectations
    (41, 10)

    References
    ----------
    Lange (1995), A gradient algorithm locally equivalent to the EM algorithm; Liu, Rubin and Wu
    (1998), Parameter expansion to accelerate EM: the PX-EM algorithm.
    """

    n_rows: int
    n_fixed: int
    n_random: int
    covariance: Structure = "full"
    n_points: int = 15

    def __post_init__(self) -> None:
        check_whole("n_rows", self.n_rows)
        check_whole("n_fixed", self.n_fixed, 0)
        check_whole("n_random", self.n_random)
        check_points("n_points", self.n_points)

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
    def n_expectations(self) -> int:
        size = len(self._unexpanded)
        return packed_length("full", size) + size + packed_length("full", self.n_effects)

    @property
    def has_quadrature(self) -> bool:
        """Whether the random effects are few enough to be integrated by quadrature."""
        return self.n_effects <= MOST_QUADRATURE_EFFECTS

    @property
    def expansion(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column numbers of the free entries of Lambda."""
        q = self.n_effects
        if self.covariance == "diag":
            return np.arange(q), np.arange(q)
        return np.repeat(np.arange(q), q), np.tile(np.arange(q), q)

    @property
    def _unexpanded(self) -> Array:
        """theta with beta = 0 and Lambda = 1."""
        i, j = self.expansion
        return np.concatenate([np.zeros(self.n_fixed), i == j])

    def conditional(self, params: LogisticMixedParams, x: Array) -> LogisticConditional:
        return LogisticConditional(self, params, x)

    def _parts(self, statistics: Totals) -> tuple[Array, Array, Array]:
        """H, b and the sum of z z'."""
        size, q = len(self._unexpanded), self.n_effects
        h = packed_length("full", size)
        values = statistics.values
        return unpack(values[:h], size), values[h : h + size], unpack(values[h + size :], q)

    def initial_params(self, x: Array) -> LogisticMixedParams:
        """Logistic regression without random effects, and B z_i with variance one."""
        square = np.square(table_of(x, self.n_rows)[0][..., self.n_fixed : -1]).sum(axis=(0, 1))
        omega = np.diag(x[:, 0].sum() / np.maximum(square, np.finfo(np.float64).tiny))
        beta, nothing = np.zeros(self.n_fixed), np.zeros((len(x), self.n_effects))

        def regression(beta: Array) -> tuple[LogisticConditional, float]:
            target = self.conditional(LogisticMixedParams(beta, omega), x)
            return target, float(target.log_likelihood(nothing).sum())

        target, value = regression(beta)
        for _ in range(START_STEPS):
            statistics = Totals(target.statistics(nothing).sum(axis=0), float(len(x)), 0.0)
            step = self.maximize(statistics)[0].mean - beta
            for halvings in range(START_HALVINGS):
                target, reached = regression(beta + 0.5**halvings * step)
                if reached >= value:
                    break
            else:
                break
            beta, value = target.beta, reached
        return LogisticMixedParams(beta, omega)

    def maximize(self, statistics: Totals) -> tuple[LogisticMixedParams, int]:
        h, b, second = self._parts(statistics)
        p, theta = self.n_fixed, self._unexpanded
        step = _ridge_solve(h, b - h @ theta)
        expansion = np.zeros((self.n_effects, self.n_effects))
        expansion[self.expansion] = step[p:]
        size = float(np.linalg.norm(expansion, 2))
        if size > LARGEST_CHANGE:  # limit the change of a scale with little information
            step[p:] *= LARGEST_CHANGE / size
            expansion *= LARGEST_CHANGE / size
            step[:p] = _ridge_solve(h[:p, :p], b[:p] - h[:p, p:] @ (theta + step)[p:])
        expansion += np.eye(self.n_effects)
        second = expansion @ (second / statistics.count) @ expansion.T
        omega, n_degenerate = raise_to_floor(0.5 * (second + second.T), self.covariance)
        return LogisticMixedParams(step[:p], omega), n_degenerate

    def halfway(self, start: LogisticMixedParams, end: LogisticMixedParams) -> LogisticMixedParams:
        """Parameters between two points, for a Newton step that went too far."""
        return cast(LogisticMixedParams, self.blend(start, end, 0.5))

    def expected(self, params: LogisticMixedParams) -> Totals:
        theta = self._unexpanded
        theta[: self.n_fixed] = params.mean
        h = pack(np.eye(len(theta)))
        return Totals(np.concatenate([h, theta, pack(params.covariance)]), 1.0, 0.0)

    def information(self, params: LogisticMixedParams, statistics: Totals) -> Array:
        h, _, second = self._parts(statistics)
        p, q = self.n_fixed, self.n_effects
        effects = GaussianEffects(np.zeros(q), params.covariance, self.covariance)
        spread = effects.information(np.zeros(q), second, statistics.count)[q:, q:]
        whole = np.zeros((p + len(spread), p + len(spread)))
        whole[:p, :p], whole[p:, p:] = h[:p, :p], spread
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
        self.beta, self.expansion = params.mean, model.expansion
        self.a, self.y = table[..., :p], table[..., -1]
        self.there = there.astype(np.float64)
        self.b = np.ascontiguousarray(np.moveaxis(table[..., p : p + q], -1, 0))
        self.offset = (self.a * params.mean).sum(axis=-1)
        self.sign = 2.0 * self.y - 1.0
        self.effects = GaussianEffects(np.zeros(q), params.covariance, model.covariance)

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
        probability = expit(eta)
        gap = self.there * (self.y - probability)
        weight = self.there * probability * (1.0 - probability)
        gradient = np.stack([(b * gap).sum(axis=-1) for b in self.b], axis=-1)
        weighted = self.b * weight
        information = np.array([[(w * b).sum(axis=-1) for b in self.b] for w in weighted])
        return self._log_likelihood(eta), gradient, np.moveaxis(information, -1, 0)

    def statistics(self, z: Array) -> Array:
        return self.mean_statistics(z[None], np.ones((1, self.n)))

    def mean_statistics(self, z: Array, weight: Array) -> Array:
        moments = _Moments(self.n, len(self.b), self.there.shape[1])
        for point, weight_of_point in zip(z, weight, strict=True):
            probability = expit(self._eta(point))
            moments.add(
                point,
                weight_of_point,
                self.there * (self.y - probability),
                self.there * probability * (1.0 - probability),
            )
        columns = self._columns
        gradient = np.stack([(c * moments.gap[j]).sum(axis=-1) for c, j in columns], axis=-1)
        h = np.stack(
            [
                (
                    columns[r][0] * columns[c][0] * moments.curvature(columns[r][1], columns[c][1])
                ).sum(axis=-1)
                for r, c in zip(*lower_triangle(len(columns)), strict=True)
            ],
            axis=-1,
        )
        theta = np.concatenate([self.beta, np.equal(*self.expansion)])
        hb = (unpack(h, len(theta)) * theta).sum(axis=-1)
        return np.hstack([h, hb + gradient, moments.second])

    @cached_property
    def _columns(self) -> list[tuple[Array, int]]:
        """The column of every entry of theta, as a known part and the number of the effect that
        multiplies it; the first of these numbers, 0, is for none."""
        fixed = np.ascontiguousarray(np.moveaxis(self.a, -1, 0))
        expanded = [(self.b[i], 1 + int(j)) for i, j in zip(*self.expansion, strict=True)]
        return [*((column, 0) for column in fixed), *expanded]

    def scores(self, z: Array) -> Array:
        gap = self.there * (self.y - expit(self._eta(z)))
        in_beta = (self.a * gap[..., None]).sum(axis=1)
        return np.hstack([in_beta, self.effects.scores(z)[:, z.shape[-1] :]])


class _Moments:
    """Means over points of the residual and the curvature of every row, times effects.

    With z_0 = 1, `gap[j]` is the mean of the residual times z_j, and `curvature(i, j)` that of the
    curvature times z_i z_j. They are summed point by point, in an order that does not depend on
    other subjects.
    """

    def __init__(self, n: int, q: int, n_rows: int) -> None:
        self.gap = np.zeros((1 + q, n, n_rows))
        self._curvature = np.zeros((packed_length("full", 1 + q), n, n_rows))
        self.second = np.zeros((n, packed_length("full", q)))

    def add(self, z: Array, weight_of_point: Array, gap: Array, curvature: Array) -> None:
        """Add a point with these weights for the subjects."""
        powers = np.concatenate([np.ones((1, len(z))), z.T])
        for k, power in enumerate(powers):
            self.gap[k] += (weight_of_point * power)[:, None] * gap
        i, j = lower_triangle(len(powers))
        for k, product in enumerate(powers[i] * powers[j]):
            self._curvature[k] += (weight_of_point * product)[:, None] * curvature
        self.second += weight_of_point[:, None] * outer_full(z)

    def curvature(self, i: int, j: int) -> Array:
        """The mean curvature times z_i z_j."""
        low, high = sorted((i, j))
        return np.asarray(self._curvature[high * (high + 1) // 2 + low])


def _ridge_solve(h: Array, g: Array) -> Array:
    """h^-1 g; zero in directions in which h is zero."""
    size = np.sqrt(np.maximum(np.diag(h), 0.0))
    size[size == 0.0] = 1.0
    scaled = h / np.outer(size, size) + RIDGE * np.eye(len(h))
    return np.asarray(np.linalg.solve(scaled, g / size) / size)
