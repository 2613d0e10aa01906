"""The linear mixed-effects model, one group of observations per row."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.statistics import Totals, lower_triangle, outer_like, pack, packed_length, unpack
from mixfold.core.value import value

LEAST_VARIANCE = 1e-10
LARGEST_LOG = 60.0
NEGLIGIBLE = 1e-13

Covariance = Literal["full", "diag"]


@value
class LinearMixedParams:
    """Fixed effects beta (p,), covariance Omega (q, q) of random effects, noise variance.

    `gram` is the mean of A_i'A_i, packed, and `observations` that of n_i: what statistics hold
    besides the parameters.
    """

    beta: Array
    omega: Array
    noise_variance: float
    gram: Array
    observations: float


class Sums(NamedTuple):
    """The parts of the flat vector of statistics."""

    units: float
    observations: float
    gram: Array  # A'A, packed
    cross: Array  # A'(r - B z)
    residual: float  # |r - B z|^2
    moment: Array  # z z', packed


@value
class LinearMixed:
    """r_i = A_i beta + B_i z_i + e_i, z_i ~ N(0, Omega), e_i ~ N(0, sigma^2 I).

    A row is a unit: the packed lower triangle of [A_i B_i r_i]'[A_i B_i r_i], then n_i. Its latent
    vector is E[z_i], then E[z_i z_i'] packed. The M-step is

        beta = (sum A'A)^-1 sum A'(r - B z),  Omega = mean of z z',
        sigma^2 = sum |r - A beta - B z|^2 / sum n.

    `omega` and `noise_variance` are kept where they are given. Responses have been divided by
    `response_scale`; log-likelihoods are those of the responses as they were.

    References
    ----------
    Laird and Ware (1982), Random-effects models for longitudinal data.
    """

    p: int
    q: int
    covariance: Covariance = "full"
    omega: Array | None = None
    noise_variance: float | None = None
    response_scale: float = 1.0

    @property
    def d(self) -> int:
        """Columns of a unit."""
        return packed_length("full", self.p + self.q + 1) + 1

    @property
    def k(self) -> int:
        """One component."""
        return 1

    @property
    def has_labels(self) -> bool:
        """Whether a latent vector is one of K labels."""
        return False

    @property
    def n_latent(self) -> int:
        """Length of a unit's latent vector: the first two moments of its random effects."""
        return self.q + packed_length("full", self.q)

    @property
    def n_sums(self) -> int:
        """Length of the vector of sums."""
        return 4 + packed_length("full", self.p) + self.p + packed_length("full", self.q)

    def n_parameters(self) -> int:
        """Free parameters."""
        omega = 0 if self.omega is not None else packed_length(self.covariance, self.q)
        return self.p + omega + (self.noise_variance is None)

    def split(self, values: Array) -> Sums:
        """Name the parts of flat statistics."""
        ends = np.cumsum([1, 1, packed_length("full", self.p), self.p, 1])
        units, observations, gram, cross, residual, moment = np.split(values, ends)
        return Sums(float(units[0]), float(observations[0]), gram, cross, residual[0], moment)

    def statistics(self, params: LinearMixedParams, sums: Array) -> Totals:
        """Statistics from the sums of an E-step."""
        return Totals(sums[1:], float(sums[1]), float(sums[0]))

    def sums(self, params: LinearMixedParams, statistics: Totals) -> Array:
        """The inverse of `statistics`."""
        return np.concatenate([[statistics.log_likelihood], statistics.values])

    def expected(self, params: LinearMixedParams) -> Totals:
        """The normalised statistics of which `params` is the maximiser."""
        cross = unpack(params.gram, self.p) @ params.beta
        noise = params.noise_variance * params.observations
        residual = noise + params.beta @ cross
        first, last = [1.0, params.observations], pack(params.omega)
        return Totals(np.hstack([first, params.gram, cross, residual, last]), 1.0, 0.0)

    def maximize(self, statistics: Totals) -> tuple[LinearMixedParams, int]:
        """Parameters of highest expected likelihood, and how many of them were mended."""
        s = self.split(statistics.values)
        gram = unpack(s.gram, self.p)
        beta, deficient = least_squares(gram, s.cross)
        noise = self._residual(s, beta) / max(s.observations, np.finfo(float).tiny)
        units = max(s.units, np.finfo(float).tiny)
        return self._mended(
            LinearMixedParams(
                beta,
                unpack(s.moment / units, self.q),
                noise,
                s.gram / units,
                s.observations / units,
            ),
            deficient,
        )

    def _residual(self, s: Sums, beta: Array) -> float:
        """sum |r - A beta - B z|^2."""
        return float(s.residual - 2.0 * beta @ s.cross + beta @ unpack(s.gram, self.p) @ beta)

    def _mended(self, params: LinearMixedParams, repairs: int) -> tuple[LinearMixedParams, int]:
        """Variances of at least the floor, and what is known as it is known."""
        omega, noise = self.omega, self.noise_variance
        if omega is None:
            omega, low = floored(params.omega, self.covariance)
            repairs += low
        if noise is None:
            noise = max(params.noise_variance, LEAST_VARIANCE)
            repairs += not params.noise_variance >= LEAST_VARIANCE
        return replace(params, omega=omega, noise_variance=float(noise)), repairs

    def mode(self, latent: Array) -> Array:
        """Latent vectors of random effects that are certain: mu, then mu mu'."""
        mu = latent[:, : self.q]
        i, j = lower_triangle(self.q)
        return np.hstack([mu, mu[:, i] * mu[:, j]])

    def recursive(self, statistics: Totals, batch: Totals, gamma: float) -> tuple[Totals, int]:
        """A natural-gradient step of length gamma in (beta, Omega, sigma^2).

        The information about beta is the running mean of A'A, divided by sigma^2. Where the noise
        variance would leave its domain the step is cut to half the way to the border.
        """
        now, _ = self.maximize(statistics)
        s = self.split(batch.normalized().values)
        gram = now.gram + gamma * (s.gram - now.gram)
        observations = now.observations + gamma * (s.observations - now.observations)
        slope = s.cross - unpack(s.gram, self.p) @ now.beta
        beta = now.beta + gamma * least_squares(unpack(gram, self.p), slope)[0]
        omega = now.omega + gamma * (unpack(s.moment, self.q) - now.omega)
        excess = self._residual(s, now.beta) - s.observations * now.noise_variance
        noise = now.noise_variance + gamma * excess / observations
        cut = noise <= 0.0
        noise = 0.5 * now.noise_variance if cut else noise
        moved = LinearMixedParams(beta, omega, noise, gram, observations)
        params, repairs = self._mended(moved, int(cut))
        return self.expected(params), repairs

    def unconstrained(self, params: LinearMixedParams) -> Array:
        """Coordinates (1, .): beta, log-Cholesky factor of Omega, log sigma^2."""
        factor = np.linalg.cholesky(params.omega)
        logs = np.log(np.diag(factor))
        below = factor[self._below()]
        return np.concatenate([params.beta, logs, below, [np.log(params.noise_variance)]])[None]

    def constrained(self, coordinates: Array, like: LinearMixedParams) -> LinearMixedParams:
        """The inverse of `unconstrained`; what statistics hold besides is that of `like`."""
        ends = [self.p, self.p + self.q]
        beta, logs, rest = np.split(coordinates[0], ends)
        factor = np.diag(np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG)))
        factor[self._below()] = rest[:-1]
        noise = float(np.exp(np.clip(rest[-1], -LARGEST_LOG, LARGEST_LOG)))
        moved = replace(like, beta=beta, omega=factor @ factor.T, noise_variance=noise)
        return self._mended(moved, 0)[0]

    def units(self, params: LinearMixedParams) -> Array:
        """The natural length of each unconstrained coordinate."""
        information = np.diag(unpack(params.gram, self.p)) / params.noise_variance
        beta = 1.0 / np.sqrt(np.maximum(information, LEAST_VARIANCE))
        below = np.sqrt(np.diag(params.omega))[self._below()[0]]
        return np.concatenate([beta, np.ones(self.q), below, [1.0]])[None]

    def _below(self) -> tuple[np.ndarray, np.ndarray]:
        """Entries of the Cholesky factor below its diagonal, where they are free."""
        return np.tril_indices(self.q if self.covariance == "full" else 0, -1)

    def blend(self, a: LinearMixedParams, b: LinearMixedParams, t: float) -> LinearMixedParams:
        """Parameters on the line from `a` to `b`."""
        return LinearMixedParams(
            (1.0 - t) * a.beta + t * b.beta,
            (1.0 - t) * a.omega + t * b.omega,
            (1.0 - t) * a.noise_variance + t * b.noise_variance,
            (1.0 - t) * a.gram + t * b.gram,
            (1.0 - t) * a.observations + t * b.observations,
        )

    def overreach(self, params: LinearMixedParams, bounds: tuple[float, float, float]) -> float:
        """How many levels the truncation region must grow to hold `params`; <= 0 is inside."""
        _, location, spread = bounds
        variances = np.append(np.linalg.eigvalsh(params.omega), params.noise_variance)
        low, high = max(float(variances.min()), LEAST_VARIANCE), float(variances.max())
        far = float(np.abs(params.beta).max(initial=0.0))
        return max(far - location, high - spread, 1.0 / low - spread)

    def start(self, units: Array) -> LinearMixedParams:
        """Parameters before any learning: no fixed effects, half of the variance each."""
        weights = np.ones(len(units)) / max(len(units), 1)
        gram = weights @ units[:, : packed_length("full", self.p)]
        observations = float(weights @ units[:, -1])
        variance = float(weights @ units[:, -2]) / observations if observations else 1.0
        half = 0.5 * max(variance, LEAST_VARIANCE)
        omega = half * np.eye(self.q) / self.q
        start = LinearMixedParams(np.zeros(self.p), omega, half, gram, observations)
        return self._mended(start, 0)[0]


