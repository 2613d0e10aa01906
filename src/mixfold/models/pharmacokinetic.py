"""One compartment, first-order absorption, random parameters of every subject."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.optimize import least_squares

from mixfold.core.checks import (
    LOWEST,
    check_above,
    check_array,
    check_covariance,
    check_kind,
    check_whole,
)
from mixfold.core.rows import Array
from mixfold.core.statistics import Totals, outer_full, pack, packed_length, unpack
from mixfold.core.value import value
from mixfold.models._one_compartment import OneCompartment
from mixfold.models.gaussian_effects import (
    GaussianEffects,
    Structure,
    entries,
    from_log_cholesky,
    log_cholesky,
    raise_to_floor,
)
from mixfold.models.random_effects import Conditional, RandomEffects, table_of
from mixfold.models.residual_errors import ERRORS, LEAST_SHARE

Error = Literal["additive", "proportional", "combined"]

ALLOMETRY = np.array([0.0, 1.0, 0.75, 0.0])  # powers of weight in ka, V, CL and the lag

START_VARIANCE, START_FARTHEST = 0.5, 60.0

SMALLEST = 1e-100  # its square does not underflow


@value
class PharmacokineticParams:
    """Means theta (q,) and covariance Omega of log(ka, V, CL[, lag]); residual deviations."""

    mean: Array
    covariance: Array
    noise: Array


@value
class Pharmacokinetic(RandomEffects):
    """y_ij ~ N(C(t_ij; psi_i), v), psi_i = log(ka, V, CL[, lag])_i ~ N(theta, Omega).

    A table row holds time, dose, concentration and, with `reference_weight`, body weight; a row
    with a dose above 0 is a dose, whose concentration is not used, others are observations. V
    grows with weight and CL with its power 3/4. Statistics are psi, psi psi' and the residual
    sums, so the M-step is exact; only "combined" noise takes a step of scoring.

    Examples
    --------
    >>> model = Pharmacokinetic(n_rows=12, error="additive")
    >>> model.d, model.n_expectations
    (37, 12)

    References
    ----------
    Kuhn and Lavielle (2005), Maximum likelihood estimation in nonlinear mixed effects models.
    """

    n_rows: int
    error: Error = "additive"
    covariance: Structure = "diag"
    lag: bool = False
    reference_weight: float | None = None

    def __post_init__(self) -> None:
        check_whole("n_rows", self.n_rows)
        if self.reference_weight is not None:
            check_above("reference_weight", self.reference_weight, 0.0)

    def check_params(self, params: PharmacokineticParams) -> None:
        check_kind("params", params, PharmacokineticParams)
        check_array("mean", params.mean, (self.n_effects,))
        check_covariance("covariance", params.covariance, self.n_effects)
        check_array("noise", params.noise, (ERRORS[self.error].n_noise,), LOWEST)

    @property
    def n_effects(self) -> int:
        return 4 if self.lag else 3

    @property
    def n_columns(self) -> int:
        return 3 if self.reference_weight is None else 4

    @property
    def n_expectations(self) -> int:
        q = self.n_effects
        return q + packed_length("full", q) + ERRORS[self.error].n_statistics

    def conditional(self, params: PharmacokineticParams, x: Array) -> PharmacokineticConditional:
        return PharmacokineticConditional(self, params, x)

    def _parts(self, statistics: Totals) -> tuple[Array, Array, Array]:
        """The sums of psi, of psi psi', and of the residuals."""
        q = self.n_effects
        end = q + packed_length("full", q)
        values = statistics.values
        return values[:q], unpack(values[q:end], q), values[end:]

    def subjects(self, x: Array) -> PharmacokineticConditional:
        """The parts of subjects that do not depend on parameters: doses, observations, curves."""
        q = self.n_effects
        noise = np.ones(ERRORS[self.error].n_noise)
        return self.conditional(PharmacokineticParams(np.zeros(q), np.eye(q), noise), x)

    def initial_params(self, x: Array) -> PharmacokineticParams:
        """Initial parameters: least squares for one common curve, from several starting values."""
        target = self.subjects(x)
        n = target.there.sum()
        typical = float(np.abs(target.y).sum() / n) or 1.0

        def residual(psi: Array) -> Array:
            shared = np.repeat(psi[None], len(x), axis=0)
            gap = target.there * (target.y - target.concentration(shared))
            return np.asarray(gap.ravel() / typical)

        tried = [
            least_squares(residual, begin, max_nfev=100)
            for begin in self._beginnings(target, typical)
        ]
        best = min(tried, key=lambda found: float(found.cost))
        deviation = typical * float(np.sqrt(2.0 * best.cost / n))
        noise = ERRORS[self.error].start(deviation, typical)
        mean = np.clip(best.x, -START_FARTHEST, START_FARTHEST)
        return PharmacokineticParams(mean, START_VARIANCE * np.eye(self.n_effects), noise)

    def _beginnings(self, target: PharmacokineticConditional, typical: float) -> list[Array]:
        """Starting values: volumes from peaks, rates from times, slow and fast absorption."""
        peak = np.maximum(target.y.max(axis=1), LEAST_SHARE * typical)
        volume = float(np.median(target.curve.amount.max(axis=1) / peak))
        since = target.curve.since_dose()[target.there > 0]
        since = since[np.isfinite(since)]
        k = np.log(2.0) / float(np.median(since)) if len(since) else 1.0
        lag = 0.5 * float(since.min()) if len(since) else 1.0
        rates = (2.0 * k, 5.0 * k, 20.0 * k)
        begin = np.array([[ka, volume, k * volume, lag][: self.n_effects] for ka in rates])
        return [*np.log(np.clip(begin, SMALLEST, 1.0 / SMALLEST))]

    def maximize(self, statistics: Totals) -> tuple[PharmacokineticParams, int]:
        first, second, residual = self._parts(statistics)
        mean = first / statistics.count
        omega = second / statistics.count - mean[:, None] * mean
        omega, n_degenerate = raise_to_floor(omega, self.covariance)
        noise, raised = ERRORS[self.error].maximize(residual)
        return PharmacokineticParams(mean, omega, noise), n_degenerate + raised

    def expected(self, params: PharmacokineticParams) -> Totals:
        second = params.covariance + params.mean[:, None] * params.mean
        residual = ERRORS[self.error].expected(params.noise)
        return Totals(np.concatenate([params.mean, pack(second), residual]), 1.0, 0.0)

    def information(self, params: PharmacokineticParams, statistics: Totals) -> Array:
        first, second, residual = self._parts(statistics)
        mean, count = params.mean, statistics.count
        gap = first - count * mean
        about = second - np.outer(first, mean) - np.outer(mean, gap)
        effects = GaussianEffects(mean, params.covariance, self.covariance)
        spread = effects.information(gap, about, count)
        noise = ERRORS[self.error].information(params.noise, residual)
        r = len(spread)
        whole = np.zeros((r + len(noise), r + len(noise)))
        whole[:r, :r], whole[r:, r:] = spread, noise
        return whole

    def unconstrained(self, params: PharmacokineticParams) -> Array:
        parts = [params.mean, log_cholesky(params.covariance), np.log(params.noise)]
        return np.concatenate(parts)[None]

    def constrained(self, coordinates: Array, like: PharmacokineticParams) -> PharmacokineticParams:
        q = self.n_effects
        cuts = [q, q + packed_length("full", q)]
        mean, root, noise = np.split(coordinates[0], cuts)
        covariance = from_log_cholesky(root, q)
        if self.covariance == "diag":
            covariance = np.diag(np.diag(covariance))
        return PharmacokineticParams(mean, covariance, np.exp(noise))

    def n_parameters(self) -> int:
        """Free parameters."""
        q = self.n_effects
        return q + len(entries(q, self.covariance)[0]) + ERRORS[self.error].n_noise


