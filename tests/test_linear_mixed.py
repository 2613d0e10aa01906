"""Linear mixed-effects models: the mathematics, the laws, agreement with statsmodels, bad input."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import mixfold
from mixfold import LinearMixedModel
from mixfold.core.errors import MixfoldError, ModelFileError
from mixfold.core.learner import Learner
from mixfold.core.problem import Assignment
from mixfold.core.registry import find_all
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import pack, unpack
from mixfold.core.value import equal
from mixfold.engines.threads import Threads
from mixfold.estimators._formula import FormulaDesign
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.models.linear_mixed import LinearMixed, LinearMixedParams, unit_rows
from mixfold.sources._grouped import Grouped
from mixfold.sources._opening import open_source
from mixfold.testing import learners, sources

LEARNERS: list[Learner] = [learner() for learner in find_all("learners").values()] + [
    EM(accelerate=True),
    MiniBatchEM(batch_size=70, average_from=3, truncation=1000.0),
]


class Group:
    """Observations of one group."""

    def __init__(self, a: Array, b: Array, r: Array) -> None:
        self.a, self.b, self.r = a, b, r


def simulated(m: int, p: int, q: int, seed: int = 0) -> tuple[list[Group], LinearMixedParams]:
    """Unbalanced groups, some of one row, and the parameters they were drawn from."""
    rng = np.random.default_rng(seed)
    root = np.tril(rng.normal(size=(q, q))) + np.eye(q)
    beta, omega, noise = rng.normal(size=p), root @ root.T, 0.5
    groups = []
    for n in rng.integers(1, 9, size=m):
        a = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
        b = np.column_stack([np.ones(n), rng.normal(size=(n, q - 1))])
        z = rng.multivariate_normal(np.zeros(q), omega)
        groups.append(Group(a, b, a @ beta + b @ z + np.sqrt(noise) * rng.normal(size=n)))
    gram = pack(np.mean([g.a.T @ g.a for g in groups], axis=0))
    observations = float(np.mean([len(g.r) for g in groups]))
    return groups, LinearMixedParams(beta, omega, noise, gram, observations)


def units(groups: list[Group]) -> Array:
    starts = np.cumsum([0, *(len(g.r) for g in groups[:-1])])
    parts = (np.concatenate([getattr(g, name) for g in groups]) for name in "abr")
    return unit_rows(*parts, starts)


def dense(group: Group, params: LinearMixedParams) -> tuple[float, Array, Array]:
    """log p(r), E[z] and E[zz'] of a group through its whole covariance matrix."""
    v = group.b @ params.omega @ group.b.T + params.noise_variance * np.eye(len(group.r))
    mean = group.a @ params.beta
    gain = params.omega @ group.b.T @ np.linalg.inv(v)
    mu = gain @ (group.r - mean)
    gamma = params.omega - gain @ group.b @ params.omega
    log_density = float(multivariate_normal(mean, v).logpdf(group.r))
    return log_density, mu, gamma + np.outer(mu, mu)


SHAPES = [(1, 1), (2, 1), (3, 2), (2, 3)]


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_the_e_step_agrees_with_dense_matrices(p: int, q: int) -> None:
    groups, params = simulated(40, p, q)
    model, x = LinearMixed(p, q), units(groups)
    weight = np.random.default_rng(1).integers(0, 4, size=40).astype(np.float64)
    problem = Threads(model, 1)
    log_density, latent = problem.posterior(params, Rows(x))
    assert latent is not None
    expected = np.zeros(model.n_sums)
    for i, group in enumerate(groups):
        density, z, zz = dense(group, params)
        np.testing.assert_allclose(log_density[i], density, rtol=1e-9)
        np.testing.assert_allclose(latent[i, :q], z, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(unpack(latent[i, q:], q), zz, rtol=1e-8, atol=1e-10)
        a, b, r = group.a, group.b, group.r
        residual = r @ r - 2 * r @ b @ z + np.trace(b.T @ b @ zz)
        parts = [[density, 1.0, len(r)], pack(a.T @ a), a.T @ (r - b @ z), [residual], pack(zz)]
        expected += weight[i] * np.concatenate(parts)
    found = problem.fold(params, Rows(x, weight), np.zeros(model.n_sums))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    moments = problem.moments(params, Rows(x, weight), latent)
    np.testing.assert_allclose(moments[1:], expected[1:], rtol=1e-9, atol=1e-9)
    assert moments[0] == 0.0


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_a_group_of_weight_two_is_the_group_twice(p: int, q: int) -> None:
    groups, params = simulated(30, p, q)
    x, times = units(groups), np.random.default_rng(2).integers(0, 4, size=30)
    model = LinearMixed(p, q)
    problem, zero = Threads(model, 1), np.zeros(model.n_sums)
    weighted = problem.fold(params, Rows(x, times.astype(np.float64)), zero)
    repeated = problem.fold(params, Rows(np.repeat(x, times, axis=0)), zero)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_parameters_statistics_and_coordinates_are_inverses(
    p: int, q: int, covariance: Any
) -> None:
    _, params = simulated(30, p, q)
    model = LinearMixed(p, q, covariance)
    params = model.maximize(model.expected(params))[0]
    back, repairs = model.maximize(model.expected(params))
    assert repairs == 0
    for other in (back, model.constrained(model.unconstrained(params), params)):
        for name in ("beta", "omega", "noise_variance", "gram", "observations"):
            expected = getattr(params, name)
            np.testing.assert_allclose(getattr(other, name), expected, rtol=1e-9, atol=1e-12)
    statistics = model.expected(params)
    assert equal(model.statistics(params, model.sums(params, statistics)), statistics)
    assert model.unconstrained(params).shape == model.units(params).shape
    far = model.constrained(model.unconstrained(params) + 1e3, params)
    assert np.isfinite(model.unconstrained(far)).all()


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_a_draw_has_the_moments_of_the_posterior(p: int, q: int) -> None:
    groups, params = simulated(20, p, q)
    x, model = units(groups), LinearMixed(p, q)
    kernel = Threads(model, 1).kernel
    prepared = kernel.prepare(params)
    expected, latent = kernel.posterior(prepared, x)
    density, drawn = kernel.simulate(prepared, Rows(x), Assignment("draw", draws=20_000, seed=1))
    assert latent is not None
    np.testing.assert_array_equal(density, expected)
    np.testing.assert_allclose(drawn, latent, atol=0.1 * np.abs(latent).max())
    half = kernel.simulate(prepared, Rows(x[8:]), Assignment("draw", draws=20_000, seed=1, first=8))
    np.testing.assert_array_equal(half[1], drawn[8:])
    modes = model.mode(latent)
    np.testing.assert_array_equal(modes[:, :q], latent[:, :q])
    np.testing.assert_allclose(modes[:, q], latent[:, 0] ** 2)


def log_likelihood(model: LinearMixed, x: Array, params: LinearMixedParams) -> float:
    return float(Threads(model, 1).posterior(params, Rows(x), False)[0].sum())


def learned(model: LinearMixed, x: Array) -> LinearMixedParams:
    rule, problem = EM(tol=1e-14, max_passes=3000, accelerate=True), Threads(model, 1)
    state = rule.init(problem, model.start(x))
    while not rule.finished(state):
        state, _ = rule.end_pass(problem, rule.step(problem, state, Rows(x))[0])
    params: LinearMixedParams = rule.estimate(problem, state)
    return params


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_where_em_rests_the_gradient_is_zero(covariance: Any) -> None:
    groups, _ = simulated(80, 2, 2)
    x, model = units(groups), LinearMixed(2, 2, covariance)
    params = learned(model, x)
    at = model.unconstrained(params)
    best = log_likelihood(model, x, params)
    for j in range(at.shape[1]):
        step = np.zeros_like(at)
        step[0, j] = 1e-4
        up, down = (
            log_likelihood(model, x, model.constrained(at + s, params)) for s in (step, -step)
        )
        assert up < best + 1e-9
        assert down < best + 1e-9
        assert abs(up - down) / 2e-4 < 2e-3


@pytest.mark.parametrize("accelerate", [False, True])
def test_em_never_goes_down(accelerate: bool) -> None:
    groups, _ = simulated(60, 2, 2)
    x, model = units(groups), LinearMixed(2, 2)
    rule, problem = EM(tol=0.0, accelerate=accelerate), Threads(model, 1)
    state, reached = rule.init(problem, model.start(x)), -np.inf
    for _ in range(30):
        state, _ = rule.end_pass(problem, rule.step(problem, state, Rows(x))[0])
        now = log_likelihood(model, x, rule.estimate(problem, state))
        assert now >= reached - 1e-9
        reached = now


def test_titteringtons_step_agrees_with_the_information_and_stays_inside() -> None:
    groups, params = simulated(60, 2, 2)
    x, model = units(groups), LinearMixed(2, 2)
    problem = Threads(model, 1)
    sums = problem.fold(params, Rows(x), np.zeros(model.n_sums))
    batch = model.statistics(params, sums).normalized()
    gamma = 1e-6
    moved, _ = model.maximize(model.recursive(model.expected(params), batch, gamma)[0])
    em, _ = model.maximize(batch)
    # to first order a natural-gradient step goes gamma of the way to EM's next point in beta
    step = (moved.beta - params.beta) / gamma
    np.testing.assert_allclose(step, em.beta - params.beta, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(
        (moved.omega - params.omega) / gamma, em.omega - params.omega, rtol=1e-3, atol=1e-8
    )
    one = problem.fold(params, Rows(x[:1] * 1e-6), np.zeros(model.n_sums))
    tiny = model.statistics(params, one)
    cut, _ = model.recursive(model.expected(params), tiny, 1.0)
    assert model.maximize(cut)[0].noise_variance > 0


@pytest.mark.parametrize("law", learners.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learner(law: Callable[..., None], learner: Learner) -> None:
    groups, params = simulated(400, 2, 2)
    x, model = units(groups), LinearMixed(2, 2)
    learner = learner.resolve(len(x), model.d, False)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, size=len(x))
    law(model, params, learner, Rows(x), [1, 8, 9, 137, 350])
    law(model, params, learner, Rows(x.astype(np.float32), weight), [200])


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 300), max_size=6).map(sorted),
    which=st.integers(0, len(LEARNERS) - 1),
)
def test_any_cuts_give_the_same_bits(cuts: list[int], which: int) -> None:
    groups, params = simulated(300, 2, 1)
    model = LinearMixed(2, 1)
    learner = LEARNERS[which].resolve(300, model.d, False)
    learners.blocks_do_not_matter(model, params, learner, Rows(units(groups)), cuts)


