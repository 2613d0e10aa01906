"""Linear mixed-effects models: the mathematics, the laws, agreement with statsmodels, bad input."""

from __future__ import annotations

import os
import re
import sys
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
from mixfold.backends.threads import Threads
from mixfold.core.backend import Assignment
from mixfold.core.errors import InvalidInputError, MissingExtraError, MixfoldError, ModelFileError
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals, pack, unpack
from mixfold.core.value import equal, field_names
from mixfold.estimators._units import padded
from mixfold.fitting.checkpoint import Checkpoint
from mixfold.kernels.choice import tile_length
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.models.linear_mixed import LinearMixed, LinearMixedParams
from mixfold.models.unit_rows import unit_rows
from mixfold.sources.grouped import Grouped
from mixfold.sources.opening import open_source
from mixfold.testing import learners, sources

LEARNERS: list[Learner] = [learner() for learner in find_all("learners").values()] + [
    EM(accelerate=True),
    MiniBatchEM(batch_size=70, average_from=3, truncation=1000.0),
]
LEARNERS = [learner for learner in LEARNERS if learner.serves(LinearMixed(2, 2))]


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
    random_gram = pack(np.mean([g.b.T @ g.b for g in groups], axis=0))
    observations = float(np.mean([len(g.r) for g in groups]))
    return groups, LinearMixedParams(beta, omega, noise, gram, random_gram, observations)


