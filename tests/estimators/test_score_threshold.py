"""Levels that are exceeded at a promised rate, on data and beyond them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import genpareto

from mixfold.errors import InvalidInputError
from mixfold.estimators._generalized_pareto import GeneralizedPareto, fit_excesses
from mixfold.estimators._score_digest import ScoreDigest
from mixfold.estimators._score_threshold import BLOCKS_IN_LEVEL, ScoreThreshold
from mixfold.estimators._score_threshold import exceeded_levels as levels

Draw = Callable[[np.random.Generator, int], np.ndarray]
BLOCK = 256


@pytest.mark.parametrize("shape", [-0.4, -1e-9, 0.0, 0.3, 2.0])
@pytest.mark.parametrize("survival", [0.5, 1e-2, 1e-6])
def test_levels_are_those_of_scipy(shape: float, survival: float) -> None:
    found = GeneralizedPareto(shape, 3.0).level(survival)
    assert found == pytest.approx(genpareto.isf(survival, shape, scale=3.0), rel=1e-6)


@pytest.mark.parametrize("shape", [-0.4, 0.0, 0.3, 2.0])
def test_an_estimate_is_near_the_maximum_likelihood_of_scipy(shape: float) -> None:
    excesses = np.sort(genpareto.rvs(shape, scale=3.0, size=800, random_state=0))
    found = fit_excesses(excesses)
    assert found is not None
    theirs, _, scale = genpareto.fit(excesses, floc=0)
    assert found.shape == pytest.approx(theirs, abs=0.05)
    assert found.scale == pytest.approx(scale, rel=0.05)


@pytest.mark.parametrize("excesses", [np.arange(1.0, 6.0), np.zeros(50), np.empty(0)])
def test_few_or_tied_excesses_have_no_estimate(excesses: np.ndarray) -> None:
    assert fit_excesses(excesses) is None


def test_equal_excesses_have_a_finite_estimate() -> None:
    found = fit_excesses(np.full(50, 2.0))
    assert found is not None
    assert np.isfinite(found.level(1e-4))


@pytest.mark.parametrize("rate", [0.3, 0.05, 1e-3, 1e-6])
def test_levels_of_an_exponential_distribution(rate: float) -> None:
    digest = ScoreDigest()
    digest.update(np.random.default_rng(0).exponential(size=100_000))
    (found,) = levels(digest, [rate])
    assert found == pytest.approx(-np.log(rate), rel=0.1)


def test_levels_of_ties_are_finite() -> None:
    digest = ScoreDigest()
    digest.update(np.full(5000, 7.0))
    np.testing.assert_allclose(levels(digest, [0.1, 1e-5]), 7.0)
    zeros = ScoreDigest()
    zeros.update(np.zeros(5000))
    np.testing.assert_allclose(levels(zeros, [0.1, 1e-5]), 0.0, atol=2e-9)


def realised(draw: Draw, rate: float, n: int, leaves_out: bool = True) -> float:
    """The fraction of scores above the threshold before they were learned, over the rate."""
    rng, threshold, alarms = np.random.default_rng(0), ScoreThreshold(rate, 20_000, leaves_out), 0
    for first in range(0, n, BLOCK):
        scores = draw(rng, first)
        alarms += int((scores > threshold.level).sum())
        threshold.update(scores[scores <= threshold.extreme_level], BLOCK)
    return alarms / n / rate


def exponential(rng: np.random.Generator, first: int) -> np.ndarray:
    return rng.exponential(size=BLOCK)


def heavy(rng: np.random.Generator, first: int) -> np.ndarray:
    return np.asarray(rng.standard_t(3.0, size=BLOCK) ** 2)


def rising(rng: np.random.Generator, first: int) -> np.ndarray:
    """The level rises by 15 spreads in 300,000 scores, and the spread grows to the double."""
    return rng.exponential(size=BLOCK) * (1.0 + first / 3e5) + first / 2e4


@pytest.mark.parametrize("draw", [exponential, heavy, rising], ids=lambda draw: draw.__name__)
@pytest.mark.parametrize(("rate", "within"), [(1e-2, 1.1), (1e-3, 1.25)])
def test_the_realised_rate_is_the_promised_one(draw: Draw, rate: float, within: float) -> None:
    assert 1.0 / within < realised(draw, rate, 300_000) < within


def equal_but_for_rounding(rng: np.random.Generator, first: int) -> np.ndarray:
    return np.full(BLOCK, -9.78 * (1.0 + 2.2e-16 * rng.integers(-2, 3)))


def two_values(rng: np.random.Generator, first: int) -> np.ndarray:
    return np.where(rng.random(BLOCK) < 0.5, -0.7, -2.8)


def four_values(rng: np.random.Generator, first: int) -> np.ndarray:
    return np.asarray(rng.choice([-3.0, -2.5, -1.0, 0.0], BLOCK))


@pytest.mark.parametrize("rate", [0.01, 1e-4])
@pytest.mark.parametrize(
    "draw", [equal_but_for_rounding, two_values, four_values], ids=lambda draw: draw.__name__
)
def test_frequent_values_raise_no_alarms(draw: Draw, rate: float) -> None:
    assert realised(draw, rate, 50_000) <= 1.0


def test_a_change_of_the_distribution_is_learned() -> None:
    def jump(rng: np.random.Generator, first: int) -> np.ndarray:
        return rng.exponential(size=BLOCK) * (1.0 if first < 50_000 else 5.0) + first // 50_000

    rng, threshold, alarms = np.random.default_rng(0), ScoreThreshold(0.01, 10_000, True), []
    for first in range(0, 200_000, BLOCK):
        scores = jump(rng, first)
        alarms.append((scores > threshold.level).mean())
        threshold.update(scores, BLOCK)
    assert np.mean(alarms[-200:]) == pytest.approx(0.01, rel=0.2)


@pytest.mark.parametrize("shock", [1e2, 1e5])
def test_a_sudden_change_is_followed_within_some_blocks(shock: float) -> None:
    rng, threshold = np.random.default_rng(0), ScoreThreshold(0.01, 100_000, True)
    for _ in range(40):
        threshold.update(exponential(rng, 0), BLOCK)
    threshold.update(shock * (1.0 + exponential(rng, 0)), BLOCK)  # before the model has learned it
    alarms = []
    for _ in range(200):
        scores = 3.0 * exponential(rng, 0) + 8.0
        alarms.append((scores > threshold.level).mean())
        threshold.update(scores, BLOCK)
    assert np.mean(alarms[3:]) == pytest.approx(0.01, rel=0.25)


def test_one_unusual_block_changes_no_threshold() -> None:
    one, other = ScoreThreshold(1e-3, 100_000, True), ScoreThreshold(1e-3, 100_000, True)
    rng = np.random.default_rng(0)
    for i in range(60):
        scores = exponential(rng, 0)
        one.update(scores, BLOCK)
        other.update(scores, BLOCK)
        if i == 40:
            other.update(scores + 1e4, BLOCK)
            again = ScoreThreshold.from_state(other.state())
            again.update(scores + 1e4, BLOCK)
            assert again.level > 1e3
    assert other.level == one.level


def test_few_extreme_rows_are_left_out_and_many_are_not() -> None:
    threshold = ScoreThreshold(0.01, 10_000, True)
    assert sum(threshold.leave_out() for _ in range(1000)) == 50
    threshold.update(np.empty(0), BLOCK)
    assert sum(threshold.leave_out() for _ in range(1000)) == 2  # 1% of a block


def test_a_state_continues_to_the_same_bits() -> None:
    rng, threshold = np.random.default_rng(0), ScoreThreshold(1e-3, 5000, True)
    for i in range(3 * BLOCKS_IN_LEVEL):
        threshold.update(exponential(rng, 0), BLOCK)
        if i % 7 == 0:
            threshold.state()  # saving changes nothing
    other = ScoreThreshold.from_state(threshold.state())
    for _ in range(60):
        scores = exponential(rng, 0)
        threshold.update(scores, BLOCK)
        other.update(scores, BLOCK)
    assert other.level == threshold.level
    assert (other.state().recent == threshold.state().recent).all()


def test_saving_does_not_change_later_levels() -> None:
    one, other = ScoreThreshold(1e-3, 5000, True), ScoreThreshold(1e-3, 5000, True)
    a, b = np.random.default_rng(0), np.random.default_rng(0)
    for _ in range(100):
        one.update(exponential(a, 0), BLOCK)
        other.update(exponential(b, 0), BLOCK)
        other.state()
    assert one.level == other.level


def test_damaged_digests_are_refused() -> None:
    digest = ScoreDigest()
    digest.update(np.arange(100.0))
    good = digest.to_bytes()
    assert len(ScoreDigest.from_bytes(good)) == 100
    for bad in (good[:20], good[:0], np.zeros(64, dtype=np.uint8)):
        with pytest.raises(InvalidInputError, match="digest of scores"):
            ScoreDigest.from_bytes(bad)
    digest.update(np.array([np.inf]))
    with pytest.raises(InvalidInputError, match=r"lie from 0\.0 to inf"):
        ScoreDigest.from_bytes(digest.to_bytes())