def test_many_tiles_on_any_number_of_threads_give_the_same_bits() -> None:
    groups, params = simulated(500, 2, 2)
    x, model = np.tile(units(groups), (80, 1)), LinearMixed(2, 2)
    cuts = [1, 16_384, 16_385, 30_001]
    learners.blocks_do_not_matter(model, params, EM(), Rows(x), cuts)
    learners.threads_do_not_matter(model, params, EM(), Rows(x), cuts)


# against statsmodels


def table_of(m: int, seed: int = 0) -> pd.DataFrame:
    """Pupils in schools, of 1 to 12 pupils, in random order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, size=m)
    school = np.repeat(np.arange(m), sizes)
    x = rng.normal(size=len(school))
    kind = rng.choice(["a", "b", "c"], size=len(school))
    slope = rng.multivariate_normal([0, 0], [[2.0, 0.3], [0.3, 0.5]], size=m)[school]
    y = 100 + 3 * x + (kind == "b") + slope[:, 0] + slope[:, 1] * x + rng.normal(size=len(x))
    table = pd.DataFrame({"y": y, "x": x, "kind": kind, "school": school})
    table["name"] = [f"school {s}" for s in school]
    return table.sample(frac=1.0, random_state=seed, ignore_index=True)


def statsmodels(formula: str, random: str, group: str, table: pd.DataFrame) -> Any:
    import statsmodels.formula.api as smf

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = smf.mixedlm(formula, table, groups=table[group], re_formula=random)
        return model.fit(reml=False, method="bfgs", gtol=1e-8, maxiter=500)


def wald_errors(model: Any) -> pd.Series:
    """Standard errors from sum A'V^-1 A at the estimates of statsmodels."""
    fit, total = model, 0.0
    for a, b in zip(fit.model.exog_li, fit.model.exog_re_li, strict=True):
        v = b @ fit.cov_re.to_numpy() @ b.T + fit.scale * np.eye(len(a))
        total = total + a.T @ np.linalg.solve(v, a)
    return pd.Series(np.sqrt(np.diag(np.linalg.inv(total))), fit.model.exog_names)