def units(groups: list[Group]) -> Array:
    starts = np.cumsum([0, *(len(g.r) for g in groups[:-1])])
    a, b, r = (np.concatenate([getattr(g, name) for g in groups]) for name in "abr")
    return unit_rows(a, b, r, starts)


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
    backend = Threads(model, 1)
    log_density, latent = backend.posterior(params, Rows(x))
    assert latent is not None
    expected = np.zeros(model.n_sums)
    for i, group in enumerate(groups):
        density, z, zz = dense(group, params)
        np.testing.assert_allclose(log_density[i], density, rtol=1e-9)
        np.testing.assert_allclose(latent[i, 1 : 1 + q], z, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(unpack(latent[i, 1 + q :], q), zz, rtol=1e-8, atol=1e-10)
        a, b, r = group.a, group.b, group.r
        aa, bb = pack(a.T @ a), pack(b.T @ b)
        parts: list[Any] = [
            density,
            1.0,
            float(len(r)),
            aa,
            bb,
            a.T @ r,
            r @ r,
            np.kron(a.T @ b, z).ravel(),
        ]
        parts += [np.kron(b.T @ r, z), np.outer(bb, pack(zz)).ravel(), pack(zz)]
        expected += weight[i] * np.hstack(parts)
    found = backend.fold(params, Rows(x, weight), np.zeros(model.n_sums))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    moments = backend.moments(params, Rows(x, weight), latent, np.zeros(model.n_sums))
    np.testing.assert_allclose(moments[1:], expected[1:], rtol=1e-9, atol=1e-9)
    assert moments[0] == 0.0
    none = backend.moments(params, Rows(x, weight), 0.0 * latent, np.zeros(model.n_sums))
    assert not none.any()  # linear: rules that control variance add differences of latent vectors


def test_statistics_that_no_data_can_have_are_mended() -> None:
    _, params = simulated(30, 2, 2)
    model = LinearMixed(2, 2)
    rng = np.random.default_rng(0)
    for _ in range(50):
        statistics = model.expected(params)
        noise = rng.normal(scale=10.0, size=statistics.values.shape)
        noise[:2] = 0.0
        found, _ = model.maximize(Totals(statistics.values + noise, 1.0, 0.0))
        assert np.isfinite(model.unconstrained(found)).all()
        moved, _ = model.recursive(statistics, Totals(statistics.values + noise, 1.0, 0.0), 0.5)
        assert np.isfinite(model.unconstrained(model.maximize(moved)[0])).all()
    nothing, _ = model.maximize(Totals(np.zeros(model.n_sums - 1), 0.0, 0.0))
    assert np.isfinite(model.unconstrained(nothing)).all()


@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_a_group_of_weight_two_is_the_group_twice(p: int, q: int) -> None:
    groups, params = simulated(30, p, q)
    x, times = units(groups), np.random.default_rng(2).integers(0, 4, size=30)
    model = LinearMixed(p, q)
    backend, zero = Threads(model, 1), np.zeros(model.n_sums)
    weighted = backend.fold(params, Rows(x, times.astype(np.float64)), zero)
    repeated = backend.fold(params, Rows(np.repeat(x, times, axis=0)), zero)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_parameters_statistics_and_coordinates_are_inverses(
    p: int, q: int, covariance: Any
) -> None:
    _, params = simulated(30, p, q)
    model = LinearMixed(p, q, covariance)
    params = model.maximize(model.expected(params))[0]
    back, n_degenerate = model.maximize(model.expected(params))
    assert n_degenerate == 0
    for other in (back, model.constrained(model.unconstrained(params), params)):
        for name in field_names(params):
            expected = getattr(params, name)
            np.testing.assert_allclose(getattr(other, name), expected, rtol=1e-9, atol=1e-12)
    statistics = model.expected(params)
    assert equal(model.statistics(params, model.sums(params, statistics)), statistics)
    assert model.unconstrained(params).shape == model.coordinate_scales(params).shape
    for distance in (-1e9, -1e3, 1e3, 1e9):
        far = model.constrained(model.unconstrained(params) + distance, params)
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
    np.testing.assert_array_equal(modes[:, : 1 + q], latent[:, : 1 + q])
    np.testing.assert_allclose(modes[:, 1 + q], latent[:, 1] ** 2)


def log_likelihood(model: LinearMixed, x: Array, params: LinearMixedParams) -> float:
    return float(Threads(model, 1).posterior(params, Rows(x), False)[0].sum())


def learned(model: LinearMixed, x: Array) -> LinearMixedParams:
    rule, backend = EM(tol=1e-14, max_iter=3000, accelerate=True), Threads(model, 1)
    state = rule.init(backend, model.start(x))
    while not rule.finished(state):
        state, _ = rule.end_pass(backend, rule.step(backend, state, Rows(x))[0])
    params: LinearMixedParams = rule.estimate(backend, state)
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
    rule, backend = EM(tol=0.0, accelerate=accelerate), Threads(model, 1)
    state, reached = rule.init(backend, model.start(x)), -np.inf
    for _ in range(30):
        state, _ = rule.end_pass(backend, rule.step(backend, state, Rows(x))[0])
        now = log_likelihood(model, x, rule.estimate(backend, state))
        assert now >= reached - 1e-9
        reached = now


def test_titteringtons_step_agrees_with_the_information_and_stays_inside() -> None:
    groups, params = simulated(60, 2, 2)
    x, model = units(groups), LinearMixed(2, 2)
    backend = Threads(model, 1)
    sums = backend.fold(params, Rows(x), np.zeros(model.n_sums))
    batch = model.statistics(params, sums).normalized()
    gamma = 1e-6
    moved, _ = model.maximize(model.recursive(model.expected(params), batch, gamma)[0])
    # it goes gamma of the way to the next point of plain EM, which does not expand Omega
    em, _ = LinearMixed(2, 2, omega=params.omega).maximize(batch)
    omega = unpack(model.split(batch.values).moment, 2)
    step = (moved.beta - params.beta) / gamma
    np.testing.assert_allclose(step, em.beta - params.beta, rtol=1e-4, atol=1e-8)
    step = (moved.omega - params.omega) / gamma
    np.testing.assert_allclose(step, omega - params.omega, rtol=1e-3, atol=1e-8)
    one = backend.fold(params, Rows(x[:1] * 1e-6), np.zeros(model.n_sums))
    tiny = model.statistics(params, one)
    cut, _ = model.recursive(model.expected(params), tiny, 1.0)
    assert model.maximize(cut)[0].noise_variance > 0


@pytest.mark.parametrize("law", learners.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learner(law: Callable[..., None], learner: Learner) -> None:
    groups, params = simulated(200, 2, 2)
    x, model = units(groups), LinearMixed(2, 2)
    learner = learner.resolve(len(x), model.d, False)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, size=len(x))
    law(model, params, learner, Rows(x), [1, 8, 9, 137, 150])
    law(model, params, learner, Rows(x.astype(np.float32), weight), [100])


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


def wald_errors(theirs: Any) -> pd.Series:
    """From sum A'V^-1 A, the block of fixed effects of the Hessian that statsmodels computes.

    `bse_fe` is from the inverse of all of it, in which fixed effects and variances mix unless the
    design is balanced.
    """
    names = theirs.model.exog_names
    block = -theirs.model.hessian(theirs.params_object)[0][: len(names), : len(names)]
    return pd.Series(np.sqrt(np.diag(np.linalg.inv(block))), names)


def agrees(ours: LinearMixedModel, theirs: Any, rtol: float = 1e-4) -> None:
    names = ours.coef_names_
    np.testing.assert_allclose(ours.coef_, theirs.fe_params[names], rtol=rtol)
    np.testing.assert_allclose(ours.random_covariance_, theirs.cov_re, rtol=rtol)
    np.testing.assert_allclose(ours.noise_variance_, theirs.scale, rtol=rtol)
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-6)
    np.testing.assert_allclose(ours.coef_std_errors_, theirs.bse_fe[names], rtol=rtol)
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


