"""EM with acceleration and with halved steps, against the rules written again in plain NumPy.

The model is one map of the plane and a log-likelihood that is read from a list, so that every
outcome of a trial step can be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mixfold.core.backend import EXPECTED, Assignment
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.learners.em import EM
from mixfold.learners.em_gradient import EMGradient

Vector = NDArray[Any]


@dataclass
class Sums:
    params: Vector
    count: float
    log_likelihood: float


class Map:
    """A model whose M-step is z -> c + J z + a sin(5 z), valid up to a bound."""

    n_sums, d, k, has_coordinates = 2, 1, 1, True

    def __init__(self, q: int = 7, bound: float = 6.0, bend: float = 0.4) -> None:
        rng = np.random.default_rng(q)
        self.jacobian = 0.5 * rng.normal(size=(q, q)) / np.sqrt(q) + 0.4 * np.eye(q)
        self.centre, self.bound, self.bend = rng.normal(size=q), bound, bend

    def em(self, z: Vector) -> Vector:
        return np.asarray(self.centre + self.jacobian @ z + self.bend * np.sin(5.0 * z))

    def statistics(self, params: Vector, sums: Vector) -> Sums:
        return Sums(params, float(sums[1]), float(sums[0]))

    def maximize(self, statistics: Sums) -> tuple[Vector, int]:
        return self.em(statistics.params), 1

    def check_params(self, params: Vector) -> None:
        if not (np.abs(params) < self.bound).all():
            raise InvalidInputError("params are outside")

    def check_statistics(self, statistics: Sums) -> None:
        """All are valid."""

    def check_rows(self, rows: Rows) -> None:
        """All are valid."""

    def unconstrained(self, params: Vector) -> Vector:
        return params[None]

    def constrained(self, coordinates: Vector, like: Vector) -> Vector:
        return np.asarray(coordinates[0])

    def coordinate_scales(self, params: Vector) -> Vector:
        return np.asarray(1.0 + np.abs(params)[None] ** 2)


class Near(Map):
    """Steps that end within 2, while points up to `bound` are valid."""

    def em(self, z: Vector) -> Vector:
        return np.asarray(2.0 * np.sin(super().em(z)))


class Newton(Map):
    def halfway(self, start: Vector, end: Vector) -> Vector:
        return 0.5 * (start + end)


class Straight(Map):
    """Steps that are all the same."""

    def em(self, z: Vector) -> Vector:
        return z + 0.125

    def coordinate_scales(self, params: Vector) -> Vector:
        return np.ones((1, len(params)))


class AtOnce(Map):
    """Any step leads to the maximum."""

    def em(self, z: Vector) -> Vector:
        return np.full(len(z), 1.5)


class Told:
    """A backend whose rows all have the log-likelihood `now`."""

    tile = 4

    def __init__(self, model: Any) -> None:
        self.model, self.now = model, 0.0

    def fold(
        self, params: Vector, rows: Rows, sums: Vector, assignment: Assignment = EXPECTED
    ) -> Vector:
        weight = rows.total_weight()
        return np.asarray(sums + np.array([weight * self.now, weight]))


class Rule:
    """What is documented of EM: which point is evaluated next, and what is believed meanwhile."""

    def __init__(
        self, model: Map, tol: float, n: float, units: float, halves: bool, accelerate: bool
    ) -> None:
        self.model, self.tol, self.n = model, tol, n
        self.units = units  # the weight of all rows, where the lightest one weighs 1
        self.halves, self.accelerate = halves, accelerate
        self.phase, self.before, self.reach = "plain", -np.inf, 4.0
        self.gains: list[float] = []
        self.trail: list[Vector] = []
        self.origin: Vector | None = None
        self.refused = self.converged = False
        self.steps, self.events = 0, set[str]()

    def next(self, point: Vector, now: float) -> Vector:
        """The point after one that was found to have the mean log-likelihood `now`."""
        judged = self.phase in ("far", "combined")
        lost = self.before - now
        if self.halves and self.origin is not None and not judged and lost > self.tol:
            self.phase, self.trail = "plain", []
            self.events.add("halved")
            return 0.5 * (self.origin + point)
        if not (judged and lost > 0.0):
            self.origin = point
        self.steps += 1
        return self._tried(point, now) if judged else self._plain(point, now)

    def _plain(self, point: Vector, now: float) -> Vector:
        after, gain = self.model.em(point), (now - self.before) * self.n
        self.gains = [*self.gains[-7:], gain] if np.isfinite(gain) else []
        self.before = now
        total = abs(now * self.n)
        parts = [self.gains[1:], self.gains[:-1]]
        self.converged = all(left(part, total) < self.tol for part in parts) and gain < np.inf
        if self.converged or not self.accelerate:
            return after
        if self.phase == "plain":
            self.phase, self.trail = "second", [point]
            return after
        first = self.trail[0]
        if self.gains and abs(gain) / self.n * self.units < 1.0 and not self.refused:
            return self._combined([first, point, point, after])
        self.refused = False
        return self._far(first, point, after)

    def _far(self, zero: Vector, one: Vector, two: Vector) -> Vector:
        """Varadhan and Roland's point, where the second step is shorter than the first."""
        unit = self.model.coordinate_scales(zero)[0]
        r, v = one - zero, two - 2.0 * one + zero
        sizes = [float(np.sqrt((part**2 / unit**2).sum())) for part in (r, v)]
        self.phase, self.trail = "plain", []
        if not sizes[0] > sizes[1] > 0.0:
            self.events.add("no far point")
            return two
        length = min(sizes[0] / sizes[1], self.reach)
        found = zero + 2.0 * length * r + length**2 * v
        if not (np.abs(found) < self.model.bound).all():
            self.events.add("far point is invalid")
            return two
        self.phase, self.trail, self.reach = "far", [two], length
        return found

    def _combined(self, trail: list[Vector]) -> Vector:
        """Anderson's point: the shares of past steps whose weighted residuals cancel best."""
        self.trail = trail[-12:]
        unit = self.model.coordinate_scales(self.trail[0])[0]
        points, steps = np.array(self.trail[::2]) / unit, np.array(self.trail[1::2]) / unit
        residual = steps - points
        change = (residual[1:] - residual[:-1]).T
        size = (change**2).sum()
        if size > 0.0:
            ridge = np.sqrt(1e-10 * size) * np.eye(change.shape[1])
            table, target = (
                np.vstack([change, ridge]),
                np.append(residual[-1], np.zeros(len(ridge))),
            )
            share = np.linalg.lstsq(table, target, rcond=None)[0]
            found = (steps[-1] - (steps[1:] - steps[:-1]).T @ share) * unit
            if (np.abs(found) < self.model.bound).all():
                self.phase = "combined"
                self.events.add(f"{len(self.trail) // 2} pairs")
                return np.asarray(found)
            self.events.add("combination is invalid")
        else:
            self.events.add("no combination")
        last, self.trail = self.trail[-1], []
        self.phase, self.refused = "plain", True
        return last

    def _tried(self, point: Vector, now: float) -> Vector:
        after, phase, trail = self.model.em(point), self.phase, self.trail
        self.phase, self.trail = "plain", []
        gain = (now - self.before) * self.n
        if phase == "far":
            self.events.add("far point is worse" if gain < 0.0 else "far point is kept")
            if gain < 0.0:
                self.reach = max(self.reach / 4.0, 2.0)
                return trail[0]
            self.before, self.reach = now, 4.0 * self.reach
            return after
        if gain < 0.0:
            self.refused = True
            self.events.add("combination is worse")
            return trail[-1]
        self.before = now
        if gain < max(self.tol, 2.0**-48 * abs(now) * self.n):
            self.events.add("little is gained")
            return after
        return self._combined([*trail, point, after])

    def estimate(self, point: Vector) -> Vector:
        """The last point that is known not to be worse, or the M-step from it."""
        if self.phase == "far":
            return self.trail[0]
        return self.trail[-2] if self.phase == "combined" else point


