"""Wishart components, and degrees of freedom of highest likelihood, against scipy and plain EM."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq
from scipy.special import digamma, softmax

from mixfold import EM, Gamma, Mixture, Wishart
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block, pack, unpack
from mixfold.families._positive_definite import is_positive_definite, log_determinants
from mixfold.families._wishart_degrees import excess_degrees, log_gaps
from mixfold.families.wishart import LEAST_EXCESS, MOST, WishartParams
from mixfold.models.mixture_model import MixtureParams
from mixfold.testing import _quadrature

V1, V2 = np.array([[1.0, 0.3], [0.3, 2.0]]), np.array([[4.0, -1.0], [-1.0, 1.0]])
RNG = np.random.default_rng(1)
NARROW, WIDE = stats.wishart(4, V1), stats.wishart(12.5, V2)
S = np.concatenate([NARROW.rvs(150, random_state=RNG), WIDE.rvs(100, random_state=RNG)])
X = pack(S)


def weighted_fit(s: np.ndarray, r: np.ndarray) -> tuple[float, np.ndarray]:
    mean = np.average(s, axis=0, weights=r)
    gap = np.linalg.slogdet(mean)[1] - np.average(np.linalg.slogdet(s)[1], weights=r)

    def lack(n: float) -> float:
        return float(2.0 * np.log(n / 2.0) - digamma(n / 2.0) - digamma((n - 1.0) / 2.0) - gap)

    n = brentq(lack, 1.0 + 1e-6, 1e6, xtol=1e-12, rtol=1e-14)
    return n, mean / n


# the solver


@pytest.mark.parametrize("p", [1, 2, 5, 20])
def test_gaps_are_those_of_exact_arithmetic(p: int) -> None:
    for excess in (1e-3, 0.5, 7.0, 39.0, 1e4, 1e8):
        with mpmath.workdps(40):
            a = (mpmath.mpf(excess) + p - 1) / 2
            expected = p * mpmath.log(a) - mpmath.fsum(
                mpmath.digamma(a - mpmath.mpf(i) / 2) for i in range(p)
            )
        found = log_gaps(np.array([excess]), p)[0]
        assert found == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("p", [1, 2, 3, 10, 50, 200])
def test_degrees_invert_gaps_over_the_whole_domain(p: int) -> None:
    excess = np.geomspace(LEAST_EXCESS, MOST, 500)
    np.testing.assert_allclose(excess_degrees(log_gaps(excess, p), p), excess, rtol=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.floats(-7.5, 2.9), st.integers(1, 30))
def test_every_gap_has_its_degrees(log_gap: float, p: int) -> None:
    gap = np.array([10.0**log_gap])
    np.testing.assert_allclose(log_gaps(excess_degrees(gap, p), p), gap, rtol=1e-12)


# determinants


@pytest.mark.parametrize("p", [1, 2, 3, 6, 20])
def test_determinants_are_numpys(p: int) -> None:
    rng = np.random.default_rng(p)
    roots = rng.normal(size=(200, p, p)) * 10.0 ** rng.uniform(-9.0, 9.0, (200, p, 1))
    matrices = roots @ roots.swapaxes(1, 2)
    found = log_determinants(matrices)
    np.testing.assert_allclose(found, 2.0 * np.linalg.slogdet(roots)[1], rtol=1e-6, atol=1e-6)
    well = is_positive_definite(matrices)
    assert well.mean() > 0.9
    assert not is_positive_definite(-matrices).any()
    assert np.isfinite(log_determinants(matrices - 1e3 * np.eye(p))).all()


def test_matrices_that_are_not_positive_definite_are_found() -> None:
    rng = np.random.default_rng(0)
    symmetric = rng.normal(size=(500, 4, 4))
    symmetric = symmetric + symmetric.swapaxes(1, 2) + 3.0 * np.eye(4)
    expected = np.linalg.eigvalsh(symmetric)[:, 0] > 0.0
    np.testing.assert_array_equal(is_positive_definite(symmetric), expected)
    assert 50 < expected.sum() < 450


# the family


@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_density_is_scipys(p: int) -> None:
    rng = np.random.default_rng(p)
    like = Wishart().example(4, p * (p + 1) // 2, rng)
    excess = np.array([0.01, 1.0, 50.0, 1e4])
    for size in (1e-20, 1.0, 1e20, 1e55):
        params = WishartParams(p - 1.0 + excess, size * like.scales)
        x = Wishart().sample(WishartParams(p + 3.0 + excess, params.scales), np.arange(4), rng)
        found = Wishart().log_density(params, x)
        expected = Wishart().scipy_log_density(params, x)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-8)


def test_density_has_total_one_for_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three free coordinates, on a coarser grid than the law has for two."""
    monkeypatch.setattr(_quadrature, "STEP", 0.1)
    params = WishartParams(np.array([6.5]), np.array([[[1.0, 0.4], [0.4, 0.5]]]))
    rows = Wishart().sample(params, np.zeros(2000, dtype=int), np.random.default_rng(0))
    points, weights = _quadrature.row_quadrature(Wishart(), rows)
    total = weights @ np.exp(Wishart().log_density(params, points)[:, 0])
    assert total == pytest.approx(1.0, rel=1e-4)


def test_one_row_is_the_gamma_family() -> None:
    x = stats.gamma.rvs(3.0, scale=2.0, size=(300, 1), random_state=0)
    one, other = Mixture("wishart").fit(x), Mixture("gamma").fit(x)
    assert one.score(x) == pytest.approx(other.score(x), rel=1e-10)
    np.testing.assert_allclose(one.means_, other.means_, rtol=1e-10)
    shapes = Gamma().unconstrained(other.params_.components)
    assert shapes.shape == (1, 2)
    assert 0.5 * one.degrees_of_freedom_[0] == pytest.approx(other.shapes_[0, 0], rel=1e-9)