def real(name: str) -> pd.DataFrame:
    """The data set or, where no data folder is given, one like it."""
    if "MIXFOLD_DATA" in os.environ:
        return pd.read_parquet(Path(os.environ["MIXFOLD_DATA"]) / f"{name}.parquet")
    rng = np.random.default_rng(4)
    groups, rows = {"sleepstudy": (18, 10), "orthodont": (27, 4), "math_achieve": (160, 45)}[name]
    subject = np.repeat(np.arange(groups), rows)
    when = np.tile(np.arange(rows), groups)
    sex = np.where(np.arange(groups) % 3 == 0, "Female", "Male")[subject]
    ses, mean = rng.normal(size=len(subject)), rng.normal(size=groups)[subject]
    slope = 10.0 + 3.0 * rng.normal(size=groups)[subject]
    level = 250.0 + 9.0 * rng.normal(size=groups)[subject] - 40.0 * (sex == "Female")
    noise = 8.0 * rng.normal(size=len(subject))
    minority = np.where(rng.random(len(subject)) < 0.3, "Yes", "No")
    grown = level + slope * when + noise
    learned = level + slope * ses + 20.0 * mean - 5.0 * (minority == "Yes") + noise
    columns = {
        "sleepstudy": {"Reaction": grown, "Days": when, "Subject": subject},
        "orthodont": {"distance": grown, "age": when - 1.5, "Subject": subject, "Sex": sex},
        "math_achieve": {
            "MathAch": learned,
            "SES": ses,
            "MEANSES": mean,
            "Sex": sex,
            "Minority": minority,
            "School": subject,
        },
    }
    return pd.DataFrame(columns[name])


