"""Linear mixed models: the mathematics and the laws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from mixfold.backends.threads import Threads
from mixfold.core.backend import Assignment
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Totals, pack, unpack
from mixfold.core.value import equal, field_names
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.models.linear_mixed import LinearMixed, LinearMixedParams
from mixfold.models.subject_rows import subject_rows
from mixfold.testing import learners

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


def subjects(groups: list[Group]) -> Array:
    starts = np.cumsum([0, *(len(g.r) for g in groups[:-1])])
    a, b, r = (np.concatenate([getattr(g, name) for g in groups]) for name in "abr")
    return subject_rows(a, b, r, starts)


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
    model, x = LinearMixed(p, q), subjects(groups)
    weight = np.random.default_rng(1).integers(0, 4, size=40).astype(np.float64)
    backend = Threads(model, 1)
    log_density, expectations = backend.posterior(params, Rows(x))
    assert expectations is not None
    expected = np.zeros(model.n_sums)
    for i, group in enumerate(groups):
        density, z, zz = dense(group, params)
        np.testing.assert_allclose(log_density[i], density, rtol=1e-9)
        np.testing.assert_allclose(expectations[i, 1 : 1 + q], z, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(unpack(expectations[i, 1 + q :], q), zz, rtol=1e-8, atol=1e-10)
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
    moments = backend.moments(params, Rows(x, weight), expectations, np.zeros(model.n_sums))
    np.testing.assert_allclose(moments[1:], expected[1:], rtol=1e-9, atol=1e-9)
    assert moments[0] == 0.0
    none = backend.moments(params, Rows(x, weight), 0.0 * expectations, np.zeros(model.n_sums))
    assert not none.any()  # linear: rules that control variance add differences of expectations


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
    x, times = subjects(groups), np.random.default_rng(2).integers(0, 4, size=30)
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
    x, model = subjects(groups), LinearMixed(p, q)
    kernel = Threads(model, 1).kernel
    prepared = kernel.prepare(params)
    expected, expectations = kernel.posterior(prepared, x)
    density, drawn = kernel.simulate(prepared, Rows(x), Assignment("draw", draws=5_000, seed=1))
    assert expectations is not None
    np.testing.assert_array_equal(density, expected)
    np.testing.assert_allclose(drawn, expectations, atol=0.1 * np.abs(expectations).max())
    half = kernel.simulate(prepared, Rows(x[8:]), Assignment("draw", draws=5_000, seed=1, first=8))
    np.testing.assert_array_equal(half[1], drawn[8:])
    modes = model.mode(expectations)
    np.testing.assert_array_equal(modes[:, : 1 + q], expectations[:, : 1 + q])
    np.testing.assert_allclose(modes[:, 1 + q], expectations[:, 1] ** 2)


def learned(model: LinearMixed, x: Array) -> LinearMixedParams:
    learner, backend = EM(tol=1e-14, max_iter=3000, accelerate=True), Threads(model, 1)
    state = learner.init(backend, model.initial_params(x))
    while not learner.finished(state):
        state, _ = learner.end_pass(backend, learner.step(backend, state, Rows(x))[0])
    params: LinearMixedParams = learner.estimate(backend, state)
    return params


def log_likelihood(model: LinearMixed, x: Array, params: LinearMixedParams) -> float:
    return float(Threads(model, 1).posterior(params, Rows(x), False)[0].sum())


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_where_em_rests_the_gradient_is_zero(covariance: Any) -> None:
    groups, _ = simulated(80, 2, 2)
    x, model = subjects(groups), LinearMixed(2, 2, covariance)
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
    x, model = subjects(groups), LinearMixed(2, 2)
    learner, backend = EM(tol=0.0, accelerate=accelerate), Threads(model, 1)
    state, reached = learner.init(backend, model.initial_params(x)), -np.inf
    for _ in range(30):
        state, _ = learner.end_pass(backend, learner.step(backend, state, Rows(x))[0])
        now = log_likelihood(model, x, learner.estimate(backend, state))
        assert now >= reached - 1e-9
        reached = now


def test_titteringtons_step_agrees_with_the_information_and_stays_inside() -> None:
    groups, params = simulated(60, 2, 2)
    x, model = subjects(groups), LinearMixed(2, 2)
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
    # groups that are learned one by one in Python take long
    n = 60 if getattr(getattr(learner, "learner", learner), "batch_size", None) == 1 else 200
    groups, params = simulated(n, 2, 2)
    x, model = subjects(groups), LinearMixed(2, 2)
    learner = learner.resolve(n, model.d, False)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, size=n)
    law(model, params, learner, Rows(x), [1, 8, 9, n // 3 + 4, n - n // 8])
    law(model, params, learner, Rows(x.astype(np.float32), weight), [n // 2])


@settings(max_examples=15, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 120), max_size=6).map(sorted),
    which=st.integers(0, len(LEARNERS) - 1),
)
def test_any_cuts_give_the_same_bits(cuts: list[int], which: int) -> None:
    groups, params = simulated(120, 2, 1)
    model = LinearMixed(2, 1)
    learner = LEARNERS[which].resolve(120, model.d, False)
    learners.blocks_do_not_matter(model, params, learner, Rows(subjects(groups)), cuts)


def test_many_tiles_on_any_number_of_threads_give_the_same_bits() -> None:
    groups, params = simulated(500, 2, 2)
    x, model = np.tile(subjects(groups), (80, 1)), LinearMixed(2, 2)
    cuts = [1, 16_384, 16_385, 30_001]
    learners.blocks_do_not_matter(model, params, EM(), Rows(x), cuts)
    learners.threads_do_not_matter(model, params, EM(), Rows(x), cuts)
