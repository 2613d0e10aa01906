"""Joining, restarting and going on: states of learners against counts and means made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma

from mixfold.backends.threads import Threads
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.detectors.robust_cusum import RobustCusum
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.learners._merging import joined_counts, weighted
from mixfold.learners._steps import RowCounts
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.auto import Auto
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.em import EM
from mixfold.learners.exact_mle import ExactMLE
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.moment_matching import MomentMatching
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_vb import OnlineVB
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power

MODEL = MixtureModel(Poisson(), 2, 2)
BACKEND = Threads(MODEL, 1)
START = MixtureParams(np.array([0.4, 0.6]), MODEL.family.example(2, 2, np.random.default_rng(1)))
X = np.random.default_rng(2).poisson([[2.0, 7.0]], size=(40, 2)).astype(np.float64)
WEIGHT = np.random.default_rng(3).uniform(0.5, 2.0, size=40)


def rows(start: int, stop: int, weighted: bool = True) -> Rows:
    return Rows(X[start:stop], WEIGHT[start:stop] if weighted else None)


def after(learner: Any, state: Any, *parts: Rows) -> Any:
    for part in parts:
        state, _ = learner.step(BACKEND, state, part)
    return state


def numbers(statistics: Any) -> np.ndarray:
    """Weights and sums of components, per row."""
    (block,) = statistics.normalized().blocks
    return np.asarray(block.weight[:, None] * np.insert(block.mean, 0, 1.0, axis=1))


@pytest.mark.parametrize("size", [1, 4])
def test_joined_statistics(size: int) -> None:
    """s = rho s_0 + (1 - rho) q: what all rows together retain, and the mean of what is new."""
    schedule = Power(1.0, 1.0)  # with 1/n the rest of the start is prior / (prior + rows)
    learner: Any = MiniBatchEM(batch_size=size, schedule=schedule)
    before = after(learner, learner.init(BACKEND, START, 30), rows(0, 8, False))
    states = [
        after(learner, before, rows(8, 20, False)),
        after(learner, before, rows(20, 40, False)),
    ]
    merged = learner.merge(BACKEND, before, states)
    n_0, new = 38.0, np.array([12.0, 20.0])
    s_0 = numbers(before.statistics)
    fresh = [
        (numbers(s.statistics) - n_0 / (n_0 + n) * s_0) / (n / (n_0 + n))
        for s, n in zip(states, new, strict=True)
    ]
    mean = np.average(fresh, axis=0, weights=new)
    total = n_0 + new.sum()
    expected = n_0 / total * s_0 + new.sum() / total * mean
    np.testing.assert_allclose(numbers(merged.statistics), expected, rtol=1e-9)
    assert (merged.rows, merged.updates) == (40, 40 // size)
    assert (merged.learned.rows, merged.learned.weight) == (40, 40.0)
    params, _ = MODEL.maximize(merged.statistics)
    assert equal(merged.params, params)


def test_joined_means_of_iterates() -> None:
    learner: Any = MiniBatchEM(batch_size=4, average_from=1)
    before = learner.init(BACKEND, START, 30)
    states = [after(learner, before, rows(0, 12)), after(learner, before, rows(12, 40))]
    merged = learner.merge(BACKEND, before, states)
    assert merged.averaged == 10
    pairs = [(s.average.weights, s.average.components.means) for s in states]
    for found, (a, b) in (
        (merged.average.weights, (pairs[0][0], pairs[1][0])),
        (merged.average.components.means, (pairs[0][1], pairs[1][1])),
    ):
        np.testing.assert_allclose(found, 0.3 * a + 0.7 * b, rtol=1e-12)
    longer = after(learner, before, rows(0, 12))
    longer, _ = learner.end_pass(BACKEND, longer)
    assert learner.merge(BACKEND, before, [longer, states[1]]).passes == 1


def test_states_that_hold_parameters_are_joined_so() -> None:
    """During the warm-up statistics are joined, and parameters stay."""
    learner: Any = MiniBatchEM(batch_size=4, warmup=32)
    before = learner.init(BACKEND, START, 30)
    for stop, held in ((32, True), (36, False)):
        states = [after(learner, before, rows(0, 16)), after(learner, before, rows(16, stop))]
        merged = learner.merge(BACKEND, before, states)
        assert equal(merged.params, START) == held
        assert not equal(merged.statistics, before.statistics)


def test_workers_count_for_all() -> None:
    """Among others a row stands for more where steps are short; numbers drawn differ."""
    learner: Any = OnlineEM(schedule=Power(1.0, 1.0), warmup=0)
    before = replace(learner.init(BACKEND, START, 100_000), seed=7)
    workers = [learner.branch(MODEL, before, i, 3) for i in range(3)]
    assert [w.seed for w in workers] == [7 + (i + 1) * 2**32 for i in range(3)]
    assert [w.learned.multiple for w in workers] == [3, 3, 3]
    assert learner.branch(MODEL, before, 0, 1).learned.parallel is None
    early = learner.branch(MODEL, learner.init(BACKEND, START, 0), 0, 3)
    assert early.learned.multiple == 1
    window = 5 * 2 * 3  # steps of 1/(2 window) and 1/(3 window) are short enough
    grid = [0, *(int(2.0 ** (i / 8)) for i in range(320))]
    limits = [next(i for i in grid if 1 / (i + 1) <= 1 / window / m) for m in (2, 3)]
    assert early.learned.parallel.thresholds.tolist() == limits
    batches: Any = MiniBatchEM(batch_size=10, schedule=Power(1.0, 1.0))
    state = batches.branch(MODEL, batches.init(BACKEND, START, 100_000), 0, 3)
    assert batches._rows_of_batch(state) == 4  # of 10 rows, each for 3
    limits = [10 * next(i for i in grid if 1 / (i + 1) <= 10 / window / m) for m in (2, 3)]
    assert state.learned.parallel.thresholds.tolist() == limits
    whole = after(batches, state, rows(0, 4, False))
    assert (whole.updates, whole.gathered.n) == (1, 0)


def test_small_things_of_joining() -> None:
    assert weighted(lambda a, b, t: (1 - t) * a + t * b, [1.0, 2.0, 6.0], [1.0, 1.0, 2.0]) == 3.75
    before = RowCounts(3.0, 10, 12.0)
    both = joined_counts(before, [RowCounts(3.0, 14, 20.0), RowCounts(3.0, 11, 12.5)])
    assert (both.prior_count, both.rows, both.weight) == (3.0, 15, 20.5)
    em: Any = EM()
    one = em.init(BACKEND, START)
    other, _ = em.end_pass(BACKEND, after(em, one, rows(0, 5)))
    with pytest.raises(InvalidInputError, match="a state of pass 1 cannot be merged with one of"):
        em.merge(BACKEND, one, [other])
    with pytest.raises(InvalidInputError, match="cannot be merged with a EMState"):
        em.merge(BACKEND, one, [OnlineEM().init(BACKEND, START)])


@pytest.mark.parametrize("learner", [OnlineEM(warmup=0), MiniBatchEM(batch_size=4)], ids=repr)
def test_restart(learner: Any) -> None:
    """As many rows as a start counts for at most, and rows that wait are kept."""
    rule = replace(learner, average_from=1, schedule=Power(1.0, 1.0))
    most = rule.rows_to_small_steps(2, 2)
    state = after(rule, rule.init(BACKEND, START, 5), rows(0, 39))
    waiting = state.gathered.n
    assert waiting == 39 % rule.batch_size
    again = rule.restart(BACKEND, state)
    assert again.learned.prior_count == min(5.0 + 39, most)
    assert (again.learned.rows, again.learned.weight) == (waiting, 0.0)
    assert (again.updates, again.averaged, again.average) == (0, 0, None)
    assert equal(again.params, state.params)
    assert equal(again.gathered, state.gathered)
    few = rule.restart(BACKEND, after(rule, rule.init(BACKEND, START, 2), rows(0, 8)))
    assert few.learned.prior_count == min(10.0, most)


def test_learning_on_after_a_fit() -> None:
    learner: Any = OnlineEM(warmup=30)
    state = learner.init_after_fit(BACKEND, START, 50, 75.0)
    assert equal(state.learned, RowCounts(0.0, 50, 75.0, after_fit=True))
    moved = after(learner, state, rows(0, 1))
    assert not equal(moved.params, START)  # no warm-up after a fit
    step = numbers(moved.statistics) - numbers(state.statistics)
    r = BACKEND.posterior(START, rows(0, 1))[1]
    assert r is not None
    sbar = r[0][:, None] * np.insert(X[0], 0, 1.0)
    share = WEIGHT[0] / ((75.0 + WEIGHT[0]) / 51)
    gamma = share / 51  # as one of all rows, by weight
    np.testing.assert_allclose(step, gamma * (sbar - numbers(state.statistics)), rtol=1e-2)
    assert not learner.init_after_fit(BACKEND, START, 0, 0.0).learned.after_fit


def test_one_component_joined_is_the_mean_of_all_rows() -> None:
    model = MixtureModel(Poisson(), 1, 2)
    backend, learner = Threads(model, 1), ExactMLE()
    start = MixtureParams(np.ones(1), model.family.example(1, 2, np.random.default_rng(1)))
    before: Any = learner.init(backend, start)
    before, _ = learner.step(backend, before, rows(0, 7))
    states = [learner.branch(model, before, i, 2) for i in range(2)]
    states = [
        learner.step(backend, s, part)[0]
        for s, part in zip(states, (rows(7, 20), rows(20, 40)), strict=True)
    ]
    merged: Any = learner.merge(backend, before, states)
    expected = WEIGHT @ X / WEIGHT.sum()
    np.testing.assert_allclose(merged.params.components.means[0], expected, rtol=1e-9)


# variational Bayes


def plain_vb(
    form: str, size: int, n_rows: int | None, schedule: Any, prior: tuple[Any, Any, Any]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posteriors of a Poisson mixture: Dirichlet alpha, gamma shapes and rates."""
    alpha, shape, rate = (np.array(p) for p in prior)
    s, seen, weight = np.zeros((2, 3)), 0, 0.0
    for i in range(0, 40, size):
        x, w = X[i : i + size], WEIGHT[i : i + size]
        log_rate = digamma(shape) - np.log(rate)
        joint = digamma(alpha) - digamma(alpha.sum()) + x @ log_rate.T - (shape / rate).sum(axis=1)
        r = np.exp(joint - joint.max(axis=1, keepdims=True))
        r = w[:, None] * r / r.sum(axis=1, keepdims=True)
        batch = np.column_stack([r.sum(axis=0), r.T @ x])
        seen, weight = seen + len(x), weight + w.sum()
        if form == "streaming":
            alpha, shape, rate = alpha + batch[:, 0], shape + batch[:, 1:], rate + batch[:, :1]
            continue
        share = w.sum() / (weight / seen)
        gamma = float(schedule(np.array([(seen - share) / size + 1.0]))[0])
        rho = share / size * gamma / (1.0 + (share / size - 1.0) * gamma)
        s = (1.0 - rho) * s + rho * batch / w.sum()
        everything = s / s[:, 0].sum() * weight * (1.0 if n_rows is None else n_rows / seen)
        alpha = prior[0] + everything[:, 0]
        shape, rate = prior[1] + everything[:, 1:], prior[2] + everything[:, :1]
    return alpha, shape, rate