def agrees(ours: LinearMixedModel, theirs: Any, rtol: float = 1e-4) -> None:
    names = ours.coef_names_
    np.testing.assert_allclose(ours.coef_, theirs.fe_params[names], rtol=rtol)
    np.testing.assert_allclose(ours.random_covariance_, theirs.cov_re, rtol=rtol)
    np.testing.assert_allclose(ours.noise_variance_, theirs.scale, rtol=rtol)
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-9)
    np.testing.assert_allclose(ours.coef_std_errors_, wald_errors(theirs)[names], rtol=rtol)
    # statsmodels inverts the observed information, in which fixed effects and variances mix
    np.testing.assert_allclose(ours.coef_std_errors_, theirs.bse_fe[names], rtol=3e-2)
    assert ours.converged_


@pytest.mark.parametrize("random", ["~ 1", "~ x"])
def test_agreement_with_statsmodels(random: str) -> None:
    table = table_of(60)
    ours = LinearMixedModel("y ~ x + kind", random, "school").fit(table)
    theirs = statsmodels("y ~ x + kind", random, "school", table)
    agrees(ours, theirs)
    effects = np.array([list(theirs.random_effects[g]) for g in ours.groups_])
    np.testing.assert_allclose(ours.random_effects_, effects, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.predict(table), theirs.fittedvalues, rtol=1e-5)


