"""Accelerated EM against SQUAREM and Anderson's method written with plain vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold.core.errors import InvalidInputError
from mixfold.learners._acceleration import MOST_NUMBERS, anderson, extrapolate, pairs_to_keep
from mixfold.learners._convergence import WINDOW, has_converged, remaining, with_gain


class Plane:
    """A model whose parameters are vectors, and whose units are given."""

    def __init__(self, units: Any) -> None:
        self.units = np.asarray(units, dtype=float)

    def check_params(self, params: Any) -> None:
        if np.abs(params).max() > 1e3:
            raise InvalidInputError("too far")

    def coordinate_scales(self, params: Any) -> np.ndarray:
        return self.units

    def unconstrained(self, params: Any) -> np.ndarray:
        return np.asarray(params)

    def constrained(self, flat: np.ndarray, like: Any) -> np.ndarray:
        return flat


def model(units: Any) -> Any:
    return Plane(units)


def test_squarem_step() -> None:
    """alpha = |r| / |v| in units, and x = x0 + 2 alpha r + alpha^2 v."""
    rng = np.random.default_rng(0)
    a = np.diag([0.9, 0.5, 0.7])
    zero = rng.normal(size=3)
    one, two = a @ zero, a @ a @ zero
    units = np.array([1.0, 2.0, 0.5])
    r, v = one - zero, two - 2.0 * one + zero
    alpha = np.sqrt(((r / units) ** 2).sum() / ((v / units) ** 2).sum())
    for reach in (100.0, 1.5):
        step = min(alpha, reach)
        far, used = extrapolate(model(units), zero, one, two, reach)
        assert used == pytest.approx(step, rel=1e-12)
        assert far is not None
        np.testing.assert_allclose(np.asarray(far), zero + 2 * step * r + step**2 * v, rtol=1e-10)


def test_squarem_is_of_no_use() -> None:
    """Where the second step is no shorter, nothing changes any more, or numbers are not finite."""
    units = np.ones(1)
    for points in ([0.0, 1.0, 3.0], [0.0, 1.0, 2.0], [0.0, 1.0, np.inf], [0.0, 0.0, 0.0]):
        zero, one, two = (np.array([p]) for p in points)
        far, reach = extrapolate(model(units), zero, one, two, 4.0)
        assert far is None
        assert reach == 4.0


def test_points_outside_of_the_domain_are_not_tried() -> None:
    zero, one, two = (np.array([p]) for p in (0.0, 400.0, 600.0))  # on their way to 800
    assert extrapolate(model(np.ones(1)), zero, one, two, 100.0)[0] == pytest.approx(800.0)
    far, _ = extrapolate(model(np.ones(1)), 2 * zero, 2 * one, 2 * two, 100.0)
    assert far is None


def test_anderson_solves_linear_maps() -> None:
    """With as many differences as dimensions the fixed point of a linear map is found at once."""
    rng = np.random.default_rng(1)
    a, fixed = np.array([[0.9, 0.2], [-0.1, 0.8]]), np.array([3.0, -1.0])
    trail = []
    for _ in range(3):
        point = rng.normal(size=2)
        trail += [point, fixed + a @ (point - fixed)]
    found = anderson(model([1.0, 5.0]), trail)
    assert found is not None
    np.testing.assert_allclose(np.asarray(found), fixed, rtol=1e-6)


def test_anderson_minimises_the_residual() -> None:
    """Of all combinations of the EM steps whose factors add up to 1, in units."""
    rng = np.random.default_rng(2)
    units = np.array([1.0, 3.0, 0.2, 1.0])
    points = rng.normal(size=(3, 4))
    after = rng.normal(size=(3, 4))
    residual = (after - points) / units
    # minimise |sum_i c_i residual_i| with sum c = 1: Lagrange
    system = np.block(
        [[residual @ residual.T, np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]]
    )
    factors = np.linalg.solve(system, np.array([0.0, 0.0, 0.0, 1.0]))[:3]
    trail = [row for pair in zip(points, after, strict=True) for row in pair]
    found = anderson(model(units), trail)
    assert found is not None
    np.testing.assert_allclose(np.asarray(found), np.asarray(factors @ after), rtol=1e-6)


def test_anderson_is_of_no_use() -> None:
    still = [np.zeros(2), np.ones(2)] * 2
    assert anderson(model(np.ones(2)), still) is None
    assert anderson(model(np.ones(2)), [np.zeros(2), np.full(2, np.inf)] * 2) is None


@pytest.mark.parametrize(
    ("numbers", "pairs"),
    [(3, 6), (MOST_NUMBERS // 12, 6), (MOST_NUMBERS // 10, 5), (MOST_NUMBERS // 4, 2)],
)
def test_pairs_that_are_kept(numbers: int, pairs: int) -> None:
    assert pairs_to_keep(model(np.ones(1)), np.empty(numbers)) == pairs
    assert pairs_to_keep(model(np.ones(1)), np.empty(MOST_NUMBERS // 4 + 1)) == 0


def test_gains_that_are_kept() -> None:
    gains: list[float] = []
    assert with_gain([1.0, 2.0], np.inf) == []
    for i in range(12):
        gains = with_gain(gains, float(i))
    assert gains == [float(i) for i in range(12 - WINDOW - 1, 12)]


def test_what_remains_is_a_geometric_series() -> None:
    """Between rates of 0.99 and 0.9999 the gains that are left are summed."""
    for rate, taken in ((0.995, 0.995), (0.5, 0.99), (0.99999, 0.9999)):
        gains = [3.0 * rate**i for i in range(6)]
        left = gains[-1] * taken / (1.0 - taken)
        assert remaining(gains, -1000.0) == pytest.approx(left, rel=1e-9)
    assert remaining([], -1.0) == np.inf
    # the slowest of the rates counts
    assert remaining([1.0, 0.995, 0.5], -1.0) == pytest.approx(0.5 * 0.995 / 0.005, rel=1e-9)


def test_gains_within_rounding_are_none() -> None:
    total = -1e6
    tiny = 2.0**-48 * 1e6
    assert remaining([1.0, tiny], total) == 0.0
    assert remaining([1.0, 1.01 * tiny], total) > 0.0
    # a fall shows how large rounding is, unless it is larger than float32 explains
    assert remaining([1.0, -0.01, 0.01], total) == 0.0
    assert remaining([1.0, -0.01, 0.0101], total) > 0.0
    assert remaining([-2.0, 1.0], total) > 0.0
    assert remaining([-0.01], total) == 0.0
    # no rate is taken from gains that are rounding
    assert remaining([tiny, 1.0, 0.5], total) == pytest.approx(0.5 * 0.99 / 0.01, rel=1e-9)


def test_convergence_is_seen_twice() -> None:
    slow = [1e-9 * 0.5**i for i in range(4)]
    assert has_converged(slow, -10.0, 10.0, 1e-3, "remaining")
    assert not has_converged([*slow, 1.0], -10.0, 10.0, 1e-3, "remaining")
    assert not has_converged([1.0, 1e-9], -10.0, 10.0, 1e-3, "remaining")
    assert not has_converged([], -10.0, 10.0, 1.0, "step")
    assert not has_converged([1e-12], -10.0, 10.0, 1e-3, "remaining")
    assert has_converged([5.0, 0.09], -10.0, 10.0, 0.01, "step")
    assert has_converged([5.0, -0.09], -10.0, 10.0, 0.01, "step")
    assert not has_converged([0.01, 0.1], -10.0, 10.0, 0.01, "step")