@pytest.mark.parametrize("size", [8, 15])
@pytest.mark.parametrize(
    ("form", "n_rows"), [("streaming", None), ("stochastic", None), ("stochastic", 100)]
)
def test_variational_bayes(form: Any, n_rows: int | None, size: int) -> None:
    schedule = Power(0.6, 1.0, 1.0)
    learner = OnlineVB(form=form, batch_size=size, n_rows=n_rows, prior=Prior(kappa=0.5))
    state: Any = after(learner, learner.init(BACKEND, START), rows(0, 13), rows(13, 40))
    state, _ = learner.end_pass(BACKEND, state)
    known = state.prior
    prior = known.alpha, known.components.shape, known.components.rate
    alpha, shape, rate = plain_vb(form, size, n_rows, schedule, prior)
    np.testing.assert_allclose(state.params.alpha, alpha, rtol=1e-9)
    np.testing.assert_allclose(state.params.components.shape, shape, rtol=1e-9)
    np.testing.assert_allclose(
        state.params.components.rate, np.broadcast_to(rate, (2, 2)), rtol=1e-9
    )
    assert (state.rows, state.updates, state.passes) == (40, -(-40 // size), 1)
    assert learner.finished(state)
    estimate = learner.estimate(BACKEND, state)
    np.testing.assert_allclose(estimate.weights, alpha / alpha.sum(), rtol=1e-9)


def test_posteriors_learn_on_as_if_passes_were_one() -> None:
    learner = OnlineVB(batch_size=10, max_iter=2)
    state: Any = learner.init(BACKEND, START)
    assert learner.compact(state) is state
    for _ in range(2):
        state, _ = learner.end_pass(BACKEND, after(learner, state, rows(0, 40)))
    compact = learner.compact(state)
    assert (compact.learned.rows, compact.rows, compact.passes) == (40, 40, 0)
    assert compact.learned.weight == pytest.approx(WEIGHT.sum(), rel=1e-12)
    assert compact.learned.after_fit


@pytest.mark.parametrize("learner", [OnlineVB(batch_size=5), MomentMatching()], ids=repr)
def test_joined_posteriors_count_rows(learner: Any) -> None:
    before = after(learner, learner.init(BACKEND, START), rows(0, 10))
    states = [after(learner, before, rows(10, 25)), after(learner, before, rows(25, 40))]
    states[1], _ = learner.end_pass(BACKEND, states[1])
    merged = learner.merge(BACKEND, before, states)
    assert (merged.rows, merged.passes) == (40, 1)
    if isinstance(learner, MomentMatching):
        assert learner.finished(merged)
        assert not learner.finished(before)
        known, alphas = before.params.alpha, [s.params.alpha for s in states]
        held = np.min([np.minimum(alpha / known, 1.0) for alpha in alphas], axis=0)
        np.testing.assert_allclose(merged.params.alpha, sum(alphas) - held * known, rtol=1e-9)
    else:
        assert merged.learned.weight == pytest.approx(WEIGHT.sum(), rel=1e-12)
        gained = merged.params.alpha.sum() - merged.prior.alpha.sum()
        assert gained == pytest.approx(WEIGHT.sum(), rel=1e-9)


# others


def test_windows_that_drift_is_sought_in() -> None:
    """Every window's mean log-likelihood, under the parameters at its beginning."""
    watched: Any = DriftAware(OnlineEM(warmup=0), RobustCusum(min_instances=100), window=8)
    inner = OnlineEM(warmup=0)
    state, plain = watched.init(BACKEND, START, 30), inner.init(BACKEND, START, 30)
    detector = RobustCusum(min_instances=100)
    detected = detector.init()
    for i in range(0, 32, 8):
        part, weights = rows(i, i + 8), WEIGHT[i : i + 8]
        density = BACKEND.posterior(inner.estimate(BACKEND, plain), part, False)[0]
        detected = detector.step(detected, float(weights @ density / weights.sum()))
        plain, _ = inner.step(BACKEND, plain, part)
    state = after(watched, state, rows(0, 3), rows(3, 21), rows(21, 35))
    assert len(state.window) == 3
    assert equal(state.detected, detected)
    assert (state.rows, state.drifts, state.passes) == (35, [], 0)
    assert equal(state.inner.params, inner.step(BACKEND, plain, rows(32, 35))[0].params)
    ended, _ = watched.end_pass(BACKEND, state)
    assert (len(ended.window), ended.before, ended.passes) == (0, None, 1)
    again = after(watched, ended, rows(0, 20))  # later passes are not watched
    assert equal(again.detected, detected)
    assert (again.rows, len(again.window)) == (55, 0)
    assert equal(watched.compact(ended).detected, detected)
    twice, _ = watched.end_pass(BACKEND, again)
    assert equal(watched.compact(twice).detected, detector.init())
    assert watched.compact(twice).passes == 0
    assert watched.finished(ended)


def test_auto_learns_batches_and_then_all() -> None:
    auto: Any = Auto(sample_size=10, batch_size=6, tol=0.0, max_iter=2)
    batches: Any = MiniBatchEM(batch_size=6, sampling="stream", max_iter=1)
    em: Any = EM(tol=0.0, max_iter=2, accelerate=True)
    state, plain = auto.init(BACKEND, START, 10), batches.init(BACKEND, START, 10)
    plain, _ = batches.end_pass(BACKEND, after(batches, plain, rows(0, 40)))
    assert not auto.finished(state)
    assert not auto.is_reduction(state)
    state, _ = auto.end_pass(BACKEND, after(auto, state, rows(0, 40)))
    assert state.polishing
    assert equal(auto.estimate(BACKEND, state), plain.params)
    assert auto.is_reduction(state)
    polished = em.init(BACKEND, plain.params)
    for _ in range(2):
        assert not auto.finished(state)
        polished, _ = em.end_pass(BACKEND, after(em, polished, rows(0, 40)))
        state, _ = auto.end_pass(BACKEND, after(auto, state, rows(0, 40)))
    assert equal(state.inner.params, polished.params)
    assert auto.finished(state)
    assert not auto.converged(state)
    assert auto.weight_learned(state, 3) == pytest.approx(WEIGHT.sum(), rel=1e-12)
    with pytest.raises(InvalidInputError, match="different stages of Auto"):
        auto.merge(BACKEND, state, [auto.init(BACKEND, START)])


def test_annealed_gradients_count_rows() -> None:
    model = MixtureModel(Gaussian("diag"), 4, 2)
    backend = Threads(model, 1)
    start = MixtureParams(np.full(4, 0.25), model.family.example(4, 2, np.random.default_rng(0)))
    learner: Any = AnnealedSGD(batch_size=6)
    weight = WEIGHT.copy()
    weight[[3, 11]] = 0.0
    state = learner.init(backend, start)
    assert learner.weight_learned(state, 3) == 0.0
    x = X / 10.0
    state, infos = learner.step(backend, state, Rows(x[:17], weight[:17]))
    assert (state.rows, len(state.waiting)) == (14, 3)  # two of no weight, two batches of six
    assert [info.rows for info in infos] == [12]
    state, infos = learner.step(backend, state, Rows(x[17:], weight[17:]))
    assert (state.rows, len(state.waiting)) == (38, 2)
    assert [info.rows for info in infos] == [24]
    positive = weight[weight > 0.0]
    relative = positive / (np.cumsum(positive) / np.arange(1, len(positive) + 1))
    np.testing.assert_allclose(state.waiting.weights(), relative[-2:], rtol=1e-12)
    state, infos = learner.end_pass(backend, state)
    assert (state.rows, len(state.waiting), state.passes) == (40, 0, 1)
    assert learner.weight_learned(state, 20) == pytest.approx(0.5 * weight.sum(), rel=1e-12)
    hot = learner.restart(backend, state).annealed
    began = learner.init(backend, start).annealed
    assert (hot.sigma, hot.epsilon, hot.wait, hot.looks) == (began.sigma, began.epsilon, 25, 0)
    np.testing.assert_array_equal(hot.means, state.annealed.means)


def test_constant_steps_are_never_small_enough() -> None:
    learner = MiniBatchEM(batch_size=1, schedule=Constant(0.5))
    assert learner.rows_to_small_steps(2, 2) == 0
    state: Any = after(learner, learner.init(BACKEND, START, 9), rows(0, 6))
    assert learner.restart(BACKEND, state).learned.prior_count == 0.0
