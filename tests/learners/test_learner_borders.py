"""Learners where little happens: one row, rows of no weight, the last of a window, light rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.backend import Assignment
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.detectors.page_hinkley import PageHinkley
from mixfold.detectors.robust_cusum import RobustCusum
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.learners._scale_warning import out_of_scale
from mixfold.learners._steps import RowCounts
from mixfold.learners._stochastic_state import truncated
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.em import EM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.moment_matching import MomentMatching
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.learners.online_vb import OnlineVB
from mixfold.learners.recursive_em import RecursiveEM
from mixfold.learners.stepwise_em import StepwiseEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.schedules.constant import Constant
from mixfold.schedules.power import Power

MODEL = MixtureModel(Poisson(), 2, 2)
BACKEND = Threads(MODEL, 1)
START = MixtureParams(np.array([0.4, 0.6]), MODEL.family.example(2, 2, np.random.default_rng(1)))
X = np.random.default_rng(2).poisson([[2.0, 7.0]], size=(40, 2)).astype(np.float64)
WEIGHT = np.random.default_rng(3).uniform(0.5, 2.0, size=40)


def rows(start: int, stop: int, weight: Any = None) -> Rows:
    return Rows(X[start:stop], WEIGHT[start:stop] if weight is None else weight)


def after(learner: Any, state: Any, *parts: Rows) -> Any:
    for part in parts:
        state, _ = learner.step(BACKEND, state, part)
    return state


def mean_log_density(params: Any, some: Rows) -> float:
    density = BACKEND.posterior(params, some, False)[0]
    return float(some.weights() @ density / some.weights().sum())


# what is told


@pytest.mark.parametrize(
    "learner",
    [
        OnlineEM(warmup=10),
        MiniBatchEM(batch_size=10),
        OnlineVB(batch_size=10, prior=Prior(kappa=1e9)),
        OnlineVB(batch_size=10, form="streaming", prior=Prior(kappa=1e9)),
    ],
    ids=repr,
)
def test_mean_log_likelihood_of_a_batch(learner: Any) -> None:
    """Under the parameters that were there before; a very sure prior has no others."""
    _, (info, *_) = learner.step(BACKEND, learner.init(BACKEND, START), rows(0, 10))
    assert info.rows == 10
    if isinstance(learner, OnlineVB):
        params = learner.init(BACKEND, START).params
        from mixfold.models.bayesian_mixture import BayesianMixture

        surrogate = BayesianMixture(MODEL).expected_log_params(params)
        assert info.log_likelihood == pytest.approx(mean_log_density(surrogate, rows(0, 10)))
        assert info.step_size == (1.0 if learner.form == "streaming" else pytest.approx(2**-0.6))
    else:
        assert info.log_likelihood == pytest.approx(mean_log_density(START, rows(0, 10)))


def test_predictive_density_of_a_row() -> None:
    from mixfold.models.bayesian_mixture import BayesianMixture

    learner: Any = MomentMatching()
    state = learner.init(BACKEND, START)
    assert (state.rows, state.passes, state.n_degenerate) == (0, 0, 0)
    moved, (info,) = learner.step(BACKEND, state, Rows(X[:1], np.array([2.0])))
    exact = BayesianMixture(MODEL).log_evidence(state.params, X[:1], np.array([2.0]))
    assert info.log_likelihood == pytest.approx(0.5 * np.logaddexp.reduce(exact[0]))
    assert (info.rows, info.step_size) == (1, 1.0)
    assert (moved.rows, moved.n_degenerate) == (1, 0)
    same, infos = learner.step(BACKEND, moved, Rows(X[:2], np.zeros(2)))
    assert infos == []
    assert same.rows == 3


def test_steps_of_whole_passes() -> None:
    learner: Any = MonteCarloEM(schedule=Power(0.7, 1.0), draws=2)
    state, steps = learner.init(BACKEND, START), []
    for _ in range(3):
        state, infos = learner.end_pass(BACKEND, after(learner, state, rows(0, 40)))
        steps += [info.step_size for info in infos]
    assert steps == pytest.approx([1.0, 2.0**-0.7, 3.0**-0.7])
    assert learner.restart(BACKEND, state).learned.prior_count == 0.0
    assert learner.branch(MODEL, state, 0, 3).learned.parallel is None
    assert learner.is_reduction(state)


def test_more_draws_with_every_update() -> None:
    learner: Any = MonteCarloEM(draws=4, growth=0.5, max_iter=9)
    state = replace(learner.init(BACKEND, START), updates=3)
    sums = learner._fold(BACKEND, state)(rows(0, 9), np.zeros(MODEL.n_sums), 0)
    wanted = BACKEND.fold(START, rows(0, 9), np.zeros(MODEL.n_sums), Assignment("draw", 10, 0, 0))
    np.testing.assert_array_equal(sums, wanted)
    with pytest.raises(InvalidInputError, match="growth"):
        MonteCarloEM(growth=-0.1)


# joining


@pytest.mark.parametrize("learner", [OnlineEM(warmup=0), OnlineVB(batch_size=5)], ids=repr)
def test_two_states_join_in_either_order(learner: Any) -> None:
    before = after(learner, learner.init(BACKEND, START, 20), rows(0, 10))
    states = [after(learner, before, rows(10, 25)), after(learner, before, rows(25, 40))]
    merged = learner.merge(BACKEND, before, states)
    assert equal(merged, learner.merge(BACKEND, before, states[::-1]))
    assert not equal(merged.params, states[0].params)


@pytest.mark.parametrize("learner", [OnlineEM(warmup=0), OnlineVB(batch_size=5)], ids=repr)
def test_states_with_rows_of_no_weight_join(learner: Any) -> None:
    before = after(learner, learner.init(BACKEND, START, 20), rows(0, 10))
    states = [
        after(learner, before, rows(10, 15, np.zeros(5))),
        after(learner, before, rows(15, 20, np.zeros(5))),
    ]
    merged = learner.merge(BACKEND, before, states)
    assert equal(merged.params, before.params)
    assert merged.rows == 20
    heavy = after(learner, before, rows(20, 40))
    merged = learner.merge(BACKEND, before, [states[0], heavy])
    assert np.isfinite(learner.estimate(BACKEND, merged).weights).all()
    assert merged.rows == 35


def test_states_with_very_light_rows_join() -> None:
    """Steps too short to be seen in numbers leave finite statistics."""
    learner: Any = OnlineEM(warmup=0, schedule=Power(1.0, 1.0))
    before = after(learner, learner.init(BACKEND, START), rows(0, 10, np.full(10, 1e6)))
    light = [after(learner, before, rows(i, i + 5, np.full(5, 1e-12))) for i in (10, 15)]
    merged = learner.merge(BACKEND, before, light)
    np.testing.assert_allclose(merged.params.weights, before.params.weights, rtol=1e-6)
    found, known = merged.params.components.means, before.params.components.means
    np.testing.assert_allclose(found, known, rtol=1e-6)


def test_rows_that_move_nothing_join() -> None:
    """Steps of 1e-18 leave statistics as they are, to the bit."""
    learner: Any = OnlineEM(warmup=0, schedule=Constant(1e-18))
    before = after(learner, learner.init(BACKEND, START), rows(0, 10))
    states = [after(learner, before, rows(10, 20)), after(learner, before, rows(20, 40))]
    merged = learner.merge(BACKEND, before, states)
    np.testing.assert_allclose(merged.params.weights, before.params.weights, rtol=1e-9)


def test_sums_join_in_either_order() -> None:
    learner: Any = EM()
    for i in range(1, 9):
        before = after(learner, learner.init(BACKEND, START), rows(0, i))
        states = [after(learner, before, rows(i, 20)), after(learner, before, rows(20, 40))]
        merged = learner.merge(BACKEND, before, states)
        assert equal(merged, learner.merge(BACKEND, before, states[::-1]))


def test_joined_components_that_are_degenerate_are_counted() -> None:
    model = MixtureModel(Gaussian("diag"), 1, 1)
    backend = Threads(model, 1)
    start = MixtureParams(np.ones(1), GaussianParams(np.zeros((1, 1)), np.ones((1, 1))))
    learner: Any = MiniBatchEM(batch_size=4, schedule=Power(1.0, 1.0))
    constant = Rows(np.full((4, 1), 3.0))
    before = learner.init(backend, start)
    states = [learner.step(backend, before, constant)[0] for _ in range(2)]
    assert [state.n_degenerate for state in states] == [1, 1]
    assert learner.merge(backend, before, states).n_degenerate == 3


def test_regions_join_to_the_largest() -> None:
    learner: Any = MiniBatchEM(batch_size=4, truncation=1e6)
    before = learner.init(BACKEND, START)
    assert before.region == 0.0
    states = [after(learner, before, rows(i, i + 8)) for i in (0, 8)]
    states[0] = replace(states[0], region=3.0, truncations=3, n_degenerate=2)
    merged = learner.merge(BACKEND, before, states)
    assert (merged.region, merged.truncations, merged.n_degenerate) == (3.0, 3, 2)


def test_two_workers_are_several() -> None:
    learner: Any = OnlineEM(warmup=0)
    state = learner.init(BACKEND, START)
    assert learner.branch(MODEL, state, 0, 2).learned.parallel is not None
    assert len(learner.branch(MODEL, state, 0, 2).learned.parallel.thresholds) == 1


# domains


def test_parameters_on_the_border_of_their_region_stay() -> None:
    learner: Any = MiniBatchEM(batch_size=4, truncation=1e6)
    state = learner.init(BACKEND, START)
    for excess, stays in ((0.0, True), (1e-9, False)):
        model: Any = SimpleNamespace(
            truncation_excess=lambda *_, excess=excess: excess, expected=MODEL.expected
        )
        found = truncated(model, state, learner.truncation)
        assert (found is state) == stays


def test_recursive_steps_that_are_cut_are_counted() -> None:
    learner: Any = RecursiveEM(batch_size=2, warmup=0, schedule=Constant(0.9))
    far = Rows(np.array([[50.0, 0.0], [50.0, 0.0], [0.0, 50.0], [0.0, 50.0]]))
    assert after(learner, learner.init(BACKEND, START), far).n_degenerate > 0


def test_models_without_labels() -> None:
    model: Any = SimpleNamespace(has_labels=False, has_bounds=False)
    assert "lookahead" in str(OnlineKMLE(strategy="lookahead").why_unsupported(model))
    assert OnlineKMLE(strategy="sample").why_unsupported(model) is None
    assert "truncation is 5" in str(OnlineEM(truncation=5.0).why_unsupported(model))
    assert OnlineKMLE(strategy="lookahead").why_unsupported(MODEL) is None


def test_a_fit_of_one_row_is_a_fit() -> None:
    assert OnlineEM().init_after_fit(BACKEND, START, 1, 1.0).learned.after_fit


def test_priors_that_tell_components_apart() -> None:
    for kind in (OnlineVB, MomentMatching):
        make: Any = kind
        assert make().exchangeable
        assert make(prior=Prior(kappa=2.0)).exchangeable
        assert not make(prior=Prior(means=[[1.0], [2.0]])).exchangeable
        assert not make(prior=Prior(covariance=[[1.0]])).exchangeable
        assert not make(prior=make().init(BACKEND, START).prior).exchangeable


def test_rows_that_variational_bayes_is_for() -> None:
    assert OnlineVB().resolve(50, 2, False).n_rows == 50  # type: ignore[attr-defined]
    assert OnlineVB(n_rows=7).resolve(50, 2, False).n_rows == 7  # type: ignore[attr-defined]
    began: Any = OnlineVB().init(BACKEND, START)
    assert (began.rows, began.updates, began.passes, began.n_degenerate) == (0, 0, 0, 0)
    assert equal(began.learned, RowCounts(0.0))
    compact: Any = OnlineVB().compact(replace(began, passes=1))
    assert equal(compact.learned, RowCounts(0.0, after_fit=True))


def test_a_posterior_of_light_rows_is_valid() -> None:
    """Statistics are checked as those of one row at least."""
    learner: Any = OnlineVB(batch_size=5)
    state = after(learner, learner.init(BACKEND, START), rows(0, 5, np.full(5, 1e-9)))
    learner.check_state(MODEL, state)
    assert state.updates == 1


def test_bounds_and_orders() -> None:
    assert StepwiseEM(cap=0.5).bounded(Gaussian("diag")).cap == 0.5  # type: ignore[attr-defined]
    family = Gaussian("diag")
    assert StepwiseEM(cap=None).bounded(family) is family
    assert StepwiseEM().bounded(MODEL.family) is MODEL.family
    assert MiniBatchEM().order(True) == "without-replacement"
    assert MiniBatchEM().order(False) == "stream"
    assert MiniBatchEM(sampling="with-replacement").order(False) == "with-replacement"


# drift


def test_learners_that_can_go_on_from_others() -> None:
    watched = DriftAware(OnlineEM(), RobustCusum())
    assert watched.can_continue_from(DriftAware(OnlineEM(batch_size=5), RobustCusum(delta=0.3)))
    assert not watched.can_continue_from(OnlineEM())
    assert not watched.can_continue_from(DriftAware(OnlineEM(), PageHinkley()))
    assert not watched.can_continue_from(DriftAware(StepwiseEM(), RobustCusum()))
    assert AnnealedSGD().can_continue_from(AnnealedSGD(max_iter=9))
    assert not AnnealedSGD().can_continue_from(AnnealedSGD(scale=True))
    assert not AnnealedSGD().can_continue_from(OnlineEM())
    annealed = DriftAware(AnnealedSGD(), RobustCusum())
    assert not annealed.can_continue_from(DriftAware(AnnealedSGD(scale=True), RobustCusum()))
    assert StepwiseEM().can_continue_from(StepwiseEM(cap=3.0))
    assert OnlineVB().can_continue_from(OnlineVB(batch_size=3))
    assert MomentMatching().can_continue_from(MomentMatching())


def test_the_last_row_of_a_window_ends_it() -> None:
    watched: Any = DriftAware(OnlineEM(warmup=0), RobustCusum(), window=8)
    one = after(watched, watched.init(BACKEND, START), rows(0, 7), rows(7, 17))
    other = after(watched, watched.init(BACKEND, START), rows(0, 17))
    assert equal(one.detected, other.detected)
    assert len(one.window) == len(other.window) == 1
    _, infos = watched.step(BACKEND, watched.init(BACKEND, START), rows(0, 16))
    assert [info.rows for info in infos] == [8, 8]
    for weight in (0.1, 0.0):
        light = after(watched, watched.init(BACKEND, START), rows(0, 8, np.full(8, weight)))
        assert len(light.window) == 0
        assert equal(light.detected, watched.detector.init()) == (weight == 0.0)


# annealing


GAUSSIANS = MixtureModel(Gaussian("diag"), 4, 2)


def annealing(means: float = 0.0) -> tuple[Any, Any]:
    params = GaussianParams(np.full((4, 2), means), np.ones((4, 2)))
    return Threads(GAUSSIANS, 1), MixtureParams(np.full(4, 0.25), params)


def test_annealing_begins_with_nothing() -> None:
    backend, start = annealing(1e13)
    began = AnnealedSGD().init(backend, start)
    assert (began.rows, began.passes, began.n_degenerate) == (0, 0, 0)
    assert equal(began.learned, RowCounts(0.0))
    assert (began.annealed.means == np.float32(1e12)).all()  # values beyond count as that
    scaled = AnnealedSGD(scale=True).init(backend, start)
    assert (scaled.annealed.means == np.float32(1e13)).all()


def test_scales_of_few_rows() -> None:
    backend, start = annealing()
    learner: Any = AnnealedSGD(scale=True)
    x = np.random.default_rng(0).normal(size=(257, 2)) * np.array([1.0, 100.0])
    began = learner.init(backend, start)
    for n, known in ((255, False), (256, True), (257, True)):
        state, infos = learner.step(backend, began, Rows(x[:n]))
        assert (state.scaling is not None) == known
        assert len(infos) == known
        assert len(state.waiting) == (0 if known else n)
    ended, _ = learner.end_pass(backend, began)
    assert ended.scaling is None
    one, _ = learner.step(backend, began, Rows(x[:1]))
    assert learner.end_pass(backend, one)[0].scaling is not None


def test_ends_of_annealing() -> None:
    backend, start = annealing()
    learner: Any = AnnealedSGD(max_iter=2)
    state = learner.init(backend, start)
    assert not learner.finished(replace(state, passes=1))
    assert learner.finished(replace(state, passes=2))
    cold = replace(state.annealed, sigma=learner.sigma_end, epsilon=learner.last_step)
    assert learner.converged(replace(state, annealed=cold))
    for warm in (replace(cold, sigma=0.02), replace(cold, epsilon=0.02)):
        assert not learner.converged(replace(state, annealed=warm))
    AnnealedSGD(cap=1.2e-15)


def test_borders_of_scales() -> None:
    """3 / sqrt(0.01) = 30 is within, a deviation of 0.25 / sqrt(4) is wide enough."""
    assert out_of_scale(Rows(np.full((4, 2), 30.0)), 0.01, 4.0) == []
    assert out_of_scale(Rows(np.array([[0.125], [-0.125]])), 0.01, 4.0) == []
    assert len(out_of_scale(Rows(np.array([[100.0]])), 0.01, 4.0)) == 1
    apart = np.array([[0.0, 10.0], [0.01, 10.01]])  # narrow columns, far from each other
    (said,) = out_of_scale(Rows(apart), 0.01, 4.0)
    assert "deviations of 0.005" in said
