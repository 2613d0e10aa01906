"""Logistic mixed models by quadrature: against lme4, and against an optimiser of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, xlogy
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import mixfold
from mixfold import LogisticMixedModel
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.value import equal
from mixfold.learners.em import EM
from mixfold.learners.em_gradient import EMGradient
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.models.logistic_mixed import LogisticMixed, LogisticMixedParams
from mixfold.schedules.settling import Settling
from mixfold.testing import learners
from mixfold.testing.folding import fold
from mixture_likelihoods import hessian

Data = tuple[Array, Array, np.ndarray, Array]


def binary_data(m: int, q: int, rows: int = 8, seed: int = 0) -> Data:
    """X, y, groups and Z, with an intercept and slopes that are random."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(m), rows)
    x = rng.normal(size=(m * rows, max(1, q - 1)))
    z = np.column_stack([np.ones(m * rows), x])[:, :q]
    effects = rng.normal(size=(m, q)) * np.sqrt([0.6, 0.4, 0.3][:q])
    eta = -0.5 + x.sum(axis=1) + (z * effects[groups]).sum(axis=1)
    return x, (rng.random(m * rows) < expit(eta)).astype(float), groups, z


def likelihood(data: Data, n_points: int) -> tuple[Callable[[Array], float], Any]:
    """Minus the log-likelihood by quadrature about zero, of beta and a root of Omega, and this."""
    x, y, groups, z = data
    m, p, q = groups[-1] + 1, x.shape[1] + 1, z.shape[1]
    a, sign = np.column_stack([np.ones(len(x)), x]), 2 * y - 1
    points, weights = np.polynomial.hermite_e.hermegauss(n_points)
    grid = np.stack(np.meshgrid(*[points] * q), -1).reshape(-1, q)
    weight = np.stack(np.meshgrid(*[weights / weights.sum()] * q), -1).reshape(-1, q).prod(axis=1)

    def root(v: Array) -> Array:
        lower = np.zeros((q, q))
        lower[np.tril_indices(q)] = v[p:]
        return lower

    def loss(v: Array) -> float:
        eta = (a @ v[:p])[:, None] + z @ root(v) @ grid.T
        of_rows = -np.logaddexp(0.0, -sign[:, None] * eta)
        return -float(np.log(np.exp(of_rows.reshape(m, -1, len(grid)).sum(axis=1)) @ weight).sum())

    return loss, root


def highest_likelihood(data: Data, n_points: int) -> tuple[Array, Array, float]:
    """The maximum of the likelihood: beta, Omega and the log-likelihood."""
    loss, root = likelihood(data, n_points)
    p, q = data[0].shape[1] + 1, data[3].shape[1]
    start = np.concatenate([np.zeros(p), np.eye(q)[np.tril_indices(q)]])
    best = minimize(loss, start, tol=1e-10)
    return best.x[:p], root(best.x) @ root(best.x).T, -float(best.fun)


def test_intervals_of_variances_are_those_of_the_curvature() -> None:
    data = binary_data(60, 2, seed=2)
    x, y, groups, z = data
    model = LogisticMixedModel().fit(x, y, groups, z)
    loss, root = likelihood(data, 24)
    lower = np.linalg.cholesky(model.random_covariance_)[np.tril_indices(2)]
    at = np.concatenate([model.coef_, lower])

    def scales(v: Array) -> Array:
        omega = root(v) @ root(v).T
        deviations = np.sqrt(np.diag(omega))
        return np.append(np.log(deviations), np.arctanh(omega[0, 1] / deviations.prod()))

    steps = 1e-4 * np.eye(len(at))
    slopes = np.stack([(scales(at + h) - scales(at - h)) / 2e-4 for h in steps], axis=1)
    curvature = hessian(loss, at)
    errors = np.sqrt(np.diag(slopes @ np.linalg.inv(curvature) @ slopes.T))
    rows = model.variance_intervals(0.9)
    assert [row.name for row in rows] == [
        "Group: z0",
        "Group: z1",
        "Group: correlation of z0 and z1",
    ]
    found = np.array([row[1:] for row in rows])
    found = np.vstack([np.log(found[:2]), np.arctanh(found[2:])])
    np.testing.assert_allclose(found[:, 0], scales(at), rtol=1e-9)
    np.testing.assert_allclose(found[:, 2] - found[:, 0], 1.6448536 * errors, rtol=5e-3)
    np.testing.assert_allclose(found[:, 0] - found[:, 1], 1.6448536 * errors, rtol=5e-3)


