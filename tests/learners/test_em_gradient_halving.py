"""EM with M-steps that go too far: they are halved until the likelihood has not fallen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import equal, value
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.learners.em import EM, EXTRAPOLATED
from mixfold.learners.em_gradient import EMGradient
from mixfold.models.mixture_model import MixtureModel, MixtureParams

FACTOR = 3.0
X = np.random.default_rng(0).poisson(4.0, size=(50, 1)).astype(np.float64)


@value
class Overshooting(MixtureModel):
    """One Poisson component whose M-step makes the mean so many times too large."""

    def maximize(self, statistics: Any) -> tuple[MixtureParams, int]:
        params, n_degenerate = super().maximize(statistics)
        return MixtureParams(
            params.weights, MeanParams(FACTOR * params.components.means)
        ), n_degenerate

    def halfway(self, start: MixtureParams, end: MixtureParams) -> MixtureParams:
        means = 0.5 * (start.components.means + end.components.means)
        return MixtureParams(end.weights, MeanParams(means))


def setting(mean: float) -> tuple[Any, Any, Any]:
    backend = Threads(Overshooting(Poisson(), 1, 1), 1)
    learner = EMGradient(tol=1e-3)
    return (
        learner,
        backend,
        learner.init(backend, MixtureParams(np.ones(1), MeanParams(np.array([[mean]])))),
    )


def passed(learner: Any, backend: Any, state: Any, x: np.ndarray = X) -> tuple[Any, list[Any]]:
    return learner.end_pass(backend, learner.step(backend, state, Rows(x))[0])  # type: ignore[no-any-return]


def mean_of(state: Any) -> float:
    return float(state.params.components.means[0, 0])


def log_likelihood(mean: float) -> float:
    from scipy.stats import poisson

    return float(poisson(mean).logpmf(X).mean())


def test_steps_are_halved_until_the_likelihood_has_not_fallen() -> None:
    start = 3.0
    learner, backend, state = setting(start)
    far = FACTOR * X.mean()
    state, infos = passed(learner, backend, state)
    assert infos[0].log_likelihood == pytest.approx(log_likelihood(start))
    assert mean_of(state) == pytest.approx(far)
    assert equal(state.origin[0].components.means, np.array([[start]]))
    halvings, now = 0, far
    while log_likelihood(start) - log_likelihood(now) > 1e-3:
        state, infos = passed(learner, backend, state)
        assert infos[0].log_likelihood == pytest.approx(log_likelihood(now))
        assert (infos[0].rows, infos[0].step_size) == (50, 1.0)
        halvings, now = halvings + 1, 0.5 * (start + now)
        assert mean_of(state) == pytest.approx(now)
        assert (state.phase, state.trail, state.gathered.n) == ("plain", [], 0)
        assert state.passes == halvings + 1
        assert state.before == pytest.approx(log_likelihood(start))
    assert halvings > 1
    state, _ = passed(learner, backend, state)  # no worse: from here the next step is made
    assert mean_of(state) == pytest.approx(far)
    assert float(state.origin[0].components.means[0, 0]) == pytest.approx(now)


def test_a_fall_within_the_tolerance_is_none() -> None:
    learner, backend, state = setting(3.0)
    state, _ = passed(learner, backend, state)
    now = log_likelihood(mean_of(state))
    for fall, halved in ((0.9e-3, False), (1.1e-3, True)):
        after, _ = passed(learner, backend, replace(state, before=now + fall))
        assert (mean_of(after) == pytest.approx(FACTOR * X.mean())) != halved
    first, _ = passed(learner, backend, replace(state, origin=[], before=np.inf))
    assert mean_of(first) == pytest.approx(FACTOR * X.mean())  # nothing to go back to


def test_an_extrapolation_is_judged_and_not_halved() -> None:
    learner, backend, state = setting(3.0)
    state, _ = passed(learner, backend, state)
    back = state.origin[0]
    tried = replace(state, phase=EXTRAPOLATED, trail=[back])
    refused, _ = passed(learner, backend, replace(tried, before=0.0))
    assert equal(refused.params, back)
    assert equal(refused.origin, state.origin)
    kept, _ = passed(learner, backend, replace(tried, before=-1e9))
    assert equal(kept.origin, [state.params])


def test_rows_of_no_weight() -> None:
    learner, backend, state = setting(3.0)
    moved, _ = passed(learner, backend, state)
    nothing = Rows(X, np.zeros(50))
    after, infos = learner.end_pass(backend, learner.step(backend, moved, nothing)[0])
    assert infos == []
    assert equal(after, replace(moved, passes=2))


def test_models_with_exact_steps_are_refused() -> None:
    assert "learner='em'" in str(EMGradient().why_unsupported(MixtureModel(Poisson(), 1, 1)))
    assert EMGradient().why_unsupported(Overshooting(Poisson(), 1, 1)) is None
    learner, backend, state = setting(3.0)
    learner.check_state(backend.model, state)
    with pytest.raises(InvalidInputError, match="state"):
        learner.check_state(backend.model, EM().init(backend, state.params))
    wrong = replace(state.params, weights=np.ones(2))
    with pytest.raises(InvalidInputError):
        learner.check_state(backend.model, replace(state, origin=[wrong]))