def left(gains: list[float], total: float) -> float:
    """Aitken's estimate of what is left, with shares from 0.99 to 0.9999; rounding is no gain."""
    if not gains:
        return np.inf
    noise = max([2.0**-48 * total, *[-g for g in gains if -g < 2.0**-20 * total]])
    if abs(gains[-1]) <= noise:
        return 0.0
    shares = [b / a for a, b in pairwise(gains) if a > noise]
    share = min(max([0.99, *shares]), 0.9999)
    return abs(gains[-1]) * share / (1.0 - share)


def follow(
    learner: EM, model: Any, script: Vector, rows: Rows, accelerate: bool = True
) -> tuple[Any, set[str]]:
    """Compare every pass; points are taken over from the learner, so errors do not add up."""
    backend: Any = Told(model)
    halves = isinstance(learner, EMGradient)
    n = max(rows.total_weight(), len(rows))
    units = rows.total_weight() / float(rows.weights().min())
    rule = Rule(model, learner.tol, n, units, halves, accelerate)
    point: Any = np.linspace(-1.0, 1.0, len(model.centre))
    state = learner.init(backend, point)
    for passes, now in enumerate(script, 1):
        backend.now = float(now)
        state, _ = learner.step(backend, state, rows)
        state, infos = learner.end_pass(backend, state)
        expected = rule.next(point, float(now))
        point = state.params
        np.testing.assert_allclose(point, expected, rtol=1e-6, atol=1e-7)
        estimate = learner.estimate(backend, state)
        np.testing.assert_allclose(estimate, rule.estimate(point), rtol=1e-6, atol=1e-7)
        assert [(info.rows, info.step_size) for info in infos] == [(len(rows), 1.0)]
        assert infos[0].log_likelihood == pytest.approx(now, rel=1e-15)
        assert (state.passes, state.n_degenerate) == (passes, rule.steps)
        assert state.before == rule.before
        assert state.gains == rule.gains
        assert learner.weight_learned(state, 1) == rows.total_weight()
        assert learner.converged(state) == rule.converged
        learner.check_state(model, state)
        if rule.converged:
            rule.events.add("converged")
            break
    return state, rule.events


