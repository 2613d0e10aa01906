"""Beta components, and the shapes that maximise their likelihood, against scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import root
from scipy.special import digamma

from mixfold import Mixture
from mixfold.core.statistics import Block
from mixfold.families import _beta_shapes
from mixfold.families._beta_shapes import beta_shapes, mean_logs
from mixfold.families.beta import LEAST_SHAPE, MOST_TOTAL, Beta, BetaParams
from real_columns import assert_is_plain_em, assert_learns_tied_rows, assert_refused

RNG = np.random.default_rng(5)
X = np.concatenate(
    [RNG.beta([2.0, 9.0], [8.0, 3.0], (150, 2)), RNG.beta([20.0, 0.8], [10.0, 1.5], (100, 2))]
)
GRID = np.geomspace(LEAST_SHAPE, 0.9e8, 60)


def log_density(x: Any, alphas: Any, betas: Any) -> Any:
    return stats.beta.logpdf(x, alphas, betas)


def weighted_fit(x: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means = [np.average(t, axis=0, weights=r) for t in (np.log(x), np.log1p(-x))]
    found = []
    for m in np.transpose(means):
        solved = root(lambda u, m=m: digamma(np.exp(u)) - digamma(np.exp(u).sum()) - m, [0.5, 0.5])
        assert np.abs(solved.fun).max() < 1e-9
        found.append(np.exp(solved.x))
    alphas, betas = np.transpose(found)
    return alphas, betas


# the solver


def test_means_of_logarithms_are_those_of_digamma() -> None:
    a, b = np.meshgrid(np.geomspace(1e-3, 1e2, 30), np.geomspace(1e-3, 1e2, 30))
    m1, m2 = mean_logs(a, b)
    np.testing.assert_allclose(m1, digamma(a) - digamma(a + b), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(m2, digamma(b) - digamma(a + b), rtol=1e-11, atol=1e-12)


def test_shapes_invert_means_over_the_whole_domain() -> None:
    """Shapes from 1e-3 to 1e8; where both are large, rounding of the means is magnified."""
    a, b = (one.ravel() for one in np.meshgrid(GRID, GRID))
    inside = a + b < MOST_TOTAL
    a, b = a[inside], b[inside]
    found_a, found_b, beyond = beta_shapes(*mean_logs(a, b), MOST_TOTAL)
    assert not beyond.any()
    allowed = 1e-11 + 1e-15 * (a + b)
    assert (np.abs(found_a / a - 1.0) < allowed).all()
    assert (np.abs(found_b / b - 1.0) < allowed).all()


@settings(max_examples=300, deadline=None)
@given(st.floats(-3.0, 7.6), st.floats(-3.0, 7.6))
def test_every_pair_of_means_has_its_shapes(log_a: float, log_b: float) -> None:
    a, b = np.array([10.0**log_a]), np.array([10.0**log_b])
    m1, m2 = mean_logs(a, b)
    found_a, found_b, _ = beta_shapes(m1, m2, MOST_TOTAL)
    back1, back2 = mean_logs(found_a, found_b)
    np.testing.assert_allclose(back1, m1, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(back2, m2, rtol=1e-12, atol=1e-15)


def test_convergence_is_quadratic_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = np.meshgrid(np.geomspace(1e-2, 1e3, 40), np.geomspace(1e-2, 1e3, 40))
    m1, m2 = mean_logs(a, b)
    errors = []
    for iterations in range(10):
        monkeypatch.setattr(_beta_shapes, "ITERATIONS", iterations)
        errors.append(np.abs(np.log(beta_shapes(m1, m2, MOST_TOTAL)[0] / a)).max())
    near = [i for i in range(9) if errors[i] < 0.1]
    assert len(near) > 2
    assert all(errors[i + 1] < errors[i] ** 2 + 1e-11 for i in near)


def test_no_shape_depends_on_the_others() -> None:
    m1, m2 = mean_logs(GRID, GRID[::-1])
    together = beta_shapes(m1, m2, MOST_TOTAL)
    for i in range(0, len(GRID), 7):
        alone = beta_shapes(m1[i : i + 1], m2[i : i + 1], MOST_TOTAL)
        for one, all_of_them in zip(alone, together, strict=True):
            assert one[0] == all_of_them[i]


# the family


def test_mixture_is_plain_em() -> None:
    start = BetaParams(np.array([[1.0, 4.0], [8.0, 2.0]]), np.array([[3.0, 2.0], [5.0, 1.2]]))
    assert_is_plain_em(Beta(), X, start, log_density, weighted_fit, rtol=1e-6)


def test_one_component_is_scipys_fit() -> None:
    model = Mixture("beta").fit(X)
    for j in range(2):
        a, b, _, _ = stats.beta.fit(X[:, j], floc=0.0, fscale=1.0)
        assert model.alphas_[0, j] == pytest.approx(a, rel=1e-6)
        assert model.betas_[0, j] == pytest.approx(b, rel=1e-6)
    np.testing.assert_allclose(model.means_, stats.beta.mean(model.alphas_, model.betas_))


def test_reflected_values_exchange_the_shapes() -> None:
    one = Mixture("beta", 2, random_state=0).fit(X[:, :1])
    other = Mixture("beta", 2, random_state=0).fit(1.0 - X[:, :1])
    np.testing.assert_allclose(other.alphas_, one.betas_[::-1], rtol=1e-2)
    np.testing.assert_allclose(other.means_, 1.0 - one.means_[::-1], rtol=1e-2)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, 1.5])
def test_values_outside_are_refused(bad: float) -> None:
    assert_refused(Beta(), X, bad, "above 0 and below 1")
    assert_refused(Beta(), X.astype(np.float32), bad, "above 0 and below 1")


@pytest.mark.parametrize("value", [1e-59, 1e-9, 0.3, 0.5, 1.0 - 1e-15])
def test_tied_rows_are_at_the_limit(value: float) -> None:
    model = assert_learns_tied_rows(Beta(), X, value)
    total = model.alphas_ + model.betas_
    assert total.max() == pytest.approx(MOST_TOTAL, rel=1e-6)
    found = Beta().degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found, total > 0.9 * MOST_TOTAL)


@pytest.mark.parametrize("value", [0.01, 0.3, 0.5, 0.999])
def test_components_of_equal_rows_have_their_mean(value: float) -> None:
    x = np.full((30, 1), value)
    assert Mixture("beta").fit(x).means_[0, 0] == pytest.approx(value, rel=1e-5)


def test_statistics_out_of_their_domain_are_at_a_limit() -> None:
    """Logarithms above zero by rounding, and pairs of them that no values can have."""
    means = np.array([[1e-9, -0.5], [-0.1, -0.1], [0.0, 0.0], [-0.7, -0.75], [-138.0, -36.0]])
    params, count_degenerate = Beta().maximize((Block.of_means(np.ones(5), means),))
    assert count_degenerate == 3
    Beta().check_params(params, 5, 1)
    assert (params.alphas[3:] + params.betas[3:] < 100.0).all()


def test_values_close_to_the_ends_are_learned() -> None:
    x = np.array([[1e-60, 0.5], [1.0 - 1e-16, 1e-300], [0.2, 0.99], [0.4, 0.3], [0.5, 0.4]])
    for rows in (x, x[:2], np.tile(x[:2], (20, 1))):
        model = Mixture("beta", 2, random_state=0).fit(rows)
        assert np.isfinite(model.score_samples(rows)).all()
    params = BetaParams(np.full((1, 1), LEAST_SHAPE), np.full((1, 1), LEAST_SHAPE))
    outside = Beta().out_of_support(Beta().sample(params, np.zeros(1000, dtype=int), RNG))
    assert outside is not None
    assert not outside.any()


def test_divergence_by_hand() -> None:
    found = Beta().divergence(
        np.array([[0.5, 0.2]]), np.array([[0.5, 0.2], [0.25, 0.2]]), np.ones(1)
    )
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    np.testing.assert_allclose(found, [[0.0, expected]], atol=1e-12)
