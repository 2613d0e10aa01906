"""Missing cells of Student t and factor distributions, against scipy and an EM of a few lines."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import digamma, logsumexp
from scipy.stats import multivariate_normal, multivariate_t

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Rows
from mixfold.estimators.mixture import Mixture
from mixfold.families.factor_analysis import FactorParams, posterior, spread
from mixfold.families.gaussian import Gaussian
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.observed_columns import ObservedColumns
from mixfold.families.observed_factors import ObservedFactors
from mixfold.families.observed_student_t import ObservedStudentT
from mixfold.families.product import Product
from mixfold.families.student_t import StudentT
from mixfold.kernels.choice import kernel_for
from mixfold.learners.em import EM
from mixfold.models.conditioning import conditional, marginal
from mixfold.models.imputation import impute
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing.families import example_mixture

STUDENT = [StudentT(), StudentT("diag"), StudentT(degrees=None), StudentT("diag", degrees=None)]
FACTOR = [Gaussian("factor", rank=1), Gaussian("factor", rank=3)]
FAMILIES: list[Family] = [*STUDENT, *FACTOR]
GROUPS = Product({(0, 3): StudentT(degrees=None), (1, 2, 4): Gaussian("factor", rank=1)})
K, D = 3, 5

Step = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def example(family: Family, n: int = 120, k: int = K) -> tuple[MixtureModel, MixtureParams, Rows]:
    """Rows of which a third of the cells are missing; of the first, all are."""
    model, params, x = example_mixture(with_missing(family), k, D, n, rng())
    x[rng(1).random(x.shape) < 0.3] = np.nan
    x[0] = np.nan
    return model, params, Rows(x)


def matrices(family: Family, components: object) -> np.ndarray:
    """Scale or covariance matrices of all components, (K, d, d)."""
    if isinstance(components, FactorParams):
        cross = components.loadings.swapaxes(1, 2) @ components.loadings
        return np.asarray(cross + components.noise_variance[:, None] * np.eye(cross.shape[1]))
    found = family.attributes(components)["scale_matrices"]
    return found if found.ndim == 3 else found[:, None] * np.eye(found.shape[1])


def scipy_density(family: Family, components: object, k: int, cells: np.ndarray) -> float:
    """The log density of the cells of a row that are there."""
    o, sigma = np.flatnonzero(~np.isnan(cells)), matrices(family, components)[k]
    if not len(o):
        return 0.0
    mean, part = components.means[k, o], sigma[np.ix_(o, o)]  # type: ignore[attr-defined]
    if isinstance(components, FactorParams):
        return float(multivariate_normal.logpdf(cells[o], mean, part))
    return float(multivariate_t.logpdf(cells[o], mean, part, components.degrees[k]))  # type: ignore[attr-defined]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_density_is_that_of_the_observed_cells(family: Family) -> None:
    model, params, rows = example(family)
    found = model.family.log_density(params.components, rows.x)
    for i, row in enumerate(rows.x):
        expected = [scipy_density(family, params.components, k, row) for k in range(K)]
        np.testing.assert_allclose(found[i], expected, rtol=1e-10, atol=1e-10)


def test_diagonal_gaussians_are_independent_columns() -> None:
    assert isinstance(with_missing(Gaussian("diag")), ObservedColumns)
    assert isinstance(with_missing(StudentT("diag")), ObservedStudentT)


# an independent EM


def passes(model: MixtureModel, params: MixtureParams, rows: Rows, n: int) -> MixtureParams:
    """The parameters after passes of EM without acceleration."""
    learner, backend = EM(tol=0.0, max_iter=n, accelerate=False), Threads(model, 1)
    state = learner.init(backend, params)
    for _ in range(n):
        state, _ = learner.step(backend, state, rows)
        state, _ = learner.end_pass(backend, state)
    found: MixtureParams = learner.estimate(backend, state)
    return found


def responsibilities(family: Family, params: MixtureParams, row: np.ndarray) -> np.ndarray:
    each = [scipy_density(family, params.components, k, row) for k in range(len(params.weights))]
    logs = np.log(params.weights) + each
    return np.asarray(np.exp(logs - logsumexp(logs)))


def filled_row(
    mean: np.ndarray, sigma: np.ndarray, row: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """The row with conditional means, the covariance of what is missing, and the distance."""
    o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
    slope = sigma[np.ix_(m, o)] @ np.linalg.inv(sigma[np.ix_(o, o)])
    full, rest = row.copy(), np.zeros_like(sigma)
    full[m] = mean[m] + slope @ (row[o] - mean[o])
    rest[np.ix_(m, m)] = sigma[np.ix_(m, m)] - slope @ sigma[np.ix_(o, m)]
    away = row[o] - mean[o]
    return full, rest, float(away @ np.linalg.solve(sigma[np.ix_(o, o)], away))


def own_student_step(family: Family, params: MixtureParams, x: np.ndarray) -> Step:
    """Weights, means, scale matrices and degrees after a pass over rows, one at a time."""
    theta, sigma = params.components, matrices(family, params.components)
    nu, d = theta.degrees, x.shape[1]
    mass, precise, logs = np.zeros(K), np.zeros(K), np.zeros(K)
    first, second = np.zeros((K, d)), np.zeros((K, d, d))
    for row in x:
        n_observed = (~np.isnan(row)).sum()
        for k, r in enumerate(responsibilities(family, params, row)):
            full, rest, delta = filled_row(theta.means[k], sigma[k], row)
            half = 0.5 * (nu[k] + n_observed)
            u = (nu[k] + n_observed) / (nu[k] + delta)
            mass[k] += r
            precise[k] += r * u
            logs[k] += r * (digamma(half) - np.log(0.5 * (nu[k] + delta)))
            first[k] += r * u * full
            second[k] += r * (u * np.outer(full, full) + rest)
    means = first / precise[:, None]
    scales = second / precise[:, None, None] - means[:, :, None] * means[:, None, :]
    gaps = np.log(precise / mass) - logs / mass
    degrees = [brentq(lambda v, g=g: np.log(v / 2) - digamma(v / 2) - g, 0.1, 1e6) for g in gaps]
    return mass / len(x), means, scales, np.array(degrees)


@pytest.mark.parametrize("family", STUDENT, ids=repr)
def test_student_t_agrees_with_an_independent_em(family: StudentT) -> None:
    model, params, rows = example(family)
    for _ in range(4):
        weights, means, scales, degrees = own_student_step(family, params, rows.x)
        params = passes(model, params, rows, 1)
        np.testing.assert_allclose(params.weights, weights, rtol=1e-8)
        np.testing.assert_allclose(params.components.means, means, rtol=1e-8, atol=1e-10)
        found = matrices(family, params.components)
        if family.covariance == "diag":
            scales = scales * np.eye(D)
        np.testing.assert_allclose(found, scales, rtol=1e-8, atol=1e-10)
        expected = degrees if family.degrees is None else np.full(K, 4.0)
        np.testing.assert_allclose(params.components.degrees, expected, rtol=1e-6)


def own_factor_step(params: MixtureParams, x: np.ndarray, family: Family) -> Step:
    """Weights, means, covariances explained by factors and variances of the noise, after a pass.

    Rows and factors are one Gaussian vector, whose factors are always missing.
    """
    theta, d = params.components, x.shape[1]
    q = theta.loadings.shape[1]
    sigma = matrices(family, theta)
    mass, first = np.zeros(K), np.zeros((K, d + q))
    second = np.zeros((K, d + q, d + q))
    for row in x:
        for k, r in enumerate(responsibilities(family, params, row)):
            load = theta.loadings[k]
            joint = np.block([[sigma[k], load.T], [load, np.eye(q)]])
            wide, mean = np.append(row, np.full(q, np.nan)), np.append(theta.means[k], np.zeros(q))
            full, rest, _ = filled_row(mean, joint, wide)
            mass[k] += r
            first[k] += r * full
            second[k] += r * (np.outer(full, full) + rest)
    mean = first / mass[:, None]
    moments = second / mass[:, None, None] - mean[:, :, None] * mean[:, None, :]
    cross, factors = moments[:, d:, :d], moments[:, d:, d:]
    signal = cross.swapaxes(1, 2) @ np.linalg.inv(factors) @ cross
    noise = np.diagonal(moments[:, :d, :d] - signal, axis1=1, axis2=2)
    return mass / len(x), mean[:, :d], signal, noise


@pytest.mark.parametrize("rank", [1, 2])
def test_factors_agree_with_an_independent_em(rank: int) -> None:
    family = Gaussian("factor", rank=rank)
    model, params, rows = example(family)
    for _ in range(4):
        weights, means, signal, noise = own_factor_step(params, rows.x, family)
        params = passes(model, params, rows, 1)
        theta = params.components
        np.testing.assert_allclose(params.weights, weights, rtol=1e-8)
        np.testing.assert_allclose(theta.means, means, rtol=1e-8, atol=1e-10)
        found = theta.loadings.swapaxes(1, 2) @ theta.loadings
        np.testing.assert_allclose(found, signal, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(theta.noise_variance, noise, rtol=1e-8)


# complete rows


@pytest.mark.parametrize("family", [*FAMILIES, GROUPS], ids=repr)
def test_complete_rows_have_the_same_bits(family: Family) -> None:
    _, params, x = example_mixture(family, K, D, 300, rng())
    plain, incomplete = (
        kernel_for(MixtureModel(one, K, D)) for one in (family, with_missing(family))
    )
    expected, found = (one.expect(one.prepare(params), Rows(x)) for one in (plain, incomplete))
    assert expected.tobytes() == found.tobytes()
    one, other = (
        Mixture(family, 2, random_state=0, missing=missing).fit(x)
        for missing in ("marginalize", "error")
    )
    assert one.score_samples(x).tobytes() == other.score_samples(x).tobytes()


# conditional distributions


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_conditional_density_is_the_joint_over_the_marginal(family: Family) -> None:
    _, params, x = example_mixture(family, 1, D, 6, rng())
    model, given = MixtureModel(family, 1, D), {1: 0.7, 4: -1.2}
    x[:, 1], x[:, 4] = 0.7, -1.2
    small, found = conditional(model, params, given)
    small.check_params(found)
    part = np.full(D, np.nan)
    part[[1, 4]] = 0.7, -1.2
    known = scipy_density(family, params.components, 0, part)
    expected = [scipy_density(family, params.components, 0, row) - known for row in x]
    log_density = small.log_joint(found, x[:, [0, 2, 3]])[:, 0]
    np.testing.assert_allclose(log_density, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("columns", [[3], [4, 0], [2, 1, 0, 4]])
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_marginal_density_is_that_of_the_chosen_columns(family: Family, columns: list[int]) -> None:
    model, params, x = example_mixture(family, K, D, 6, rng())
    small, found = marginal(model, params, columns)
    small.check_params(found)
    small.family.check_columns(len(columns))
    wide = np.full_like(x, np.nan)
    wide[:, columns] = x[:, columns]
    log_density = small.family.log_density(found.components, x[:, columns])
    for row, own in zip(wide, log_density, strict=True):
        expected = [scipy_density(family, params.components, k, row) for k in range(K)]
        np.testing.assert_allclose(own, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "family", [StudentT(degrees=6.0), StudentT("diag", 6.0), *FACTOR], ids=repr
)
def test_draws_have_the_conditional_moments(family: Family) -> None:
    model, params, x = example_mixture(family, 1, D, 1, rng())
    n, missing = 200_000, [0, 2, 3]
    x[:, missing] = np.nan
    found = impute(model, params, np.repeat(x, n, axis=0), "draw", rng())[:, missing]
    full, rest, delta = filled_row(
        params.components.means[0], matrices(family, params.components)[0], x[0]
    )
    covariance = rest[np.ix_(missing, missing)]
    if isinstance(family, StudentT):  # of t with 6 + 2 degrees of freedom
        covariance = covariance * (6.0 + delta) / (6.0 + 2.0) * 8.0 / (8.0 - 2.0)
    error = 5.0 * np.sqrt(np.diag(covariance) / n)
    assert (np.abs(found.mean(axis=0) - full[missing]) < error).all()
    np.testing.assert_allclose(np.cov(found.T), covariance, rtol=0.02, atol=0.01 * covariance.max())
    (filled,) = impute(model, params, x)
    np.testing.assert_allclose(filled, full, rtol=1e-10)


def test_a_mean_that_does_not_exist_is_not_imputed() -> None:
    family = StudentT(degrees=0.5)
    model, params, x = example_mixture(family, 2, 2, 1, rng())
    x[0, 0] = np.nan
    assert np.isfinite(impute(model, params, x)).all()  # given a cell, there are 1.5 degrees
    x[0] = np.nan
    with pytest.raises(InvalidInputError, match="no finite mean in some component: use method="):
        impute(model, params, x)
    assert np.isfinite(impute(model, params, x, "draw", rng())).all()


# initial components, and parameters near the limits


def test_distances_of_student_t_are_over_the_columns_that_both_have() -> None:
    x = np.array([[0.0, 1.0], [2.0, np.nan], [4.0, 3.0], [6.0, 5.0], [8.0, 7.0]])
    family, weight = with_missing(StudentT()), np.ones(len(x))
    found = family.divergence(x, x[:3], weight)
    quartiles = StudentT().robust_distances(x[:, :1], x[:3, :1], weight)
    assert found[1, 0] == pytest.approx(0.5 * 6.0 * np.log1p(2.0 * quartiles[1, 0] / 4.0))
    assert np.isfinite(found).all()
    complete = x[[0, 2, 3, 4]]
    expected = StudentT().divergence(complete, complete, np.ones(4))
    np.testing.assert_allclose(family.divergence(complete, complete, np.ones(4)), expected)


def test_factors_that_are_many_times_the_noise_keep_their_digits() -> None:
    loadings = np.array([[[1.0, 1.0, 2.0], [1.0, 1.0, -1.0]]]) * 1e9
    params = FactorParams(np.zeros((1, 3)), loadings, np.ones((1, 3)))
    assert isinstance(with_missing(Gaussian("factor", rank=2)), ObservedFactors)
    family, row = with_missing(Gaussian("factor", rank=2)), np.array([[1e9, 2e9, np.nan]])
    # M = 1 + 2e18 (1 1; 1 1) is singular by rounding, its inverse is not
    inverse = np.array([[1.0 + 2e18, -2e18], [-2e18, 1.0 + 2e18]]) / (1.0 + 4e18)
    observed = params.of_columns([0, 1])
    np.testing.assert_allclose(spread(observed)[0], inverse, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(np.exp(2 * posterior(observed).half_log_determinant), 1.0 + 4e18)
    # Sigma^-1 of (1, -1) / sqrt(2) is one, and of (1, 1) / sqrt(2) is 1 / (1 + 4e18)
    square = 0.5e18 + 4.5e18 / (1.0 + 4e18)
    expected = -0.5 * (square + 2.0 * np.log(2.0 * np.pi) + np.log(1.0 + 4e18))
    np.testing.assert_allclose(family.log_density(params, row), [[expected]], rtol=1e-9)


# estimators


@pytest.mark.parametrize("family", [StudentT(degrees=None), Gaussian("factor", rank=2), GROUPS])
def test_a_table_with_holes_is_learned_scored_and_filled(family: Family) -> None:
    model, params, rows = example(family, 600, 2)
    mixture = Mixture(family, 2, random_state=0).fit(rows.x)
    own = Threads(model, 1).posterior(params, rows, False)[0].mean()
    assert mixture.score(rows.x) > float(own) - 0.01
    assert mixture.score_samples(rows.x)[0] == pytest.approx(0.0, abs=1e-12)
    filled = mixture.impute(rows.x)
    assert np.isfinite(filled).all()
    assert filled[~np.isnan(rows.x)].tobytes() == rows.x[~np.isnan(rows.x)].tobytes()
    stream = Mixture(family, 2, random_state=0)
    for block in np.array_split(rows.x, 3):
        stream.partial_fit(block)
    assert stream.score(rows.x) > float(own) - 0.1