def test_one_component_solves_the_likelihood_equations() -> None:
    model = Mixture("wishart").fit(X)
    n, scale = weighted_fit(S, np.ones(len(S)))
    assert model.degrees_of_freedom_[0] == pytest.approx(n, rel=1e-8)
    np.testing.assert_allclose(model.scales_[0], scale, rtol=1e-8)
    np.testing.assert_allclose(unpack(model.means_, 2)[0], S.mean(axis=0), rtol=1e-10)


def test_mixture_is_plain_em() -> None:
    weights, degrees, scales = np.array([0.4, 0.6]), np.array([3.0, 9.0]), np.stack([V1, V2])
    start = MixtureParams(weights, WishartParams(degrees, scales))
    learner = EM(tol=0.0, max_iter=6, accelerate=False)
    model = Mixture("wishart", 2, init=start, learner=learner).fit(X)
    for _ in range(6):
        pairs = zip(degrees, scales, strict=True)
        columns = [stats.wishart.logpdf(S.transpose(1, 2, 0), n, v) for n, v in pairs]
        r = softmax(np.log(weights) + np.stack(columns, axis=1), axis=1)
        fits = [weighted_fit(S, one) for one in r.T]
        weights, degrees = r.mean(axis=0), np.array([n for n, _ in fits])
        scales = np.stack([v for _, v in fits])
    np.testing.assert_allclose(model.params_.weights, weights, rtol=1e-7)
    np.testing.assert_allclose(model.params_.components.degrees_of_freedom, degrees, rtol=1e-7)
    np.testing.assert_allclose(model.params_.components.scales, scales, rtol=1e-7)


def test_the_parameters_of_many_rows_are_found() -> None:
    rng = np.random.default_rng(3)
    truth = Wishart().example(2, 6, rng)
    truth = WishartParams(np.array([5.0, 15.0]), truth.scales * [[[1.0]], [[3.0]]])
    x = Wishart().sample(truth, np.repeat([0, 1], [6000, 2000]), rng)
    model = Mixture("wishart", 2, random_state=0).fit(x)
    order = np.argsort(-model.weights_)
    np.testing.assert_allclose(model.weights_[order], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(model.degrees_of_freedom_[order], [5.0, 15.0], rtol=0.05)
    np.testing.assert_allclose(model.scales_[order], truth.scales, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_not_positive_definite_are_refused(dtype: type) -> None:
    for bad in ([1.0, 2.0, 1.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 1.0], [1.0, 1.0, 1.0]):
        x: np.ndarray = X.astype(dtype)
        x[4] = bad
        for call in (Mixture("wishart", 2).fit, Mixture("wishart", 2).partial_fit):
            with pytest.raises(InvalidInputError, match=r"row 5, .* positive definite matrix"):
                call(x)
    Mixture("wishart", 2, random_state=0).fit(X.astype(dtype))


@pytest.mark.parametrize(("d", "message"), [(2, "such as 1 or 3, not 2"), (4, "3 or 6, not 4")])
def test_columns_that_are_not_a_triangle_are_refused(d: int, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Mixture("wishart", 2).fit(np.ones((20, d)))


def test_equal_rows_are_at_the_limit() -> None:
    x = np.concatenate([X, np.tile([2.0, 0.5, 1.0], (len(X), 1))])
    blocks = Wishart().blocks_of(x, np.repeat(np.eye(2), len(X), axis=0))
    components, count_degenerate = Wishart().maximize(blocks)
    assert count_degenerate == 1
    start = MixtureParams(np.full(2, 0.5), components)
    model = Mixture("wishart", 2, init=start, learner=EM(max_iter=20)).fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    assert model.degrees_of_freedom_.max() == pytest.approx(MOST, rel=1e-6)
    found = Wishart().degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found.all(axis=1), model.degrees_of_freedom_ > 0.9 * MOST)


def test_statistics_out_of_their_domain_are_at_a_limit() -> None:
    """Singular means, means that rounding made negative, and logarithms that are too large."""
    means = np.array([[1.0, 1.0, 1.0, -9.0], [1.0, 0.0, -1e-9, -9.0], [1.0, 0.0, 1.0, 0.5]])
    params, count_degenerate = Wishart().maximize((Block.of_means(np.ones(3), means),))
    assert count_degenerate == 3
    Wishart().check_params(params, 3, 3)


def test_parameters_outside_their_domain_are_refused() -> None:
    good = WishartParams(np.array([1.5]), V1[None])
    Wishart().check_params(good, 1, 3)
    with pytest.raises(InvalidInputError, match=r"degrees_of_freedom has 0\.9"):
        Wishart().check_params(WishartParams(np.array([0.9]), V1[None]), 1, 3)
    with pytest.raises(InvalidInputError, match="symmetric, positive definite"):
        Wishart().check_params(WishartParams(np.array([3.0]), np.ones((1, 2, 2))), 1, 3)


def test_coordinates_beyond_the_limits_are_valid() -> None:
    coordinates = np.random.default_rng(0).choice([-1e9, 0.0, 1e9], size=(60, 7))
    params = Wishart().constrained(coordinates, Wishart().example(60, 6, np.random.default_rng(0)))
    Wishart().check_params(params, 60, 6)


def test_divergence_by_hand() -> None:
    x, centers = pack(np.stack([V1])), pack(np.stack([V1, V2]))
    found = Wishart().divergence(x, centers, np.ones(1))
    product = V1 @ np.linalg.inv(V2)
    expected = np.trace(product) - np.log(np.linalg.det(product)) - 2.0
    np.testing.assert_allclose(found, [[0.0, expected]], atol=1e-12)
