"""Nonlinear mixed models: against quadrature, finite differences and the laws."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from mixfold.backends.threads import Threads
from mixfold.core.backend import Assignment
from mixfold.core.backend_capabilities import RowUpdates
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals
from mixfold.core.value import equal
from mixfold.kernels._metropolis import shape_at_mode
from mixfold.kernels.simulation import SimulationKernel
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.models._one_compartment import OneCompartment
from mixfold.models.logistic_mixed import LogisticMixed, LogisticMixedParams
from mixfold.models.pharmacokinetic import Pharmacokinetic, PharmacokineticParams
from mixfold.models.random_effects import RandomEffects
from mixfold.schedules.settling import Settling
from mixfold.testing import learners
from mixfold.testing.folding import fold

TIMES = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0, 24.0])


def logistic_subjects(n: int, q: int, seed: int = 0) -> tuple[LogisticMixed, Array]:
    """Units of 3 to 8 rows with two fixed effects and q random ones."""
    rng = np.random.default_rng(seed)
    model = LogisticMixed(n_rows=8, n_fixed=2, n_random=q)
    table = rng.normal(size=(n, 8, model.n_columns))
    table[..., 0] = table[..., 2] = 1.0
    effects = rng.normal(size=(n, 1, q))
    eta = table[..., :2] @ [-0.5, 1.0] + (table[..., 2 : 2 + q] * effects).sum(axis=-1)
    table[..., -1] = rng.random((n, 8)) < expit(eta)
    return model, as_subjects(table, rng.integers(3, 9, size=n))


def pk_subjects(n: int, seed: int = 0, **settings: Any) -> tuple[Pharmacokinetic, Array]:
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
    return model, as_subjects(table, rng.integers(5, 10, size=n))


def as_subjects(table: Array, counts: np.ndarray) -> Array:
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
        logistic, x = logistic_subjects(n, q)
        found.append((logistic, LOGISTIC_PARAMS[q], x))
    for settings in PK_SETTINGS:
        pk, x = pk_subjects(n, **settings)
        found.append((pk, pk_params(pk), x))
    return found


CASES = [pytest.param(*case, id=f"{type(case[0]).__name__}-{i}") for i, case in enumerate(cases())]


# against quadrature


def test_draws_agree_with_quadrature_for_one_random_effect() -> None:
    model, x = logistic_subjects(30, 1)
    params = LOGISTIC_PARAMS[1]
    target = model.conditional(params, x)
    grid = np.linspace(-12, 12, 4001)
    joint = np.stack([target.log_joint(np.full((30, 1), z)) for z in grid])
    density = np.trapezoid(np.exp(joint), grid, axis=0)
    expected = np.stack([target.statistics(np.full((30, 1), z)) for z in grid])
    expected = np.trapezoid(np.exp(joint)[..., None] * expected, grid, axis=0) / density[:, None]
    rows, learner = Rows(x), Assignment("draw", 4000, 3)
    log_density, expectations = SimulationKernel(model).simulate(params, rows, learner)
    assert np.allclose(log_density, np.log(density), atol=0.03)
    assert np.allclose(expectations, expected, atol=0.12)
    assert np.abs((expectations - expected).mean(axis=0)).max() < 0.02


def test_pharmacokinetic_draws_agree_with_a_grid() -> None:
    model, x = pk_subjects(2, error="additive")
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
    model, x = logistic_subjects(5000, 1)
    learner = Assignment("draw", 2, 5)
    tiles = -(-len(x) // Threads(model, 1).tile)
    sums = [
        Threads(model, n).fold(LOGISTIC_PARAMS[1], Rows(x), np.zeros(model.n_sums), learner)
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
@pytest.mark.parametrize("learner", RULES, ids=("passes", "batches"))
@pytest.mark.parametrize(("model", "params", "x"), CASES[1:3])
def test_learners_keep_their_laws(
    model: Any, params: Any, x: Array, learner: MonteCarloEM, law: Any
) -> None:
    rows = Rows(x, np.random.default_rng(0).integers(0, 3, size=len(x)).astype(float))
    law(model, params, learner.resolve(len(x), model.d, False), rows, [1, 8, 9, 30])


def test_passes_raise_the_likelihood_and_batches_agree() -> None:
    model, x = logistic_subjects(300, 1)
    began = LogisticMixedParams(np.array([0.5, 0.0]), np.array([[0.2]]))
    backend, ends = Threads(model, 1), []
    for rule in (
        MonteCarloEM(draws=10, schedule=Settling(15), max_iter=30),
        MonteCarloEM(draws=10, batch_size=60, schedule=Settling(30), max_iter=15),
    ):
        learner = rule.resolve(len(x), model.d, False)
        state, infos = fold(backend, learner, began, Rows(x), [], passes=rule.max_iter)
        ends.append(learner.estimate(backend, state))
        assert infos[-1].log_likelihood > infos[0].log_likelihood
    assert np.allclose(ends[0].mean, ends[1].mean, atol=0.1)
    assert np.allclose(ends[0].covariance, ends[1].covariance, atol=0.3)


def test_collapsed_variances_are_mended_and_counted() -> None:
    model, _ = pk_subjects(1)
    params = replace(pk_params(model), covariance=np.zeros((3, 3)))
    mended, n_degenerate = model.maximize(model.expected(params))
    assert n_degenerate == 3
    assert np.linalg.eigvalsh(mended.covariance).min() > 0


def test_a_closed_form_is_not_pretended() -> None:
    model, x = logistic_subjects(5, 3)
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