def test_a_variance_of_zero_has_no_interval() -> None:
    rng = np.random.default_rng(0)
    groups, x = np.repeat(np.arange(40), 6), rng.normal(size=(240, 1))
    y = np.tile([0, 1], 120)  # half of each group
    (row,) = LogisticMixedModel().fit(x, y, groups).variance_intervals()
    assert row.estimate < 1e-3
    assert np.isnan([row.lower, row.upper]).all()


@pytest.mark.parametrize("q", [1, 2])
def test_the_fit_is_that_of_an_independent_optimiser_whatever_the_seed(q: int) -> None:
    data = binary_data(30, q, seed=2)
    x, y, groups, z = data
    beta, omega, log_likelihood = highest_likelihood(data, 60 if q == 1 else 24)
    fits = [LogisticMixedModel(random_state=seed).fit(x, y, groups, z) for seed in (0, 1)]
    model = fits[0]
    np.testing.assert_allclose(model.coef_, beta, atol=1e-3)
    np.testing.assert_allclose(model.random_covariance_, omega, atol=3e-3)
    assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=1e-4)
    assert model.log_likelihood_std_error_ == 0.0
    assert equal(fits[1].params_, model.params_)
    assert fits[1].log_likelihood_ == model.log_likelihood_
    assert len(model.history_) < 40


INCIDENCE = (
    "2 3 4 0 3 1 1 8 2 0 2 2 0 2 0 5 0 0 1 3 0 0 1 8 1 3 0 12 2 0 0 0 1 1 0 2 0 5 3 1 2 1 0 0 1 2 "
    "0 0 11 0 0 0 1 1 1 0"
)
SIZE = (
    "14 12 9 5 22 18 21 22 16 16 20 10 10 9 6 18 25 24 4 17 17 18 20 16 10 9 5 34 9 6 8 6 22 22 18 "
    "22 25 27 22 22 10 8 6 5 21 24 19 23 19 2 3 2 19 15 15 15"
)
VISITS = [4, 3, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4]  # of herds, at periods 1, 2, ...


def test_contagious_bovine_pleuropneumonia_agrees_with_lme4() -> None:
    """glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), nAGQ = 25), as lme4 tests."""
    cases, size = (np.array(text.split(), dtype=int) for text in (INCIDENCE, SIZE))
    herd = np.repeat(np.repeat(np.arange(15), VISITS), size)
    period = np.repeat(np.concatenate([np.arange(n) for n in VISITS]), size)
    y = np.concatenate([np.arange(n) < sick for sick, n in zip(cases, size, strict=True)])
    x = (period[:, None] == [1, 2, 3]).astype(float)
    model = LogisticMixedModel().fit(x, y, herd)
    published = [-1.39922533406847, -0.991407294757321, -1.12782184600404, -1.57946627431248]
    np.testing.assert_allclose(model.coef_, published, atol=1e-4)
    saturated = (xlogy(cases, cases / size) + xlogy(size - cases, 1 - cases / size)).sum()
    deviance = 2.0 * (saturated - model.log_likelihood_)
    assert deviance == pytest.approx(100.010030538022, abs=1e-6)


def subjects(m: int, q: int, **settings: Any) -> tuple[LogisticMixed, Array]:
    """The rows of a model: how many observations a group has, and these."""
    x, y, _, z = binary_data(m, q)
    p = x.shape[1] + 1
    table = np.column_stack([np.ones(len(x)), x, z, y]).reshape(m, -1)
    return LogisticMixed(8, p, q, **settings), np.column_stack([np.full(m, 8.0), table])


@pytest.mark.parametrize("q", [1, 2])
def test_expected_statistics_are_those_of_a_fine_grid(q: int) -> None:
    model, x = subjects(6, q, n_points=25)
    params = LogisticMixedParams(np.full(model.n_fixed, 0.3), 0.7 * np.eye(q) + 0.1)
    target = model.conditional(params, x)
    line = np.linspace(-9.0, 9.0, 4001 if q == 1 else 101)
    grid = np.stack(np.meshgrid(*[line] * q), -1).reshape(-1, 1, q)
    joint = target.log_joint(np.repeat(grid, len(x), axis=1))
    mass = np.exp(joint) * (line[1] - line[0]) ** q
    density = mass.sum(axis=0)
    points = np.repeat(grid, len(x), axis=1)
    expected = target.mean_statistics(points, mass / density)
    log_density, expectations = Threads(model, 1).posterior(params, Rows(x))
    assert expectations is not None
    np.testing.assert_allclose(log_density, np.log(density), atol=1e-6)
    np.testing.assert_allclose(expectations, expected, atol=1e-5)