class PharmacokineticConditional(Conditional):
    """Concentrations of subjects given psi."""

    def __init__(self, model: Pharmacokinetic, params: PharmacokineticParams, x: Array) -> None:
        table, there = table_of(x, model.n_rows)
        time, dose, y = (np.ascontiguousarray(table[..., j]) for j in range(3))
        given = there & (dose > 0)
        seen = there & ~given
        self.noise, self.error = params.noise, ERRORS[model.error]
        self.there, self.y = seen.astype(np.float64), np.where(seen, y, 0.0)
        largest = np.abs(self.y).max(axis=1, keepdims=True)
        self.least = np.maximum(LEAST_SHARE * largest, SMALLEST)
        first = np.argsort(~given, axis=1, kind="stable")[:, : max(1, int(given.sum(axis=1).max()))]
        amount = np.take_along_axis(np.where(given, dose, 0.0), first, axis=1)
        self.curve = OneCompartment(time, np.take_along_axis(time, first, axis=1), amount)
        self.shift = np.zeros((len(table), model.n_effects))
        if model.reference_weight is not None:
            heavier = np.log(table[:, 0, 3] / model.reference_weight)
            self.shift = heavier[:, None] * ALLOMETRY[: model.n_effects]
        self.effects = GaussianEffects(params.mean, params.covariance, model.covariance)

    def concentration(self, z: Array) -> Array:
        """C at the times of all table rows, (..., n, n_rows)."""
        return self.curve.concentration(z + self.shift)

    def log_likelihood(self, z: Array) -> Array:
        f = self.concentration(z)
        return self._log_likelihood(f, self.error.variance(self.noise, f, self.least)[0])

    def _log_likelihood(self, f: Array, v: Array) -> Array:
        loss = np.log(2 * np.pi * v) + np.square(self.y - f) / v
        return np.asarray(-0.5 * (self.there * loss).sum(axis=-1))

    def curvature(self, z: Array) -> tuple[Array, Array, Array]:
        f, slopes = self.concentration(z), self.curve.slopes(z + self.shift)
        v, dv = self.error.variance(self.noise, f, self.least)
        gap = self.y - f
        pull = self.there * (gap / v + 0.5 * dv * (np.square(gap) / v - 1.0) / v)
        weight = self.there * (1.0 / v + 0.5 * np.square(dv / v))
        gradient = (slopes * pull[..., None]).sum(axis=1)
        weighted = slopes * weight[..., None]
        information = (weighted[..., :, None] * slopes[..., None, :]).sum(axis=1)
        return self._log_likelihood(f, v), gradient, information

    def _residual(self, z: Array) -> Array:
        f = self.concentration(z)
        return self.error.statistics(self.noise, self.y, f, self.least, self.there)

    def statistics(self, z: Array) -> Array:
        return np.hstack([z, outer_full(z), self._residual(z)])

    def scores(self, z: Array) -> Array:
        noise = self.error.scores(self.noise, self._residual(z))
        return np.hstack([self.effects.scores(z), noise])