def rows_of(n: int, weight: float) -> Rows:
    return Rows(np.zeros((n, 1)), np.full(n, weight / n))


def walk(seed: int, unit: float, low: int, high: int, length: int = 60) -> Vector:
    """Log-likelihoods in whole multiples of a unit, so that there are ties."""
    steps = np.random.default_rng(seed).integers(low, high, size=length)
    return -6.0 + unit * np.cumsum(steps)


def test_every_outcome_of_acceleration() -> None:
    events = set[str]()
    for seed in range(12):
        script = walk(seed, 1.0 / 64.0, -3, 12)
        learner = EM(tol=0.25, accelerate=True)
        for model in (Map(bound=30.0), Near(bound=2.01)):
            events |= follow(learner, model, script, rows_of(8, 16.0))[1]
            faster = walk(seed, 1.0 / 64.0, -40, 200)
            events |= follow(learner, model, faster, rows_of(8, 4.0))[1]
    assert events >= {
        "far point is kept",
        "far point is worse",
        "far point is invalid",
        "no far point",
        "combination is invalid",
        "combination is worse",
        "little is gained",
        "6 pairs",
    }


def test_longer_and_longer_steps() -> None:
    """Slow and nearly straight steps, so that what bounds a step is how far the last one went."""
    model = Map(bound=1e9, bend=0.0)
    model.jacobian = np.diag([0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999])
    worse = np.cumsum([5.0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, -9, 9, 5, -9, 9, 5, -9, 9, 5, 5, 5, 5])
    events = follow(EM(accelerate=True), model, worse - 300.0, rows_of(8, 8.0))[1]
    assert events == {"far point is kept", "far point is worse"}