def unit_rows(a: Array, b: Array, r: Array, starts: np.ndarray) -> Array:
    """Units (m, d) from the observations of m groups that begin at `starts`."""
    table = np.column_stack([a, b, r])
    products = outer_like(table, packed_length("full", table.shape[1]))
    columns = np.column_stack([products, np.ones(len(table))])
    return np.add.reduceat(columns, starts, axis=0)


def least_squares(gram: Array, cross: Array) -> tuple[Array, int]:
    """The shortest solution of gram @ beta = cross, and how many directions are unknown."""
    size, directions = np.linalg.eigh(gram)
    known = size > NEGLIGIBLE * max(float(size.max(initial=0.0)), np.finfo(float).tiny)
    used = directions[:, known]
    return used @ ((used.T @ cross) / size[known]), int((~known).sum())


def floored(omega: Array, covariance: Covariance) -> tuple[Array, int]:
    """A covariance with no variance below the floor, and whether it had to be mended."""
    if covariance == "diag":
        variances = np.diag(omega)
        low = int((variances < LEAST_VARIANCE).any())
        return np.diag(np.maximum(variances, LEAST_VARIANCE)), low
    size, directions = np.linalg.eigh(omega)
    if size.min() >= LEAST_VARIANCE:
        return omega, 0
    mended = (directions * np.maximum(size, LEAST_VARIANCE)) @ directions.T
    return 0.5 * (mended + mended.T), 1