@pytest.mark.parametrize(("name", "formula", "random", "group"), REAL)
def test_agreement_with_statsmodels_on_real_data(
    name: str, formula: str, random: str, group: str, tmp_path: Path
) -> None:
    table, path = real(name), tmp_path / "sorted.parquet"
    table.to_parquet(path)
    ours = LinearMixedModel(formula, random, group).fit(table)
    theirs = statsmodels(formula, random, group, table)
    # on simulated data its optimiser may stop some digits short
    agrees(ours, theirs, rtol=1e-4 if "MIXFOLD_DATA" in os.environ else 1e-2)
    alone = LinearMixedModel(formula, random, group, standard_errors="expected").fit(table)
    errors = wald_errors(theirs)[ours.coef_names_]
    np.testing.assert_allclose(alone.coef_std_errors_, errors, rtol=1e-2)
    from_file = LinearMixedModel(formula, random, group).fit(path)
    np.testing.assert_allclose(from_file.coef_, ours.coef_, rtol=1e-5)
    np.testing.assert_allclose(from_file.random_covariance_, ours.random_covariance_, rtol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_a_singular_covariance_is_reached_in_few_passes(seed: int) -> None:
    """Where random slopes have no variance, the likelihood is highest at the border."""
    rng = np.random.default_rng(seed)
    school, x = np.repeat(np.arange(50), 6), rng.normal(size=300)
    y = 1 + 2 * x + (seed % 2) * rng.normal(size=50)[school] + rng.normal(size=300)
    table = pd.DataFrame({"y": y, "x": x, "school": school})
    ours = LinearMixedModel("y ~ x", "~ x", "school").fit(table)
    assert ours.converged_
    assert len(ours.history_) < 100
    assert ours.log_likelihood_ > statsmodels("y ~ x", "~ x", "school", table).llf - 1e-5


# the estimator


def arrays_of(table: pd.DataFrame) -> tuple[Array, Array, Array]:
    return table[["x"]].to_numpy(), table["y"].to_numpy(), table["school"].to_numpy()


def same(a: LinearMixedModel, b: LinearMixedModel, rtol: float = 1e-6) -> None:
    for name in ("coef_", "coef_std_errors_", "random_covariance_", "noise_variance_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, err_msg=name)
    assert a.n_groups_ == b.n_groups_


def test_arrays_and_formulas_agree() -> None:
    table = table_of(40)
    x, y, school = arrays_of(table)
    z = np.column_stack([np.ones(len(x)), x])
    same(
        LinearMixedModel().fit(x, y, school, z),
        LinearMixedModel("y ~ x", "~ x", "school").fit(table),
    )
    same(
        LinearMixedModel(fit_intercept=False).fit(z, y, table["name"]),
        LinearMixedModel("y ~ x", group="name").fit(table),
    )


@pytest.mark.parametrize("group", ["school", "name"])
def test_files_of_any_kind_agree_with_memory(group: str, tmp_path: Path) -> None:
    table = table_of(300)
    memory = LinearMixedModel("y ~ x + kind + C(kind):x", "~ x", group).fit(table)
    arrow = pa.Table.from_pandas(table.sort_values("school"), preserve_index=False)
    pq.write_table(arrow, tmp_path / "all.parquet", row_group_size=37)
    pa.csv.write_csv(arrow, tmp_path / "all.csv")
    cut = len(arrow) // 2
    for i, part in enumerate((arrow[:cut], arrow[cut:])):  # a group goes on in the next file
        pq.write_table(part, tmp_path / f"part{i}.parquet", row_group_size=50)
    parts = [tmp_path / "part0.parquet", tmp_path / "part1.parquet"]
    blocks = [arrow[:cut], arrow[cut:]]
    for data in (tmp_path / "all.parquet", tmp_path / "all.csv", parts, blocks):
        model = LinearMixedModel("y ~ x + kind + C(kind):x", "~ x", group).fit(data)
        same(model, memory)
        assert model.coef_names_ == memory.coef_names_
        assert not hasattr(model, "random_effects_")
        groups, effects = model.predict_random(data)
        order = {name: i for i, name in enumerate(memory.groups_)}
        expected = memory.random_effects_[[order[name] for name in groups]]
        np.testing.assert_allclose(effects, expected, rtol=1e-4, atol=1e-6)


def test_neither_blocks_nor_threads_show_in_the_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(3000).sort_values("school", ignore_index=True)
    found = []
    for length, kept in ((50_000, 0), (1111, 2**28), (100, 0)):
        monkeypatch.setattr("mixfold.sources.grouped.KEPT_BYTES", kept)
        pq.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet", row_group_size=length)
        model = LinearMixedModel("y ~ x + kind", "~ x", "school", n_threads=1 + (length == 100))
        found.append(model.fit(tmp_path / "t.parquet")._learned)
    found.append(LinearMixedModel("y ~ x + kind", "~ x", "school").fit(table)._learned)
    for other in found[1:]:
        assert equal(other.scaling, found[0].scaling)
        assert equal(other.params, found[0].params)


@pytest.mark.parametrize("law", sources.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kept", [0, 2**20])
def test_units_are_a_source(
    law: Callable[..., None], kept: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixfold.sources.grouped.KEPT_BYTES", kept)
    table = table_of(60).sort_values("school")[["school", "x", "y"]]
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet", row_group_size=7)

    def fold(x: Array, starts: np.ndarray) -> Array:
        return unit_rows(x[:, :0], x[:, 1:2], x[:, 2], starts)

    expected = fold(table.to_numpy(), np.flatnonzero(np.diff(table["school"], prepend=-1)))
    columns = ["school", "x", "y"]
    for data in (tmp_path / "t.parquet", table.sample(frac=1.0, random_state=1)):
        units = Grouped(open_source(data, columns), 0, fold, 4)
        found = np.concatenate([rows.x for rows in units.blocks()])
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        law(units, found)


def test_wide_units_are_folded_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One long group makes every unit wide: they do not all fit."""
    monkeypatch.setattr("mixfold.sources.grouped.KEPT_BYTES", 2**16)
    monkeypatch.setattr("mixfold.core.source.BLOCK_ELEMENTS", 2**13)
    rng = np.random.default_rng(0)
    groups = np.concatenate([np.repeat(np.arange(1000.0), 2), np.full(500, 1000.0)])
    table = pd.DataFrame({"g": groups, "x": rng.normal(size=2500)})
    pq.write_table(pa.Table.from_pandas(table), tmp_path / "t.parquet")
    most = 0

    def fold(x: Array, starts: np.ndarray) -> Array:
        nonlocal most
        most = max(most, len(starts))
        return padded(x[:, 1:], starts, 500)

    first = np.append(2 * np.arange(1001), 2500)
    wanted = rng.permutation(1001)[:15]
    for data in (table.sample(frac=1.0, random_state=1), tmp_path / "t.parquet"):
        units = Grouped(open_source(data, ["g", "x"]), 0, fold, 501)
        expected = padded(units.source.head(2500).x[:, 1:], first[:-1], 500)
        at = 0
        for block in units.blocks():
            np.testing.assert_array_equal(block.x, expected[at : at + len(block)])
            at += len(block)
        assert at == 1001
        assert units.head(3).x.shape == (3, 501)
        if units.random_access:
            np.testing.assert_array_equal(units.take(wanted).x, expected[wanted])
    assert most <= 16
    assert all(tile_length(d) * d <= 2**22 for d in (1, 5000, 60_001, 2**22))


def test_prediction_knows_groups_and_else_the_mean() -> None:
    table = table_of(50)
    model = LinearMixedModel("y ~ x + kind", "~ x", "name").fit(table)
    known = model.predict(table)
    assert np.var(table["y"] - known) < 1.5 * model.noise_variance_
    new = table.assign(name="a new school").drop(columns="y")
    a = np.column_stack([np.ones(len(new)), new["x"], new["kind"] == "b", new["kind"] == "c"])
    names = ["Intercept", "x", "kind[T.b]", "kind[T.c]"]
    coef = [model.coef_[model.coef_names_.index(name)] for name in names]
    np.testing.assert_allclose(model.predict(new), a @ coef)
    x, y, school = arrays_of(table)
    arrays = LinearMixedModel().fit(x, y, school)
    np.testing.assert_allclose(arrays.predict(x), arrays.coef_[0] + arrays.coef_[1] * x[:, 0])
    assert arrays.score(x, y, school) == pytest.approx(arrays.log_likelihood_ / 50)
    assert len(arrays.score_groups(x, y, school)) == 50
    effects = arrays.random_effects_[np.searchsorted(arrays.groups_, school), 0]
    np.testing.assert_allclose(arrays.predict(x, school), arrays.predict(x) + effects)


@pytest.mark.parametrize("group", ["school", "name"])
def test_a_saved_model_is_the_same(group: str, tmp_path: Path) -> None:
    table = table_of(30)
    model = LinearMixedModel("y ~ x + kind", "~ x", group).fit(table)
    model.save(tmp_path / "m.mixfold")
    loaded = mixfold.load(tmp_path / "m.mixfold")
    assert equal(loaded._learned, model._learned)
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    assert loaded.coef_names_ == model.coef_names_
    assert loaded.get_params() == model.get_params()


def test_stopping_and_resuming_ends_at_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(40)
    whole = LinearMixedModel("y ~ x", "~ x", "school", random_state=0).fit(table)
    settings: dict[str, Any] = {"checkpoint": tmp_path / "c.mixfold", "random_state": 0}
    model = LinearMixedModel("y ~ x", "~ x", "school", resume=True, **settings)
    kept = iter([None] * 7)

    def stop(self: Checkpoint, fit: Any) -> None:
        if next(kept, "stop") == "stop":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "keep", stop)
        with pytest.raises(KeyboardInterrupt):
            model.fit(table)
    assert not hasattr(model, "coef_")
    model.fit(table)
    assert equal(model._learned.params, whole._learned.params)
    assert len(model.history_) == len(whole.history_)
    with pytest.raises(ModelFileError, match="another fit"):
        model.set_params(random="~ 1").fit(table)


@pytest.mark.parametrize("learner", ["mini-batch-em", "online-em", "em"])
def test_other_learners_come_near(learner: str) -> None:
    table = table_of(400)
    best = LinearMixedModel("y ~ x", "~ x", "school").fit(table)
    model = LinearMixedModel("y ~ x", "~ x", "school", learner=learner, random_state=0).fit(table)
    np.testing.assert_allclose(model.coef_, best.coef_, rtol=0.05)
    np.testing.assert_allclose(model.noise_variance_, best.noise_variance_, rtol=0.3)
    assert model.log_likelihood_ <= best.log_likelihood_ + 1e-6


def test_known_variances_are_kept() -> None:
    table, omega = table_of(50), np.array([[2.0, 0.3], [0.3, 0.5]])
    model = LinearMixedModel("y ~ x", "~ x", "school", omega=omega, noise_variance=1.0).fit(table)
    np.testing.assert_allclose(model.random_covariance_, omega)
    assert model.noise_variance_ == pytest.approx(1.0)
    diagonal = LinearMixedModel("y ~ x", "~ x", "school", covariance="diag").fit(table)
    assert diagonal.random_covariance_[0, 1] == 0.0
    assert diagonal.log_likelihood_ > model.log_likelihood_ - 10


def test_the_documents_experiment() -> None:
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(2000), 10)
    x = rng.normal(size=(20_000, 1))
    y = 4 + 9 * x[:, 0] + rng.normal(size=2000)[school] + rng.normal(size=20_000)
    model = LinearMixedModel(omega=1.0, noise_variance=1.0).fit(x, y, school)
    assert (np.abs(model.coef_ - [4, 9]) < 4 * model.coef_std_errors_).all()


def test_the_example_of_the_docs_works_when_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "mixed-models.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})
    assert "'hours'" in capsys.readouterr().out


def test_weights_count_groups() -> None:
    table = table_of(40)
    times = np.random.default_rng(0).integers(1, 3, size=40)
    table["w"] = times[table["school"]].astype(float)
    twice = table[table["w"] == 2].assign(school=lambda t: t["school"] + 1000)
    weighted = LinearMixedModel("y ~ x", "~ x", "school").fit(table, group_weight="w")
    repeated = LinearMixedModel("y ~ x", "~ x", "school").fit(pd.concat([table, twice]))
    for name in ("coef_", "coef_std_errors_", "random_covariance_", "log_likelihood_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-5)
    x, y, school = arrays_of(table)
    with pytest.raises(MixfoldError, match="weights differ within a group"):
        LinearMixedModel().fit(x, y, school, group_weight=np.arange(len(x)) + 1.0)


# hard and wrong data


def hard(kind: str) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(20), 5)
    x = rng.normal(size=(100, 1))
    y = 1 + x[:, 0] + rng.normal(size=100)
    kinds: dict[str, tuple[Array, Any, Any]] = {
        "groups of one row": (x, y, np.arange(100)),
        "one group": (x, y, np.zeros(100)),
        "constant response": (x, np.full(100, 7.0), school),
        "no noise": (x, 1 + x[:, 0], school),
        "far away": (1e6 + x, 1e8 + y, school),
        "tiny numbers": (1e-8 * x, 1e-12 * y, school),
        "no random effect": (x, y, school),
    }
    return kinds[kind]


KINDS = ["groups of one row", "one group", "constant response", "no noise", "far away"]


@pytest.mark.parametrize("kind", [*KINDS, "tiny numbers", "no random effect"])
def test_hard_data_give_finite_answers(kind: str) -> None:
    x, y, school = hard(kind)
    model = LinearMixedModel(max_iter=300).fit(x, y, school)
    for name in ("coef_", "coef_std_errors_", "random_covariance_", "noise_variance_"):
        assert np.isfinite(getattr(model, name)).all(), name
    straight = np.linalg.lstsq(np.column_stack([np.ones(100), x - x.mean()]), y)[0]
    slope = max(abs(straight[1]), 1e-6 * np.abs(y).max())
    assert abs(model.coef_[1] - straight[1]) < 0.2 * slope
    assert (np.linalg.eigvalsh(model.random_covariance_) > 0).all()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"formula": "y ~ xx"}, "no column 'xx'"),
    ({"formula": "y ~ x +"}, "cannot be read"),
    ({"formula": "x"}, "response ~ fixed effects"),
    ({"formula": "y + x ~ 1"}, "one response"),
    ({"formula": "y ~ 0"}, "no effects"),
    ({"formula": "y ~ bs(x, 2)"}, "scale and poly alone are known; make it a column"),
    ({"formula": "y ~ 0 + I(0 * x)"}, r"I\(0 \* x\) are zero in every row"),
    ({"formula": "y ~ log(x)"}, r"row \d+ .*: log\(x\) is (nan|-inf)"),
    ({"formula": "kind ~ x"}, "not numeric"),
    ({"random": "x ~ x"}, "random effects"),
    ({"random": "~ I(0 * x)"}, "zero in every row"),
    ({"group": "pupil"}, "no column 'pupil'"),
    ({"group": None}, "the name of the column of groups"),
    ({"covariance": "ful"}, "Did you mean 'full'"),
    ({"omega": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
    ({"omega": "abc"}, "omega is 'abc'"),
    ({"noise_variance": -1.0}, "noise_variance is -1.0"),
    ({"learner": "emm"}, "Did you mean"),
    ({"tol": -1.0}, "tol is -1.0"),
    ({"resume": True}, "needs checkpoint=PATH"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(w[0]) for w in WRONG])
def test_wrong_settings_are_refused_and_change_nothing(
    settings: dict[str, Any], message: str
) -> None:
    table = table_of(20)
    model = LinearMixedModel("y ~ x", "~ x", "school").fit(table)
    before = dict(model.__dict__)
    model.set_params(**settings)
    with pytest.raises(MixfoldError, match=message):
        model.fit(table)
    model.set_params(**{name: before[name] for name in settings})
    assert model.__dict__.keys() == before.keys()
    assert all(model.__dict__[name] is before[name] for name in before)


def test_files_that_are_not_sorted_are_refused(tmp_path: Path) -> None:
    for group, shown in (("school", r"\d+"), ("name", r"school \d+")):
        path = tmp_path / f"{group}.parquet"
        pq.write_table(pa.Table.from_pandas(table_of(30)), path)
        message = rf"not sorted by '{group}': group {shown} appears again at row \d+ .*; sort"
        with pytest.raises(MixfoldError, match=message):
            LinearMixedModel("y ~ x", group=group).fit(path)


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixfold\[files\]'"):
        LinearMixedModel("y ~ x", group="school").fit(table_of(5))


def test_wrong_data_are_refused(tmp_path: Path) -> None:
    table = table_of(20)
    x, y, school = arrays_of(table)
    model = LinearMixedModel()
    for arguments, message in (
        ((x, y), "groups is needed"),
        ((x, None, school), "y is needed"),
        ((x, y[:-1], school), r"y has shape \(\d+,\)"),
        ((x, y, school, x[:-1]), "Z has"),
        ((x[:, 0], y, school), "rows and columns are needed"),
        ((np.where(x > 1, np.nan, x), y, school), r"row \d+, column 'x0' is nan"),
        ((x[:0], y[:0], school[:0]), "no rows"),
        ((x[:1], y[:1], school[:1]), "1 rows cannot determine 2 fixed effects"),
        ((table[["kind"]], y, school), "X is not numeric"),
    ):
        with pytest.raises(MixfoldError, match=message):
            model.fit(*arguments)
    assert not hasattr(model, "coef_")
    formula = LinearMixedModel("y ~ x", group="school")
    with pytest.raises(MixfoldError, match="names the columns to use"):
        formula.fit(table, y)
    with pytest.raises(MixfoldError, match="needs a table or file with column names"):
        formula.fit(x)
    with pytest.raises(MixfoldError, match="read once only"):
        formula.fit(iter([pa.Table.from_pandas(table)]))
    with pytest.raises(MixfoldError, match="which needs a formula"):
        LinearMixedModel(group="school").fit(x, y, school)
    large = table.assign(school=table["school"] + 2**60)
    with pytest.raises(MixfoldError, match="store them as text"):
        formula.fit(large)
    fitted = LinearMixedModel("y ~ x + kind", group="school").fit(table)
    with pytest.raises(MixfoldError, match="column 'kind' has 'd', which was not there"):
        fitted.predict(table.assign(kind="d"))


def test_a_singular_matrix_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*_: Any) -> Any:
        raise np.linalg.LinAlgError("Matrix is not positive definite")

    groups, x = np.repeat(np.arange(5), 4), np.random.default_rng(0).normal(size=(20, 2))
    model = LinearMixedModel().fit(x[:, :1], x[:, 1], groups)
    before = model.coef_
    monkeypatch.setattr(LinearMixed, "maximize", singular)
    with pytest.raises(InvalidInputError, match=r"told apart .* leave out some"):
        model.fit(x[:, :1], x[:, 1], groups)
    assert model.coef_ is before