def test_mean_statistics_are_the_mean_of_statistics() -> None:
    model, x = subjects(5, 3)
    params = LogisticMixedParams(np.full(model.n_fixed, 0.3), np.eye(3))
    target, rng = model.conditional(params, x), np.random.default_rng(0)
    points, weight = rng.normal(size=(4, 5, 3)), rng.dirichlet(np.ones(4), size=5).T
    by_hand = sum(w[:, None] * target.statistics(z) for z, w in zip(points, weight, strict=True))
    np.testing.assert_allclose(target.mean_statistics(points, weight), by_hand, rtol=1e-12)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("accelerate", [False, True])
def test_the_likelihood_never_falls(covariance: Any, accelerate: bool) -> None:
    model, x = subjects(40, 2, covariance=covariance, n_points=7)
    far = LogisticMixedParams(np.array([4.0, -6.0]), np.diag([0.01, 9.0]))
    learner = EMGradient(tol=1e-9, accelerate=accelerate, max_iter=100, criterion="step")
    backend = Threads(model, 1)
    state: Any = learner.init(backend, far)
    kept: list[float] = []
    while not learner.finished(state):
        state, _ = learner.step(backend, state, Rows(x))
        state, _ = learner.end_pass(backend, state)
        kept.append(state.before)
    assert learner.converged(state) or not accelerate
    assert np.diff(kept).min() > -1e-9
    if covariance == "diag":
        assert learner.estimate(backend, state).covariance[0, 1] == 0.0


def test_a_step_that_lowers_the_likelihood_is_halved() -> None:
    """Far out, the curvature is nearly zero, and a Newton step goes much too far."""
    model, x = subjects(40, 1)
    far = LogisticMixedParams(np.array([9.0, -9.0]), np.array([[1.0]]))
    backend, seen = Threads(model, 1), []
    for learner in (EM(tol=0.0), EMGradient(tol=0.0)):
        _, infos = fold(backend, learner, far, Rows(x), [], passes=25)
        seen.append([info.log_likelihood for info in infos])
    assert np.diff(seen[0]).min() < -0.1
    accepted = np.maximum.accumulate(seen[1])
    assert accepted[-1] == pytest.approx(seen[1][-1], abs=1e-6)
    assert seen[1][-1] > seen[1][0]


def test_a_variance_of_zero_is_reached() -> None:
    """Groups that are more alike than chance makes them leave logistic regression."""
    x, groups = np.tile([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0], 50)[:, None], np.repeat(np.arange(50), 6)
    y = np.tile([0, 1, 0, 1, 1, 1], 50)
    y[:2] = y[1::-1]
    y[6] = 1
    model = LogisticMixedModel().fit(x, y, groups)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(x, y)
    assert model.random_covariance_[0, 0] < 1e-3
    chance = plain.predict_proba(x)[:, 1]
    design = np.column_stack([np.ones(len(x)), x])
    information = design.T @ (design * (chance * (1 - chance))[:, None])
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(model.coef_std_errors_, errors, rtol=1e-2)
    assert np.isnan(model.random_covariance_std_errors_).all()
    assert model.coef_[1] == pytest.approx(plain.coef_[0, 0], abs=1e-3)
    assert len(model.history_) < 60


def test_three_effects_settle_whatever_the_seed() -> None:
    x, y, groups, z = binary_data(100, 3)
    learner = MonteCarloEM(
        draws=5, schedule=Settling(10, 0.6), max_iter=30, average_from=12, growth=0.15
    )
    settings: dict[str, Any] = {"learner": learner, "evaluation_draws": 200}
    settings["covariance"] = "diag"
    fits = [LogisticMixedModel(random_state=s, **settings).fit(x, y, groups, z) for s in range(3)]
    betas = np.array([model.coef_ for model in fits])
    assert (np.ptp(betas, axis=0) < 0.25 * fits[0].coef_std_errors_).all()
    errors = [model.log_likelihood_std_error_ for model in fits]
    assert min(errors) > 0.0
    spread = np.ptp([model.log_likelihood_ for model in fits])
    assert spread < 5.0 * max(errors)


def test_draws_grow() -> None:
    model, x = subjects(5, 3)
    backend = Threads(model, 1)
    params = LogisticMixedParams(np.zeros(model.n_fixed), np.eye(3))
    asked: list[int] = []
    plain_fold = backend.fold

    def counted(params: Any, rows: Rows, sums: Array, assignment: Any) -> Array:
        asked.append(assignment.draws)
        return plain_fold(params, rows, sums, assignment)

    backend.fold = counted  # type: ignore[method-assign, assignment]
    fold(backend, MonteCarloEM(draws=4, growth=0.3), params, Rows(x), [], passes=4)
    assert asked == [4, 5, 6, 7]