REAL = [
    ("sleepstudy", "Reaction ~ Days", "~ Days", "Subject"),
    ("orthodont", "distance ~ age + Sex", "~ age", "Subject"),
    ("orthodont", "distance ~ age * Sex", "~ 1", "Subject"),
    ("math_achieve", "MathAch ~ SES + MEANSES", "~ SES", "School"),
    ("math_achieve", "MathAch ~ SES + Sex + Minority", "~ 1", "School"),
]


@pytest.mark.skipif("MIXFOLD_DATA" not in os.environ, reason="MIXFOLD_DATA names no data folder")
@pytest.mark.parametrize(("name", "formula", "random", "group"), REAL)
def test_agreement_with_statsmodels_on_real_data(
    name: str, formula: str, random: str, group: str
) -> None:
    path = Path(os.environ["MIXFOLD_DATA"]) / f"{name}.parquet"
    table = pd.read_parquet(path)
    ours = LinearMixedModel(formula, random, group).fit(table)
    agrees(ours, statsmodels(formula, random, group, table))
    from_file = LinearMixedModel(formula, random, group).fit(path)
    np.testing.assert_allclose(from_file.coef_, ours.coef_, rtol=1e-5)
    np.testing.assert_allclose(from_file.random_covariance_, ours.random_covariance_, rtol=1e-4)
