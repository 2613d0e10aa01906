"""Nonlinear mixed models: against quadrature, finite differences, simulated truth, real data."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import mixfold
from mixfold import LogisticMixedModel, OneCompartmentModel, datasets
from mixfold.backends.threads import Threads
from mixfold.core.backend import Assignment
from mixfold.core.backend_capabilities import RowUpdates
from mixfold.core.errors import InvalidInputError, ModelFileError, SourceError
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals
from mixfold.core.value import equal
from mixfold.estimators._nonlinear import inverse_information
from mixfold.kernels._metropolis import shape_at_mode
from mixfold.kernels.simulation import SimulationKernel
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.models._one_compartment import OneCompartment
from mixfold.models.logistic_mixed import LogisticMixed, LogisticMixedParams
from mixfold.models.pharmacokinetic import Pharmacokinetic, PharmacokineticParams
from mixfold.models.random_effects import RandomEffects
from mixfold.schedules.settling import Settling
from mixfold.testing import learners

TIMES = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])


def logistic_units(n: int, q: int, seed: int = 0) -> tuple[LogisticMixed, Array]:
    """Units of 3 to 8 rows with two fixed effects and q random ones."""
    rng = np.random.default_rng(seed)
    model = LogisticMixed(n_rows=8, n_fixed=2, n_random=q)
    table = rng.normal(size=(n, 8, model.n_columns))
    table[..., 0] = table[..., 2] = 1.0
    effects = rng.normal(size=(n, 1, q))
    eta = table[..., :2] @ [-0.5, 1.0] + (table[..., 2 : 2 + q] * effects).sum(axis=-1)
    table[..., -1] = rng.random((n, 8)) < expit(eta)
    return model, as_units(table, rng.integers(3, 9, size=n))


def pk_units(n: int, seed: int = 0, **settings: Any) -> tuple[Pharmacokinetic, Array]:
    """Units of one dose and up to eight concentrations."""
    rng = np.random.default_rng(seed)
    model = Pharmacokinetic(n_rows=9, **settings)
    psi = np.log([1.5, 30.0, 3.0]) + 0.3 * rng.normal(size=(n, 3))
    time = np.tile(TIMES, (n, 1))
    c = OneCompartment(time, np.zeros((n, 1)), np.full((n, 1), 100.0)).concentration(psi)
    table = np.zeros((n, 9, model.n_columns))
    table[:, 0, 1] = 100.0
    table[:, 1:, 0] = time
    table[:, 1:, 2] = c * (1.0 + 0.05 * rng.normal(size=c.shape)) + 0.1 * rng.normal(size=c.shape)
    if model.reference_weight is not None:
        table[..., 3] = rng.uniform(50, 90, size=(n, 1))
    return model, as_units(table, rng.integers(5, 10, size=n))


def as_units(table: Array, counts: np.ndarray) -> Array:
    table = np.where((np.arange(table.shape[1]) < counts[:, None])[..., None], table, 0.0)
    return np.hstack([counts[:, None].astype(float), table.reshape(len(table), -1)])


def pk_params(model: Pharmacokinetic) -> PharmacokineticParams:
    q = model.n_effects
    mean = np.log([1.5, 30.0, 3.0, 0.2])[:q]
    omega = np.diag([0.3, 0.1, 0.2, 0.1][:q])
    if model.covariance == "full":
        omega += 0.03
    noise = {"additive": [0.2], "proportional": [0.1], "combined": [0.1, 0.05]}[model.error]
    return PharmacokineticParams(mean, omega, np.array(noise))


LOGISTIC_PARAMS = {
    1: LogisticMixedParams(np.array([-0.4, 0.9]), np.array([[1.2]])),
    2: LogisticMixedParams(np.array([-0.4, 0.9]), np.array([[1.2, 0.3], [0.3, 0.8]])),
}
PK_SETTINGS: list[dict[str, Any]] = [
    {"error": "additive"},
    {"error": "proportional", "covariance": "full"},
    {"error": "combined", "lag": True},
    {"error": "additive", "reference_weight": 70.0, "lag": True},
]


def cases(n: int = 40) -> list[tuple[RandomEffects, Any, Array]]:
    found: list[tuple[RandomEffects, Any, Array]] = []
    for q in (1, 2):
        logistic, x = logistic_units(n, q)
        found.append((logistic, LOGISTIC_PARAMS[q], x))
    for settings in PK_SETTINGS:
        pk, x = pk_units(n, **settings)
        found.append((pk, pk_params(pk), x))
    return found


CASES = [pytest.param(*case, id=f"{type(case[0]).__name__}-{i}") for i, case in enumerate(cases())]


# against quadrature


def test_draws_agree_with_quadrature_for_one_random_effect() -> None:
    model, x = logistic_units(30, 1)
    params = LOGISTIC_PARAMS[1]
    target = model.conditional(params, x)
    grid = np.linspace(-12, 12, 4001)
    joint = np.stack([target.log_joint(np.full((30, 1), z)) for z in grid])
    density = np.trapezoid(np.exp(joint), grid, axis=0)
    expected = np.stack([target.statistics(np.full((30, 1), z)) for z in grid])
    expected = np.trapezoid(np.exp(joint)[..., None] * expected, grid, axis=0) / density[:, None]
    rows, rule = Rows(x), Assignment("draw", 4000, 3)
    log_density, latent = SimulationKernel(model).simulate(params, rows, rule)
    assert np.allclose(log_density, np.log(density), atol=0.03)
    assert np.allclose(latent, expected, atol=0.12)
    assert np.abs((latent - expected).mean(axis=0)).max() < 0.02


def test_pharmacokinetic_draws_agree_with_a_grid() -> None:
    model, x = pk_units(2, error="additive")
    params = replace(pk_params(model), covariance=np.diag([0.1, 0.02, 0.05]), noise=np.array([0.3]))
    target = model.conditional(params, x)
    shape = shape_at_mode(target)
    white = np.stack(np.meshgrid(*[np.linspace(-7, 7, 25)] * 3, indexing="ij"), -1).reshape(-1, 3)
    for i in range(2):
        one = model.conditional(params, x[i : i + 1])
        z = shape.center[i] + white @ shape.spread[i].T
        joint = np.concatenate([one.log_joint(part[:, None]) for part in np.array_split(z, 20)])
        cell = (14 / 24) ** 3 * abs(np.linalg.det(shape.spread[i]))
        weight = np.exp(joint[:, 0] - joint.max())
        mean = weight @ z / weight.sum()
        summary = SimulationKernel(model).summarize(
            params, Rows(x[i : i + 1]), Assignment("draw", 5_000)
        )
        exact = joint.max() + np.log(weight.sum() * cell)
        assert summary.log_density[0] == pytest.approx(exact, abs=0.02)
        assert np.allclose(summary.effects[0], mean, atol=0.02)


# gradients


def numeric(function: Any, at: Array, step: float = 1e-5) -> Array:
    """Central differences in the last axis of `at`."""
    columns = []
    for j in range(at.shape[-1]):
        move = np.zeros_like(at)
        move[..., j] = step
        columns.append((function(at + move) - function(at - move)) / (2 * step))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize(("model", "params", "x"), CASES)
def test_gradients_in_effects(model: RandomEffects, params: Any, x: Array) -> None:
    target = model.conditional(params, x)
    z = target.effects.mean + 0.1 * np.random.default_rng(0).normal(size=(len(x), model.n_effects))
    value, gradient, information = target.joint_curvature(z)
    assert np.allclose(value, target.log_joint(z))
    assert np.allclose(gradient, numeric(target.log_joint, z), rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(information).min() > 0


@pytest.mark.parametrize(("model", "params", "x"), CASES)
def test_scores_and_information_in_parameters(model: RandomEffects, params: Any, x: Array) -> None:
    """Analytic scores are those of the joint density; so is the information, or its expectation."""
    z = model.conditional(params, x).effects.mean + 0.1
    z = np.repeat(z[None], len(x), axis=0)
    names = [f.name for f in fields(params)]
    q = model.n_effects
    free = [(i, j) for i in range(q) for j in range(i + 1) if model.covariance == "full" or i == j]

    def moved(t: Array) -> Any:
        mean, rest = params.mean + t[: len(params.mean)], t[len(params.mean) :]
        omega = params.covariance.copy()
        for (i, j), step in zip(free, rest, strict=False):
            omega[i, j] += step
            omega[j, i] = omega[i, j]
        if "noise" not in names:
            return type(params)(mean, omega)
        return type(params)(mean, omega, params.noise * np.exp(rest[len(free) :]))

    def joint(t: Array) -> Array:
        return model.conditional(moved(t), x).log_joint(z)

    def score(t: Array) -> Array:
        return np.asarray(model.conditional(moved(t), x).scores(z).sum(axis=0))

    target = model.conditional(params, x)
    n = target.scores(z).shape[1]
    assert n == model.n_parameters()
    assert np.allclose(target.scores(z), numeric(joint, np.zeros(n), 1e-6), rtol=1e-4, atol=1e-3)
    totals = Totals(target.statistics(z).sum(axis=0), float(len(x)), 0.0)
    information = model.information(params, totals)
    known = n - (2 if getattr(model, "error", "") == "combined" else 0)
    slope = -numeric(score, np.zeros(n), 1e-6)
    size = np.abs(slope).max()
    assert np.allclose(information[:known, :known], slope[:known, :known], atol=1e-4 * size)


def test_the_curve_is_smooth_where_both_rates_meet() -> None:
    curve = OneCompartment(np.array([[0.0, 1.0, 5.0]]), np.zeros((1, 1)), np.full((1, 1), 10.0))
    near = [curve.concentration(np.array([[np.log(0.1) + e, 0.0, np.log(0.1)]])) for e in (0, 1e-9)]
    assert np.allclose(near[0], 10 * 0.1 * curve.time * np.exp(-0.1 * curve.time), rtol=1e-12)
    assert np.allclose(near[0], near[1], rtol=1e-8)
    psi = np.array([[np.log(0.1), 0.0, np.log(0.1)]])
    by_difference = numeric(curve.concentration, psi, 1e-4)[0]
    assert np.allclose(curve.slopes(psi)[0], by_difference, atol=1e-4)


def test_doses_add_up() -> None:
    time = np.array([[1.0, 5.0, 9.0]])
    psi = np.log([[1.5, 3.0, 0.3]])
    both = OneCompartment(time, np.array([[0.0, 4.0]]), np.array([[10.0, 20.0]])).concentration(psi)
    first = OneCompartment(time, np.array([[0.0]]), np.array([[10.0]])).concentration(psi)
    second = OneCompartment(time, np.array([[4.0]]), np.array([[20.0]])).concentration(psi)
    assert np.allclose(both, first + second)
    assert second[0, 0] == 0.0


# laws


@pytest.mark.parametrize(("model", "params", "x"), CASES)
def test_neighbours_do_not_matter(model: RandomEffects, params: Any, x: Array) -> None:
    kernel = SimulationKernel(model)
    whole = kernel.simulate(params, Rows(x), Assignment("draw", 5, 1, 100))
    for cut in (1, 7, 23):
        parts = [
            kernel.simulate(params, Rows(x[a:b]), Assignment("draw", 5, 1, 100 + a))
            for a, b in ((0, cut), (cut, len(x)))
        ]
        for i in range(2):
            assert equal(np.concatenate([part[i] for part in parts]), whole[i])


def test_threads_do_not_matter() -> None:
    model, x = logistic_units(5000, 1)
    rule = Assignment("draw", 2, 5)
    tiles = -(-len(x) // Threads(model, 1).tile)
    sums = [
        Threads(model, n).fold(LOGISTIC_PARAMS[1], Rows(x), np.zeros(model.n_sums), rule)
        for n in (1, 3)
    ]
    assert tiles > 1
    assert equal(sums[0], sums[1])


@pytest.mark.parametrize(("model", "params", "x"), CASES)
def test_parameters_survive_every_change_of_coordinates(
    model: RandomEffects, params: Any, x: Array
) -> None:
    again, n_degenerate = model.maximize(model.expected(params))
    back = model.constrained(model.unconstrained(params), params)
    half = model.blend(params, params, 0.5)
    for other in (again, back, half):
        for field in fields(params):
            assert np.allclose(getattr(other, field.name), getattr(params, field.name))
    assert n_degenerate == 0
    statistics = model.expected(params)
    assert equal(model.statistics(params, model.sums(params, statistics)), statistics)
    assert model.coordinate_scales(params).shape == model.unconstrained(params).shape
    assert model.truncation_excess(params, (1e3, 1e3, 1e3)) < 0


# the others compare densities of rows, which have no closed form here
DENSITIES = (learners.learning_raises_the_likelihood, learners.a_weight_is_as_many_rows)
LAWS = [law for law in learners.LAWS if law not in DENSITIES]
RULES = [MonteCarloEM(draws=2, schedule=Settling(1)), MonteCarloEM(draws=2, batch_size=7)]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("rule", RULES, ids=("passes", "batches"))
@pytest.mark.parametrize(("model", "params", "x"), CASES[1:3])
def test_learners_keep_their_laws(
    model: Any, params: Any, x: Array, rule: MonteCarloEM, law: Any
) -> None:
    rows = Rows(x, np.random.default_rng(0).integers(0, 3, size=len(x)).astype(float))
    law(model, params, rule.resolve(len(x), model.d, False), rows, [1, 8, 9, 30])


def test_passes_raise_the_likelihood_and_batches_agree() -> None:
    model, x = logistic_units(300, 1)
    began = LogisticMixedParams(np.array([0.5, 0.0]), np.array([[0.2]]))
    backend, ends = Threads(model, 1), []
    for rule in (
        MonteCarloEM(draws=10, schedule=Settling(15), max_iter=30),
        MonteCarloEM(draws=10, batch_size=60, schedule=Settling(30), max_iter=15),
    ):
        learner = rule.resolve(len(x), model.d, False)
        state, infos = learners.fold(backend, learner, began, Rows(x), [], passes=rule.max_iter)
        ends.append(learner.estimate(backend, state))
        assert infos[-1].log_likelihood > infos[0].log_likelihood
    assert np.allclose(ends[0].mean, ends[1].mean, atol=0.1)
    assert np.allclose(ends[0].covariance, ends[1].covariance, atol=0.3)


def test_collapsed_variances_are_mended_and_counted() -> None:
    model, _ = pk_units(1)
    params = replace(pk_params(model), covariance=np.zeros((3, 3)))
    mended, n_degenerate = model.maximize(model.expected(params))
    assert n_degenerate == 3
    assert np.linalg.eigvalsh(mended.covariance).min() > 0


def test_a_closed_form_is_not_pretended() -> None:
    model, x = logistic_units(5, 3)
    params = LogisticMixedParams(np.array([-0.4, 0.9]), np.eye(3))
    backend = Threads(model, 1)
    for call in (
        lambda: backend.fold(params, Rows(x), np.zeros(model.n_sums)),
        lambda: backend.posterior(params, Rows(x)),
        lambda: model.mode(x),
    ):
        with pytest.raises(InvalidInputError, match="monte-carlo-em"):
            call()
    assert backend.capability(RowUpdates) is None


# estimators


def binary_data(n: int = 120, rows: int = 8, seed: int = 0) -> tuple[Array, Array, np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n), rows)
    x = 10.0 * rng.normal(size=(n * rows, 1))
    eta = -0.5 + 0.1 * x[:, 0] + rng.normal(size=n)[groups]
    return x, (rng.random(n * rows) < expit(eta)).astype(float), groups


def exact_logistic(x: Array, y: Array, n: int) -> tuple[Array, Array, float]:
    """Maximum likelihood by quadrature: estimates, standard errors, log-likelihood."""
    from scipy.optimize import minimize

    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    x, sign = x.reshape(n, -1, 1), 2 * y.reshape(n, -1, 1) - 1

    def loss(v: Array) -> float:
        eta = v[0] + v[1] * x + np.sqrt(v[2]) * nodes
        log_likelihood = -np.logaddexp(0.0, -sign * eta).sum(axis=1)
        return -float(np.log(np.exp(log_likelihood) @ weights / weights.sum()).sum())

    best = minimize(loss, [0.0, 0.1, 1.0], bounds=[(None, None), (None, None), (0.01, None)])
    step = np.diag([1e-3, 1e-4, 1e-3])
    hessian = np.array(
        [
            [
                (
                    loss(best.x + a + b)
                    - loss(best.x + a - b)
                    - loss(best.x - a + b)
                    + loss(best.x - a - b)
                )
                / (4 * a.sum() * b.sum())
                for a in step
            ]
            for b in step
        ]
    )
    return best.x, np.sqrt(np.diag(np.linalg.inv(hessian))), -float(best.fun)


def test_logistic_fit_is_the_maximum_of_the_likelihood() -> None:
    x, y, groups = binary_data()
    best, errors, log_likelihood = exact_logistic(x, y, 120)
    model = LogisticMixedModel(random_state=0).fit(x, y, groups)
    found = np.append(model.coef_, model.random_covariance_)
    assert np.all(np.abs(found - best) < 0.35 * errors)
    ours = np.append(model.coef_std_errors_, model.random_covariance_std_errors_)
    assert np.allclose(ours, errors, rtol=0.15)
    assert model.log_likelihood_ == pytest.approx(log_likelihood, abs=0.3)
    assert model.aic() == pytest.approx(-2 * model.log_likelihood_ + 6)
    assert model.bic() == pytest.approx(-2 * model.log_likelihood_ + 3 * np.log(120))
    assert model.coef_names_ == ["Intercept", "x0"]
    assert model.random_effects_.shape == (120, 1)
    assert len(model.history_) == model.n_seen_ / 120
    assert np.mean(model.predict(x, groups) == y) > np.mean(model.predict(x) == y) > 0.6
    assert np.allclose(model.predict_proba(x, groups).sum(axis=1), 1.0)


def test_logistic_formula_and_arrays_agree_in_memory_and_from_files(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    x, y, groups = binary_data(40)
    settings: dict[str, Any] = {"max_iter": 4, "evaluation_draws": 10, "random_state": 1}
    arrays = LogisticMixedModel(**settings).fit(x, y, groups)
    table = pa.table({"y": y, "x": x[:, 0], "school": groups})
    pq.write_table(table, tmp_path / "schools.parquet")
    for data in (table, tmp_path / "schools.parquet"):
        model = LogisticMixedModel("y ~ x", group="school", **settings).fit(data)
        assert np.allclose(model.coef_, arrays.coef_)
        assert np.allclose(model.random_effects_, arrays.random_effects_)
        assert np.allclose(model.predict_proba(data), arrays.predict_proba(x, groups))
    shuffled = np.random.default_rng(0).permutation(len(x))
    again = LogisticMixedModel(**settings).fit(x[shuffled], y[shuffled], groups[shuffled])
    assert np.allclose(again.coef_, arrays.coef_)


def test_a_group_of_weight_two_is_there_twice() -> None:
    x, y, groups = binary_data(40)
    twice = [np.concatenate([part, part[groups < 20]]) for part in (x, y)]
    more = np.concatenate([groups, groups[groups < 20] + 100])
    weight = np.where(groups < 20, 2.0, 1.0)
    settings: dict[str, Any] = {"evaluation_draws": 200, "random_state": 0}
    weighted = LogisticMixedModel(**settings).fit(x, y, groups, group_weight=weight)
    doubled = LogisticMixedModel(**settings).fit(twice[0], twice[1], more)
    assert np.allclose(weighted.coef_, doubled.coef_, atol=0.3 * doubled.coef_std_errors_)
    assert np.allclose(weighted.coef_std_errors_, doubled.coef_std_errors_, rtol=0.15)


def concentrations(n: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    subject, time = np.repeat(np.arange(n), len(TIMES)), np.tile(TIMES, n)
    effects = np.array([0.4, 0.2, 0.3]) * rng.normal(size=(n, 3))
    ka, v, cl = (np.array([1.5, 30.0, 3.0]) * np.exp(effects)).T[:, subject]
    c = 100.0 * ka / (v * ka - cl) * (np.exp(-cl / v * time) - np.exp(-ka * time))
    return {
        "subject": subject,
        "time": time,
        "dose": np.full(len(c), 100.0),
        "concentration": c + 0.1 * rng.normal(size=len(c)),
    }


def test_pharmacokinetic_truth_is_found() -> None:
    table = concentrations(seed=1)
    model = OneCompartmentModel(dosing="single", random_state=0).fit(table)
    gap = np.abs(model.population_ - [1.5, 30.0, 3.0])
    assert np.all(gap < 3 * model.population_std_errors_)
    assert np.all(model.population_std_errors_ < 0.1 * model.population_)
    spread = np.abs(np.diag(model.random_covariance_) - np.square([0.4, 0.2, 0.3]))
    assert np.all(spread < 3 * np.diag(model.random_covariance_std_errors_))
    assert abs(model.noise_[0] - 0.1) < 3 * model.noise_std_errors_[0]
    predicted = model.predict(table)
    assert np.sqrt(np.mean((predicted - table["concentration"]) ** 2)) < 0.12
    new = {**table, "subject": table["subject"] + 1000}
    assert np.allclose(model.predict(new)[:8], model.predict(new)[8:16])


def test_events_and_single_doses_say_the_same() -> None:
    single = concentrations(12)
    events = {
        name: np.concatenate([np.repeat(first, 12), column])
        for name, first, column in (
            ("time", 0.0, single["time"]),
            ("dose", 100.0, np.zeros(96)),
            ("concentration", 0.0, single["concentration"]),
        )
    }
    events["subject"] = np.concatenate([np.arange(12), single["subject"]])
    settings: dict[str, Any] = {"max_iter": 3, "evaluation_draws": 10, "random_state": 0}
    one = OneCompartmentModel(dosing="single", **settings).fit(single)
    other = OneCompartmentModel(**settings).fit(events)
    assert np.allclose(one.population_, other.population_)
    assert np.allclose(one.predict(single), other.predict(events)[12:])
    named = {**single, "subject": np.array([f"p{i:02d}" for i in single["subject"]])}
    text = OneCompartmentModel(dosing="single", **settings).fit(named)
    assert np.allclose(text.population_, one.population_)
    assert text.subjects_[0] == "p00"
    assert np.allclose(text.predict(named), one.predict(single))


def test_saved_models_come_back(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_iter": 2, "evaluation_draws": 10, "random_state": 0}
    table = concentrations(12)
    pk = OneCompartmentModel(dosing="single", **settings).fit(table)
    x, y, groups = binary_data(20)
    logistic = LogisticMixedModel(**settings).fit(x, y, groups)
    for i, model in enumerate((pk, logistic)):
        model.save(tmp_path / f"{i}.mixfold")
    again = mixfold.load(tmp_path / "0.mixfold")
    assert equal(again.predict(table), pk.predict(table))
    assert equal(again.population_std_errors_, pk.population_std_errors_)
    again = mixfold.load(tmp_path / "1.mixfold")
    assert equal(again.predict_proba(x, groups), logistic.predict_proba(x, groups))


def test_a_resumed_fit_ends_with_the_same_bits(tmp_path: Path) -> None:
    table = concentrations(12)
    settings: dict[str, Any] = {"dosing": "single", "evaluation_draws": 10, "random_state": 0}
    whole = OneCompartmentModel(max_iter=6, **settings).fit(table)
    kept: dict[str, Any] = {"checkpoint": tmp_path / "fit", "resume": True, **settings}
    OneCompartmentModel(max_iter=3, **kept).fit(table)
    resumed = OneCompartmentModel(max_iter=6, **kept).fit(table)
    assert equal(resumed.params_, whole.params_)
    assert resumed.n_seen_ == 72
    with pytest.raises(InvalidInputError, match="checkpoint=PATH"):
        OneCompartmentModel(resume=True).fit(table)


def test_a_fit_is_not_resumed_on_other_data_or_from_another_seed(tmp_path: Path) -> None:
    x, y, groups = binary_data(20)
    kept: dict[str, Any] = {"checkpoint": tmp_path / "logistic", "resume": True}
    model = LogisticMixedModel(max_iter=1, evaluation_draws=5, random_state=np.int64(0), **kept)
    model.fit(x, y, groups)
    for other in ((x + 1.0, y, groups), (x, 1 - y, groups)):
        with pytest.raises(ModelFileError, match="another fit"):
            model.fit(*other)
    with pytest.raises(ModelFileError, match="another fit"):
        model.set_params(random_state=np.int64(1)).fit(x, y, groups)
    model.set_params(random_state=0, max_iter=2).fit(x, y, groups)
    assert model.n_seen_ == 40
    table = concentrations(12)
    settings: dict[str, Any] = {"dosing": "single", "evaluation_draws": 10, "random_state": 0}
    settings["max_iter"] = 3
    pk = OneCompartmentModel(checkpoint=tmp_path / "pk", resume=True, **settings).fit(table)
    with pytest.raises(ModelFileError, match="another fit"):
        pk.fit({**table, "concentration": 1.1 * table["concentration"]})


# real data, where it is at hand; else data like it


def has_data() -> bool:
    return datasets.DATA_HOME in os.environ


def theoph() -> dict[str, np.ndarray]:
    if not has_data():
        rng = np.random.default_rng(1)
        found = concentrations(12)
        psi = np.log([1.58, 0.457, 0.04]) + np.array([0.6, 0.13, 0.25]) * rng.normal(size=(12, 3))
        time = np.tile([0.3, 0.6, 1.0, 2.0, 4.0, 7.0, 12.0, 24.0], (12, 1))
        dose = np.full((12, 1), 4.5)
        c = OneCompartment(time, np.zeros((12, 1)), dose).concentration(psi)
        c += 0.5 * rng.normal(size=c.shape)
        return {**found, "time": time.ravel(), "dose": np.full(96, 4.5), "concentration": c.ravel()}
    import pyarrow.parquet as pq

    table = pq.read_table(datasets.data_home() / "theoph.parquet")
    old = {"subject": "Subject", "time": "Time", "dose": "Dose", "concentration": "conc"}
    return {new: table[name].to_numpy() for new, name in old.items()}


def test_theophylline_agrees_with_published_fits() -> None:
    model = OneCompartmentModel(dosing="single", random_state=0).fit(theoph())
    within = (0.12, 0.03, 0.03) if has_data() else (0.6, 0.15, 0.3)
    assert np.all(np.abs(model.population_ / [1.58, 0.457, 0.0400] - 1) < within)
    if has_data():
        deviations = np.sqrt(np.diag(model.random_covariance_))
        assert np.allclose(deviations, [0.64, 0.13, 0.26], atol=0.05)
        assert model.noise_[0] == pytest.approx(0.69, abs=0.02)
        assert model.log_likelihood_ == pytest.approx(-180.0, abs=1.0)


def warfarin() -> dict[str, np.ndarray]:
    if not has_data():
        rng = np.random.default_rng(2)
        found = concentrations(30)
        psi = np.log([1.3, 7.9, 0.133, 0.8]) + 0.2 * rng.normal(size=(30, 4))
        time = np.tile([0.5, 1.0, 2.0, 3.0, 6.0, 24.0, 72.0, 120.0], (30, 1))
        dose = np.full((30, 1), 100.0)
        c = OneCompartment(time, np.zeros((30, 1)), dose).concentration(psi)
        c += 0.5 * rng.normal(size=c.shape)
        found |= {"time": time.ravel(), "concentration": c.ravel(), "weight": np.full(240, 70.0)}
        doses = {"time": 0.0, "dose": 100.0, "concentration": 0.0, "weight": 70.0}
        found["dose"] = np.zeros(240)
        events = {n: np.concatenate([np.full(30, v), found[n]]) for n, v in doses.items()}
        return {**events, "subject": np.concatenate([np.arange(30), found["subject"]])}
    import pyarrow.parquet as pq

    table = pq.read_table(datasets.data_home() / "warfarin.parquet")
    plasma = table["dvid"].to_numpy() == "cp"
    old = {"subject": "id", "time": "time", "dose": "amt", "concentration": "dv", "weight": "wt"}
    return {new: table[name].to_numpy()[plasma] for new, name in old.items()}


def test_warfarin_agrees_with_published_fits() -> None:
    table = warfarin()
    model = OneCompartmentModel(lag=True, weight="weight", random_state=0).fit(table)
    ka, v, cl, lag = model.population_
    assert v == pytest.approx(8.0, rel=0.1)
    assert cl == pytest.approx(0.134, rel=0.1)
    assert 0.6 < ka < 2.0
    assert 0.6 < lag < 1.1
    assert model.parameter_names_ == ["ka", "V", "CL", "lag"]


# bad input


def test_bad_logistic_input_is_named() -> None:
    x, y, groups = binary_data(10)
    model = LogisticMixedModel(max_iter=1, evaluation_draws=5, random_state=0)
    model.fit(x, y, groups)
    before = dict(model.__dict__)
    for wrong, message in (
        ((x, np.arange(len(y)) % 3, groups), "Only binary classification .* 3 classes"),
        ((x, np.ones_like(y), groups), "1 in every row"),
        ((np.where(x > 9, np.nan, x), y, groups), "NaN"),
        ((x, y, groups[:-1]), "groups has shape"),
        ((x, y, None), "groups is needed"),
        ((x, y, groups, np.zeros_like(x)), "zero in every row"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.fit(*wrong)
    assert model.__dict__ == before
    for name, value in (
        ("covariance", "spherical"),
        ("max_iter", 0),
        ("evaluation_draws", 1),
        ("learner", "no-such-rule"),
        ("n_threads", -1),
    ):
        with pytest.raises(InvalidInputError, match=name.replace("_", ".")):
            LogisticMixedModel().set_params(**{name: value}).fit(x, y, groups)


def test_a_response_in_a_formula_is_0_or_1() -> None:
    x, y, groups = binary_data(10)
    table = {"y": y + 1, "x": x[:, 0], "g": groups}
    with pytest.raises(InvalidInputError, match=r"row .* response is 2"):
        LogisticMixedModel("y ~ x", group="g").fit(table)


def test_bad_concentrations_are_named() -> None:
    table = concentrations(6)
    model = OneCompartmentModel(dosing="single", max_iter=1, evaluation_draws=5, random_state=0)
    for name, value, message in (
        ("concentration", np.nan, "row 4 .*, column 'concentration' is NaN"),
        ("dose", -1.0, "row 4 .*, column 'dose' is -1"),
        ("time", np.inf, "row 4 .*, column 'time' is infinity"),
        ("dose", 50.0, "subject 0 changes from row to row"),
    ):
        bad = {n: np.array(column, dtype=float) for n, column in table.items()}
        bad[name][3] = value
        with pytest.raises(InvalidInputError, match=message):
            model.fit(bad)
    with pytest.raises(InvalidInputError, match="subject 0 has no observation"):
        OneCompartmentModel().fit(table)
    with pytest.raises(InvalidInputError, match="subject 0 has no dose"):
        OneCompartmentModel().fit({**table, "dose": np.zeros(48)})
    early = {**table, "time": np.where(np.arange(48) == 8, 0.0, table["time"])}
    with pytest.raises(InvalidInputError, match="subject 1 was observed before"):
        OneCompartmentModel(dosing="single", error="proportional").fit(early)
    with pytest.raises(SourceError, match="no column 'weight'"):
        OneCompartmentModel(dosing="single", weight="weight").fit(table)
    with pytest.raises(InvalidInputError, match="column 'weight' is 0"):
        OneCompartmentModel(dosing="single", weight="weight").fit({**table, "weight": np.zeros(48)})
    with pytest.raises(InvalidInputError, match="'time' is not numeric"):
        OneCompartmentModel().fit({**table, "time": np.array(["a"] * 48)})
    with pytest.raises(InvalidInputError, match="a table"):
        OneCompartmentModel().fit(np.ones((3, 4)))
    for name, word in (("dosing", "oral"), ("error", "none"), ("covariance", "no")):
        with pytest.raises(InvalidInputError, match=name):
            OneCompartmentModel().set_params(**{name: word}).fit(table)
    assert not hasattr(model, "population_")


def test_a_parameter_without_information_leaves_the_others_theirs() -> None:
    information = np.array([[4.0, 0.0, 1e-13], [0.0, 2.0, 0.0], [1e-13, 0.0, -1e-24]])
    found = inverse_information(information, np.diag([4.0, 2.0, 1e-24]))
    np.testing.assert_allclose(found[:2, :2], np.diag([0.25, 0.5]))
    assert np.isnan(found[2]).all()
    assert np.isnan(found[:, 2]).all()


def test_standard_errors_that_are_rougher_say_so() -> None:
    indefinite, definite = np.diag([1.0, -1.0]), np.diag([4.0, 2.0])
    with pytest.warns(RuntimeWarning, match="squared scores.*more evaluation_draws"):
        found = inverse_information(indefinite, definite)
    np.testing.assert_allclose(found, np.diag([0.25, 0.5]))
    with pytest.warns(RuntimeWarning, match="no standard errors"):
        assert np.isnan(inverse_information(indefinite, indefinite)).all()
    for broken in (np.diag([1.0, -100.0]), np.array([[1.0, np.nan], [np.nan, 1.0]])):
        with pytest.warns(RuntimeWarning, match="squared scores"):
            found = inverse_information(broken, definite)
        np.testing.assert_allclose(found, np.diag([0.25, 0.5]))
    third = np.diag([1.0, 2.0, -100.0]) + 0.3
    with pytest.warns(RuntimeWarning, match="no standard errors"):
        assert np.isnan(inverse_information(third, np.full((3, 3), np.nan))).all()
    np.testing.assert_allclose(inverse_information(definite, indefinite), np.diag([0.25, 0.5]))