LAWS = [law for law in learners.LAWS if law is not learners.learning_raises_the_likelihood]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("learner", [EMGradient(), MiniBatchEM(batch_size=7)], ids=repr)
def test_learners_keep_their_laws_with_quadrature(learner: Any, law: Any) -> None:
    model, x = subjects(30, 2, n_points=5)
    params = LogisticMixedParams(np.array([-0.4, 0.9]), np.array([[1.2, 0.3], [0.3, 0.8]]))
    rows = Rows(x, np.random.default_rng(0).integers(0, 3, size=len(x)).astype(float))
    law(model, params, learner.resolve(len(x), model.d, False), rows, [1, 8, 9, 20])


def test_a_resumed_fit_ends_with_the_same_bits(tmp_path: Path) -> None:
    x, y, groups, z = binary_data(30, 2)
    whole = LogisticMixedModel(max_iter=7).fit(x, y, groups, z)
    kept: dict[str, Any] = {"checkpoint": tmp_path / "fit", "resume": True, "random_state": 0}
    LogisticMixedModel(max_iter=4, **kept).fit(x, y, groups, z)
    resumed = LogisticMixedModel(max_iter=7, **kept).fit(x, y, groups, z)
    assert equal(resumed.params_, whole.params_)
    resumed.save(tmp_path / "model.mixfold")
    again = mixfold.load(tmp_path / "model.mixfold")
    assert equal(again.predict_proba(x, groups, z), resumed.predict_proba(x, groups, z))
    assert again.log_likelihood_ == resumed.log_likelihood_


def test_em_gradient_is_refused_where_the_m_step_is_exact() -> None:
    with pytest.raises(InvalidInputError, match="use learner='em'"):
        mixfold.Mixture(n_components=2, learner="em-gradient").fit(np.ones((10, 2)))


def test_numbers_of_points_are_checked() -> None:
    x, y, groups, _ = binary_data(10, 1)
    for wrong in (1, 65, 2.5):
        with pytest.raises(InvalidInputError, match="n_quadrature_points is"):
            LogisticMixedModel(n_quadrature_points=wrong).fit(x, y, groups)  # type: ignore[arg-type]


def test_classes_may_have_any_names() -> None:
    x, y, groups, _ = binary_data(20, 1)
    model = LogisticMixedModel().fit(x, y, groups)
    named = LogisticMixedModel().fit(x, np.where(y > 0, "yes", "no"), groups)
    assert named.classes_.tolist() == ["no", "yes"]
    assert equal(named.coef_, model.coef_)
    assert (named.predict(x, groups) == np.where(model.predict(x, groups) > 0, "yes", "no")).all()
    assert named.score(x, np.where(y > 0, "yes", "no"), groups) == model.score(x, y, groups) > 0.5
    three = np.arange(len(x)) % 3
    with pytest.raises(InvalidInputError, match="Only binary classification"):
        model.fit(x, three, groups)


def test_a_column_of_x_may_tell_groups_apart(tmp_path: Path) -> None:
    x, y, groups, _ = binary_data(20, 1)
    apart = LogisticMixedModel().fit(x, y, groups)
    both = np.column_stack([x, groups])
    inside = LogisticMixedModel(group=1).fit(both, y)
    assert equal(inside.coef_, apart.coef_)
    assert inside.n_features_in_ == 2
    assert equal(inside.predict_proba(both), apart.predict_proba(x, groups))
    inside.save(tmp_path / "model.mixfold")
    assert equal(mixfold.load(tmp_path / "model.mixfold").predict(both), inside.predict(both))
    assert np.mean(cross_val_score(LogisticMixedModel(group=1), both, y, cv=2)) > 0.5
    linear = mixfold.LinearMixedModel(group=1).fit(both, y)
    assert equal(linear.coef_, mixfold.LinearMixedModel().fit(x, y, groups).coef_)
    for group, message in ((2, "X has 2 columns"), (-1, "group is -1")):
        with pytest.raises(InvalidInputError, match=message):
            LogisticMixedModel(group=group).fit(both, y)
    with pytest.raises(InvalidInputError, match="groups is given"):
        LogisticMixedModel(group=1).fit(both, y, groups)


def test_a_model_file_with_an_impossible_group_is_refused() -> None:
    x, y, groups, _ = binary_data(10, 1)
    model = LogisticMixedModel(group=1).fit(np.column_stack([x, groups]), y)
    learned = model._learned
    for wrong in (replace(learned.design, group=7), replace(learned.design, classes=["a"])):
        with pytest.raises(InvalidInputError):
            model._check_learned(replace(learned, design=wrong))
