"""The linear mixed-effects model, one group of observations per row."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mixfold.core.checks import (
    LARGEST_SQUARE,
    LARGEST_SUM,
    LOWEST,
    check_above,
    check_array,
    check_covariance,
    check_kind,
    check_whole,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals, lower_triangle, pack, packed_length, unpack
from mixfold.core.value import value
from mixfold.models.gaussian_effects import Structure, raise_to_floor

LEAST_VARIANCE = 1e-10
LARGEST_LOG = 20.0
MOST_SUMS = 2**31
NEGLIGIBLE = 1e-13
# smallest eigenvalue relative to the largest variance, so that a Cholesky factor exists
LEAST_SHARE = 1e-12

SQUARES = -LARGEST_SQUARE, LARGEST_SQUARE


@value
class LinearMixedParams:
    """Fixed effects beta (p,), covariance Omega (q, q) of random effects, noise variance.

    `gram` is the mean of A_i'A_i, `random_gram` that of B_i'B_i, both packed, and `observations`
    that of n_i; they are needed to compute statistics from parameters.
    """

    beta: Array
    omega: Array
    noise_variance: float
    gram: Array
    random_gram: Array
    observations: float


class Sums(NamedTuple):
    """The parts of the flat vector of statistics."""

    subjects: float
    observations: float
    gram: Array  # A'A, packed
    random_gram: Array  # B'B, packed
    cross: Array  # A'r
    square: float  # r'r
    mixed: Array  # (A'B)_ij z_k, in the order of i, j, k
    response: Array  # (B'r)_j z_k
    spread: Array  # B'B (z z')', both packed
    moment: Array  # z z', packed


@value
class LinearMixed:
    """r_i = A_i beta + B_i z_i + e_i, z_i ~ N(0, Omega), e_i ~ N(0, sigma^2 I).

    A row is a subject: the packed lower triangle of [A_i B_i r_i]'[A_i B_i r_i], then n_i. The
    expectations of its latent variables are 1, E[z_i], then E[z_i z_i'] packed, so that sums are
    linear in it. The M-step is that of parameter expansion: B alpha z takes the place of B z, alpha
    being one until then;

        beta, alpha = argmin sum |r - A beta - B alpha z|^2,  Omega = alpha (mean of z z') alpha',
        sigma^2 = that least sum / sum n.

    Plain EM, with alpha fixed at one, is slow if random effects are small.

    `omega` and `noise_variance` are not estimated if they are given. Responses have been divided by
    `response_scale`; log-likelihoods are those of the original responses.

    References
    ----------
    Laird and Ware (1982), Random-effects models for longitudinal data; Liu, Rubin and Wu (1998),
    Parameter expansion to accelerate EM: the PX-EM algorithm.
    """

    has_labels = False
    statistics_depend_on_params = False
    has_coordinates = True
    has_bounds = True

    p: int
    q: int
    covariance: Structure = "full"
    omega: Array | None = None
    noise_variance: float | None = None
    response_scale: float = 1.0

    def __post_init__(self) -> None:
        check_whole("p", self.p, 0)
        check_whole("q", self.q)
        if self.n_sums > MOST_SUMS:
            raise InvalidInputError(
                f"random has {self.q} effects, whose statistics are {self.n_sums:,} numbers: at "
                f"most {MOST_SUMS:,} are possible; leave some effects out"
            )
        if self.omega is not None:
            check_covariance("omega", self.omega, self.q)
        if self.noise_variance is not None:
            check_above("noise_variance", self.noise_variance, LOWEST**2, LARGEST_SQUARE)
        check_above("response_scale", self.response_scale, 0.0, LARGEST_SUM)

    def check_params(self, params: LinearMixedParams) -> None:
        """Refuse parameters outside their domain, or of other numbers of effects."""
        check_kind("params", params, LinearMixedParams)
        check_array("beta", params.beta, (self.p,))
        check_covariance("omega", params.omega, self.q)
        check_above("noise_variance", params.noise_variance, LOWEST**2, LARGEST_SQUARE)
        check_array("gram", params.gram, (packed_length("full", self.p),), *SQUARES)
        check_array("random_gram", params.random_gram, (packed_length("full", self.q),), *SQUARES)
        check_array("observations", np.asarray(params.observations), (), 0.0)

    def check_statistics(self, statistics: Totals) -> None:
        """Refuse statistics of another length, or that are not finite."""
        check_kind("statistics", statistics, Totals)
        statistics.check(self.n_sums - 1)

    def check_rows(self, rows: Rows) -> None:
        """Refuse subjects of another width."""
        rows.check(self.d)

    @property
    def d(self) -> int:
        """Columns of a subject."""
        return packed_length("full", self.p + self.q + 1) + 1

    @property
    def k(self) -> int:
        """One component."""
        return 1

    @property
    def n_expectations(self) -> int:
        """Number of expectations of a subject: one and the two moments of its random effects."""
        return 1 + self.q + packed_length("full", self.q)

    @property
    def n_sums(self) -> int:
        """Length of the vector of sums."""
        return 1 + sum(self._lengths())

    def _lengths(self) -> list[int]:
        """Lengths of the parts of the statistics."""
        p, q, t = self.p, self.q, packed_length("full", self.q)
        return [1, 1, packed_length("full", p), t, p, 1, p * q * q, q * q, t * t, t]

    def n_parameters(self) -> int:
        """Free parameters."""
        omega = 0 if self.omega is not None else packed_length(self.covariance, self.q)
        return self.p + omega + (self.noise_variance is None)

    def split(self, values: Array) -> Sums:
        """Name the parts of flat statistics."""
        first, second, gram, random_gram, cross, square, *rest = np.split(
            values, np.cumsum(self._lengths()[:-1])
        )
        counts = float(first[0]), float(second[0])
        return Sums(*counts, gram, random_gram, cross, float(square[0]), *rest)

    def statistics(self, params: LinearMixedParams, sums: Array) -> Totals:
        """Statistics from the sums of an E-step."""
        return Totals(sums[1:], float(sums[1]), float(sums[0]))

    def sums(self, params: LinearMixedParams, statistics: Totals) -> Array:
        """The inverse of `statistics`."""
        return np.concatenate([[statistics.log_likelihood], statistics.values])

    def expected(self, params: LinearMixedParams) -> Totals:
        """The normalised statistics of which `params` is the maximiser."""
        cross = unpack(params.gram, self.p) @ params.beta
        omega = pack(params.omega)
        spread = np.outer(params.random_gram, omega)
        response = (unpack(params.random_gram, self.q) @ params.omega).ravel()
        noise = params.noise_variance * params.observations
        square = noise + params.beta @ cross + response[:: self.q + 1].sum()
        parts = [1.0, params.observations, params.gram, params.random_gram, cross, square]
        parts += [np.zeros(self.p * self.q**2), response, spread.ravel(), omega]
        return Totals(np.hstack(parts), 1.0, 0.0)

    def maximize(self, statistics: Totals) -> tuple[LinearMixedParams, int]:
        """Parameters of highest expected likelihood, and how many of them were degenerate."""
        s = self.split(statistics.values)
        left, right = self._normal_equations(s)
        theta = self._unexpanded(np.zeros(self.p))
        free = np.concatenate([np.full(self.p, True), self._expanded().ravel()])
        rest = (right - left @ theta)[free]
        theta[free] += least_squares(left[np.ix_(free, free)], rest)[0]
        alpha = theta[self.p :].reshape(self.q, self.q)
        subjects = max(s.subjects, np.finfo(float).tiny)
        observations = max(s.observations, np.finfo(float).tiny)
        return self._with_floors(
            LinearMixedParams(
                theta[: self.p],
                alpha @ unpack(s.moment / subjects, self.q) @ alpha.T,
                self._residual(s, theta) / observations,
                s.gram / subjects,
                s.random_gram / subjects,
                s.observations / subjects,
            ),
            least_squares(unpack(s.gram, self.p), s.cross)[1],
        )

    def _expanded(self) -> np.ndarray:
        """A mask (q, q) of the free entries of alpha."""
        if self.omega is not None:
            return np.zeros((self.q, self.q), dtype=bool)
        full = self.covariance == "full"
        return np.full((self.q, self.q), True) if full else np.eye(self.q, dtype=bool)

    def _unexpanded(self, beta: Array) -> Array:
        """beta and alpha in one vector, where alpha is the identity."""
        return np.concatenate([beta, np.eye(self.q).ravel()])

    def _normal_equations(self, s: Sums) -> tuple[Array, Array]:
        """Matrix and right side of least squares in beta and the entries of alpha."""
        p, q, t = self.p, self.q, packed_length("full", self.q)
        mixed = s.mixed.reshape(p, q * q)
        place = unpack(np.arange(t, dtype=np.float64), q).astype(np.intp)
        spread = s.spread.reshape(t, t)[place[:, None, :, None], place[None, :, None, :]]
        lower = np.hstack([mixed.T, spread.reshape(q * q, q * q)])
        left = np.vstack([np.hstack([unpack(s.gram, p), mixed]), lower])
        return left, np.concatenate([s.cross, s.response])

    def _residual(self, s: Sums, theta: Array) -> float:
        """sum |r - A beta - B alpha z|^2."""
        left, right = self._normal_equations(s)
        return float(s.square - 2.0 * theta @ right + theta @ left @ theta)

    def _with_floors(
        self, params: LinearMixedParams, n_degenerate: int
    ) -> tuple[LinearMixedParams, int]:
        """Raise variances to the floor, and insert known values."""
        omega, noise = self.omega, self.noise_variance
        if omega is None:
            omega, low = raise_to_floor(params.omega, self.covariance, LEAST_VARIANCE, LEAST_SHARE)
            n_degenerate += low > 0
        if noise is None:
            noise = max(params.noise_variance, LEAST_VARIANCE)
            n_degenerate += not params.noise_variance >= LEAST_VARIANCE
        return replace(params, omega=omega, noise_variance=float(noise)), n_degenerate

    def mode(self, expectations: Array) -> Array:
        """Expectations if random effects equal their mode: 1, mu, then mu mu'."""
        mu = expectations[:, 1 : 1 + self.q]
        i, j = lower_triangle(self.q)
        return np.hstack([expectations[:, :1], mu, mu[:, i] * mu[:, j]])

    def score(self, params: LinearMixedParams, statistics: Totals) -> Array:
        """Gradient of the log-likelihood in (beta, packed Omega, sigma^2), by Fisher's identity.

        `statistics` are those of an E-step under the same parameters.
        """
        s, variance = self.split(statistics.values), params.noise_variance
        theta = self._unexpanded(params.beta)
        left, right = self._normal_equations(s)
        beta = (right - left @ theta)[: self.p] / variance
        inverse = np.linalg.inv(params.omega)
        slope = 0.5 * (inverse @ unpack(s.moment, self.q) @ inverse - s.subjects * inverse)
        noise = 0.5 * (self._residual(s, theta) / variance - s.observations) / variance
        # an entry off the diagonal counts twice
        return np.concatenate([beta, pack(slope * (2.0 - np.eye(self.q))), [noise]])

    def free_variances(self) -> np.ndarray:
        """Which entries of (packed Omega, sigma^2) are learned."""
        i, j = lower_triangle(self.q)
        omega = np.full(len(i), self.omega is None) & ((self.covariance == "full") | (i == j))
        return np.append(omega, self.noise_variance is None)

    def recursive(self, statistics: Totals, batch: Totals, gamma: float) -> tuple[Totals, int]:
        """A natural-gradient step of length gamma in (beta, Omega, sigma^2).

        The information about beta is the running mean of A'A, divided by sigma^2. Where the noise
        variance would leave its domain the step is cut to half the way to the border.
        """
        now, _ = self.maximize(statistics)
        s = self.split(batch.normalized().values)
        gram = now.gram + gamma * (s.gram - now.gram)
        observations = now.observations + gamma * (s.observations - now.observations)
        random_gram = now.random_gram + gamma * (s.random_gram - now.random_gram)
        theta = self._unexpanded(now.beta)
        left, right = self._normal_equations(s)
        slope = (right - left @ theta)[: self.p]
        beta = now.beta + gamma * least_squares(unpack(gram, self.p), slope)[0]
        omega = now.omega + gamma * (unpack(s.moment, self.q) - now.omega)
        excess = self._residual(s, theta) - s.observations * now.noise_variance
        noise = now.noise_variance + gamma * excess / observations
        cut = noise <= 0.0
        noise = 0.5 * now.noise_variance if cut else noise
        moved = LinearMixedParams(beta, omega, noise, gram, random_gram, observations)
        params, n_degenerate = self._with_floors(moved, int(cut))
        return self.expected(params), n_degenerate

    def unconstrained(self, params: LinearMixedParams) -> Array:
        """Coordinates (1, .): beta, log-Cholesky factor of Omega, log sigma^2."""
        tril = np.linalg.cholesky(params.omega)
        logs = np.log(np.diag(tril))
        below = tril[self._below()]
        return np.concatenate([params.beta, logs, below, [np.log(params.noise_variance)]])[None]

    def constrained(self, coordinates: Array, like: LinearMixedParams) -> LinearMixedParams:
        """The inverse of `unconstrained`; `like` gives the other fields."""
        ends = [self.p, self.p + self.q]
        beta, logs, rest = np.split(coordinates[0], ends)
        tril = np.diag(np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG)))
        tril[self._below()] = rest[:-1]
        noise = float(np.exp(np.clip(rest[-1], -LARGEST_LOG, LARGEST_LOG)))
        moved = replace(like, beta=beta, omega=tril @ tril.T, noise_variance=noise)
        return self._with_floors(moved, 0)[0]

    def coordinate_scales(self, params: LinearMixedParams) -> Array:
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
            (1.0 - t) * a.random_gram + t * b.random_gram,
            (1.0 - t) * a.observations + t * b.observations,
        )

    def truncation_excess(
        self, params: LinearMixedParams, bounds: tuple[float, float, float]
    ) -> float:
        """How many levels the truncation region must grow to hold `params`; <= 0 is inside."""
        _, location, spread = bounds
        variances = np.append(np.linalg.eigvalsh(params.omega), params.noise_variance)
        low, high = max(float(variances.min()), LEAST_VARIANCE), float(variances.max())
        far = float(np.abs(params.beta).max(initial=0.0))
        return max(far - location, high - spread, 1.0 / low - spread)

    def initial_params(self, subjects: Array) -> LinearMixedParams:
        """Initial parameters: no fixed effects, and half of the variance for each part."""
        mean = subjects.mean(axis=0, dtype=np.float64) if len(subjects) else np.zeros(self.d)
        moments, observations = unpack(mean[:-1], self.p + self.q + 1), float(mean[-1])
        variance = float(moments[-1, -1]) / observations if observations else 1.0
        half = 0.5 * max(variance, LEAST_VARIANCE)
        gram, random_gram = moments[: self.p, : self.p], moments[self.p : -1, self.p : -1]
        omega = half * np.eye(self.q) / self.q
        start = LinearMixedParams(
            np.zeros(self.p), omega, half, pack(gram), pack(random_gram), observations
        )
        return self._with_floors(start, 0)[0]


def least_squares(gram: Array, cross: Array) -> tuple[Array, int]:
    """A solution of gram @ beta = cross that is zero in directions without information.

    Also returns the number of such directions. Columns are scaled to length one first.
    """
    lengths = np.sqrt(np.maximum(np.diag(gram), 0.0))  # differences of sums can be negative
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    size, directions = np.linalg.eigh(gram * np.outer(scale, scale))
    known = size > NEGLIGIBLE
    used = directions[:, known]
    return scale * (used @ ((used.T @ (scale * cross)) / size[known])), int((~known).sum())
