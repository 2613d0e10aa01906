"""Dirichlet components, and the concentrations of highest likelihood, against scipy and mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import root
from scipy.special import digamma, softmax

from mixfold import EM, Beta, Dirichlet, Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.statistics import Block
from mixfold.families import _dirichlet_concentrations
from mixfold.families._dirichlet_concentrations import dirichlet_concentrations, mean_logs
from mixfold.families.beta import BetaParams
from mixfold.families.dirichlet import LEAST, MOST_TOTAL, DirichletParams
from mixfold.models.mixture_model import MixtureParams
from mixfold.testing import families

RNG = np.random.default_rng(5)
X = np.concatenate([RNG.dirichlet([2.0, 9.0, 4.0], 150), RNG.dirichlet([20.0, 0.8, 6.0], 100)])


def spread_alphas(n: int, d: int) -> np.ndarray:
    """Concentrations from 1e-3 to 1e8: each of its own size, all of one size, one far larger."""
    rng = np.random.default_rng(d)
    own = 10.0 ** rng.uniform(-3.0, 7.5, (n, d))
    common = 10.0 ** rng.uniform(-3.0, 7.5, (n, 1)) * rng.dirichlet(np.ones(d), n)
    small = 10.0 ** rng.uniform(-3.0, -1.0, (n, d))
    one = small.copy()
    one[:, 0] = own[:, 0]
    alphas = np.maximum(np.concatenate([own, common, small, one]), LEAST)
    return np.asarray(alphas[alphas.sum(axis=1) < 0.9 * MOST_TOTAL])


def weighted_fit(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    means = np.average(np.log(x), axis=0, weights=r)
    solved = root(lambda u: digamma(np.exp(u)) - digamma(np.exp(u).sum()) - means, np.ones(3))
    assert np.abs(solved.fun).max() < 1e-9
    return np.asarray(np.exp(solved.x))


# the solver


def test_means_of_logarithms_are_those_of_digamma() -> None:
    alphas = 10.0 ** RNG.uniform(-3.0, 2.0, (300, 4))
    expected = digamma(alphas) - digamma(alphas.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(mean_logs(alphas), expected, rtol=1e-11, atol=1e-12)


def test_means_of_logarithms_do_not_cancel() -> None:
    for alphas in ([1e8, 1e-3, 2.0], [3e7, 4e7, 3e7], [1e-3, 1e-3, 1e-3]):
        with mpmath.workdps(40):
            total = mpmath.digamma(mpmath.fsum(alphas))
            expected = [float(mpmath.digamma(a) - total) for a in alphas]
        np.testing.assert_allclose(mean_logs(np.array([alphas]))[0], expected, rtol=1e-13)


@pytest.mark.parametrize("d", [2, 3, 5, 20, 200])
def test_concentrations_invert_means_over_the_whole_domain(d: int) -> None:
    """Where they are large, rounding of the means is magnified."""
    alphas = spread_alphas(1000, d)
    found, beyond = dirichlet_concentrations(mean_logs(alphas), MOST_TOTAL)
    assert not beyond.any()
    allowed = 1e-10 + 5e-14 * alphas.sum(axis=1, keepdims=True)
    assert (np.abs(found / alphas - 1.0) < allowed).all()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-3.0, 7.4), min_size=2, max_size=12))
def test_all_means_have_their_concentrations(logs: list[float]) -> None:
    means = mean_logs(10.0 ** np.array([logs]))
    found, beyond = dirichlet_concentrations(means, 10.0 * MOST_TOTAL)
    assert not beyond.any()
    np.testing.assert_allclose(mean_logs(found), means, rtol=1e-11, atol=1e-14)


def test_convergence_is_quadratic_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    alphas = 10.0 ** RNG.uniform(-2.0, 3.0, (2000, 3))
    means, errors = mean_logs(alphas), []
    for iterations in range(11):
        monkeypatch.setattr(_dirichlet_concentrations, "ITERATIONS", iterations)
        found = dirichlet_concentrations(means, MOST_TOTAL)[0]
        errors.append(np.abs(np.log(found / alphas)).max())
    near = [i for i in range(10) if errors[i] < 0.1]
    assert len(near) > 2
    assert all(errors[i + 1] < errors[i] ** 2 + 1e-10 for i in near)


def test_no_component_depends_on_the_others() -> None:
    means = mean_logs(spread_alphas(20, 4))
    together = dirichlet_concentrations(means, MOST_TOTAL)
    for i in range(0, len(means), 9):
        alone = dirichlet_concentrations(means[i : i + 1], MOST_TOTAL)
        np.testing.assert_array_equal(alone[0][0], together[0][i])


# the family


@pytest.mark.parametrize("d", [2, 3, 10, 100])
def test_density_is_scipys(d: int) -> None:
    for low, high in ((-3.0, -1.0), (-1.0, 1.0), (0.0, 3.0), (2.0, 5.0)):
        params = DirichletParams(10.0 ** RNG.uniform(low, high, (3, d)))
        rows = RNG.dirichlet(np.full(d, 2.0), 30)
        rows /= rows.sum(axis=1, keepdims=True)
        found = Dirichlet().log_density(params, rows)
        np.testing.assert_allclose(found, Dirichlet().scipy_log_density(params, rows), rtol=1e-10)


def test_density_at_the_limits_is_that_of_exact_arithmetic() -> None:
    """Up to what rounding of the proportions means for such concentrations."""
    x = np.array([[0.25, 0.25, 0.5]])
    for alphas in ([2e7, 3e7, 4e7], [1e-3, 1e-3, 1e-3], [1e-3, 1e7, 2.0]):
        found = Dirichlet().log_density(DirichletParams(np.array([alphas])), x)[0, 0]
        with mpmath.workdps(40):
            expected = mpmath.loggamma(mpmath.fsum(alphas)) + mpmath.fsum(
                (mpmath.mpf(a) - 1) * mpmath.log(mpmath.mpf(s)) - mpmath.loggamma(a)
                for a, s in zip(alphas, x[0], strict=True)
            )
        assert found == pytest.approx(float(expected), rel=1e-13)


@pytest.mark.parametrize("d", [2, 3])
def test_density_has_total_one_on_the_simplex(d: int) -> None:
    families.density_has_total_one(Dirichlet(), 2, d, np.random.default_rng(d))


def test_two_columns_are_the_beta_family() -> None:
    p = RNG.beta(2.0, 3.0, (50, 1))
    found = Dirichlet().log_density(DirichletParams(np.array([[2.0, 5.0]])), np.hstack([p, 1 - p]))
    expected = Beta().log_density(BetaParams(np.array([[2.0]]), np.array([[5.0]])), p)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    one = Mixture("dirichlet").fit(np.hstack([p, 1 - p]))
    other = Mixture("beta").fit(p)
    np.testing.assert_allclose(one.alphas_[0], [other.alphas_[0, 0], other.betas_[0, 0]], rtol=1e-8)


def test_one_component_solves_the_likelihood_equations() -> None:
    model = Mixture("dirichlet").fit(X)
    np.testing.assert_allclose(model.alphas_[0], weighted_fit(X, np.ones(len(X))), rtol=1e-7)
    np.testing.assert_allclose(model.means_.sum(), 1.0)

    def likelihood(alphas: np.ndarray) -> float:
        return float(stats.dirichlet.logpdf(X.T, alphas).sum())

    best = likelihood(model.alphas_[0])
    for factor in RNG.uniform(0.98, 1.02, (20, 3)):
        assert likelihood(factor * model.alphas_[0]) < best


def test_mixture_is_plain_em() -> None:
    weights, alphas = np.array([0.4, 0.6]), np.array([[1.0, 4.0, 2.0], [8.0, 2.0, 3.0]])
    start = MixtureParams(weights, DirichletParams(alphas))
    learner = EM(tol=0.0, max_iter=6, accelerate=False)
    model = Mixture("dirichlet", 2, init=start, learner=learner).fit(X)
    for _ in range(6):
        logs = np.stack([stats.dirichlet.logpdf(X.T, a) for a in alphas], axis=1)
        r = softmax(np.log(weights) + logs, axis=1)
        weights, alphas = r.mean(axis=0), np.stack([weighted_fit(X, one) for one in r.T])
    np.testing.assert_allclose(model.params_.weights, weights, rtol=1e-6)
    np.testing.assert_allclose(model.params_.components.alphas, alphas, rtol=1e-6)


def test_the_parameters_of_many_rows_are_found() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.dirichlet([2.0, 9.0, 4.0], 15_000), rng.dirichlet([20, 1, 6], 5_000)])
    model = Mixture("dirichlet", 2, random_state=0).fit(x)
    order = np.argsort(-model.weights_)
    np.testing.assert_allclose(model.weights_[order], [0.75, 0.25], atol=0.01)
    np.testing.assert_allclose(model.alphas_[order], [[2, 9, 4], [20, 1, 6]], rtol=0.06)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_not_proportions_are_refused(dtype: type) -> None:
    for column, bad in ((1, -0.1), (1, 1.5), (0, 0.9)):
        x: np.ndarray = X.astype(dtype)
        x[4, 1] = 0.2
        x[4, column] = bad
        place = rf"row 5, column {column + 1} .*: values must be from 0 to 1, and .* sum to 1"
        for call in (Mixture("dirichlet", 2).fit, Mixture("dirichlet", 2).partial_fit):
            with pytest.raises(InvalidInputError, match=place):
                call(x)
    Mixture("dirichlet", 2, random_state=0).fit(X.astype(dtype))


def test_one_column_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="at least 2 columns"):
        Mixture("dirichlet", 2).fit(np.ones((20, 1)))


@pytest.mark.parametrize("row", [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
def test_equal_rows_are_at_the_limit(row: list[float]) -> None:
    x = np.concatenate([X, np.tile(row, (len(X), 1))])
    blocks = Dirichlet().blocks_of(x, np.repeat(np.eye(2), len(X), axis=0))
    components, count_degenerate = Dirichlet().maximize(blocks)
    assert count_degenerate == 1
    start = MixtureParams(np.full(2, 0.5), components)
    model = Mixture("dirichlet", 2, init=start, learner=EM(max_iter=20)).fit(x)
    assert np.isfinite(model.score_samples(x)).all()
    total = model.alphas_.sum(axis=1)
    assert total.max() == pytest.approx(MOST_TOTAL, rel=1e-6)
    np.testing.assert_allclose(model.means_[total.argmax()], row, atol=1e-5)
    found = Dirichlet().degenerate(model.params_.components, model.weights_)
    np.testing.assert_array_equal(found.all(axis=1), total > 0.9 * MOST_TOTAL)


def test_zeros_are_learned() -> None:
    x = X.copy()
    x[::5] = [0.0, 0.4, 0.6]
    x[1] = [0.0, 0.0, 1.0]
    model = Mixture("dirichlet", 2, random_state=0).fit(x)
    assert np.isfinite(model.score_samples(x)).all()


def test_statistics_out_of_their_domain_are_at_a_limit() -> None:
    """Logarithms above zero by rounding, and those that no proportions can have."""
    means = np.array([[1e-9, -0.5], [-0.1, -0.1], [0.0, 0.0], [-0.7, -0.75], [-138.0, -36.0]])
    params, count_degenerate = Dirichlet().maximize((Block.of_means(np.ones(5), means),))
    assert count_degenerate == 3
    Dirichlet().check_params(params, 5, 2)
    assert (params.alphas[3:].sum(axis=1) < 100.0).all()


def test_samples_of_the_smallest_concentrations_are_proportions() -> None:
    params = DirichletParams(np.array([[LEAST, LEAST], [0.4 * MOST_TOTAL, 0.6 * MOST_TOTAL]]))
    x = Dirichlet().sample(params, np.repeat([0, 1], 500), RNG)
    outside = Dirichlet().out_of_support(x)
    assert outside is not None
    assert not outside.any()
    assert 0.35 < x[:500, 0].mean() < 0.65
    np.testing.assert_allclose(x[500:, 0], 0.4, atol=1e-3)


def test_divergence_by_hand() -> None:
    found = Dirichlet().divergence(
        np.array([[0.5, 0.5]]), np.array([[0.5, 0.5], [0.25, 0.75]]), np.ones(1)
    )
    expected = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    np.testing.assert_allclose(found, [[0.0, expected]], atol=1e-12)


def test_standard_deviations_are_those_of_beta_margins() -> None:
    alphas = np.array([[2.0, 3.0, 5.0]])
    found = Dirichlet().standard_deviations(DirichletParams(alphas))
    np.testing.assert_allclose(found, stats.beta.std(alphas, 10.0 - alphas))


def test_coordinates_beyond_the_limits_are_at_them() -> None:
    like = DirichletParams(np.ones((2, 3)))
    params = Dirichlet().constrained(np.array([[99.0, 99.0, -99.0], [-99.0, 0.0, 0.0]]), like)
    np.testing.assert_allclose(params.alphas[0], [MOST_TOTAL / 2, MOST_TOTAL / 2, LEAST])
    np.testing.assert_allclose(params.alphas[1], [LEAST, 1.0, 1.0])