def test_gains_of_rounding_end_a_run_of_combinations() -> None:
    for seed in range(6):
        script = walk(seed, 2.0**-50, 0, 40)  # 16 to 32 units are rounding
        events = follow(EM(tol=0.0, accelerate=True), Map(), script, rows_of(8, 8.0))[1]
        assert {"little is gained", "2 pairs"} <= events


def test_steps_that_cannot_be_extrapolated() -> None:
    steady = -9.0 + 0.03125 * np.arange(16)
    same = follow(EM(tol=0.0, accelerate=True), Straight(q=2), steady, rows_of(4, 4.0))[1]
    assert {"no far point", "no combination"} <= same
    fast = -99.0 + 4.0 * np.arange(10)
    once = follow(EM(tol=0.0, accelerate=True), AtOnce(q=2), fast, rows_of(4, 4.0))[1]
    assert once == {"no far point"}


def test_newton_steps_are_halved() -> None:
    events = set[str]()
    for seed in range(12):
        for accelerate in (False, True):
            learner = EMGradient(tol=0.25, accelerate=accelerate)
            script = walk(seed, 1.0 / 8.0, -4, 8)
            rows = rows_of(2, 0.5)
            events |= follow(learner, Newton(), script, rows, accelerate)[1]
    assert events >= {"halved", "far point is worse", "combination is worse", "far point is kept"}


def test_newton_steps_need_a_model_that_can_halve_them() -> None:
    model: Any = Newton()
    assert EMGradient().why_unsupported(model) is None
    model = Map()
    why = EMGradient().why_unsupported(model)
    assert why is not None
    assert "use learner='em'" in why


@pytest.mark.parametrize("learner", [EM(max_iter=3), EMGradient(max_iter=3)], ids=repr)
def test_passes_without_weight_count_and_change_nothing(learner: EM) -> None:
    backend: Any = Told(Newton())
    point = np.zeros(7)
    state = learner.init(backend, point)
    assert (state.passes, state.n_degenerate, state.before) == (0, 0, -np.inf)
    for passes in (1, 2, 3):
        assert not learner.finished(state)
        state, _ = learner.step(backend, state, rows_of(3, 0.0))
        state, infos = learner.end_pass(backend, state)
        assert infos == []
        assert state.params is point
        assert (state.passes, state.gathered.n, state.n_degenerate) == (passes, 0, 0)
    assert learner.finished(state)
    assert not learner.converged(state)


def test_gains_below_the_rounding_of_the_total_are_none() -> None:
    """The log-likelihood of all rows counts: 4e9 nats, which float64 has to 1e-6."""
    script = -1e6 + np.array([0.0, 1.0, 2.0, 2.0 + 1e-9, 2.0 + 2e-9])
    state, events = follow(EM(tol=1e-7), Map(), script, rows_of(2, 4000.0), accelerate=False)
    assert events == {"converged"}
    assert state.passes == 5


@pytest.mark.parametrize("extra", [0, 1])
def test_few_points_of_large_models_are_remembered(extra: int) -> None:
    """All points together have at most 2^22 numbers; with one pair there is no combination."""
    backend: Any = Told(Wide())
    learner = EM(tol=1e-3, accelerate=True)
    state = learner.init(backend, np.zeros(2**20 + extra))
    kept = []
    for now in -4.0 + 0.125 * np.arange(5):
        backend.now = now
        state, _ = learner.step(backend, state, rows_of(2, 2.0))
        state, _ = learner.end_pass(backend, state)
        kept.append(len(state.trail))
    assert kept == ([1, 4, 4, 4, 4] if extra == 0 else [1, 1, 0, 1, 1])


class Wide(Map):
    """Each of very many coordinates goes half the way."""

    def em(self, z: Vector) -> Vector:
        return np.asarray(0.5 * (z + np.linspace(1.0, 2.0, len(z))) + 0.01 * z**2)
