"""States that no rows can have led to are refused, field by field; EM's phases one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families.gaussian import Gaussian
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.learners.drift_aware import DriftAware
from mixfold.learners.em import COMBINED, EM, EXTRAPOLATED, PLAIN, SECOND, EMState, _fits
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.moment_matching import MomentMatching
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_vb import OnlineVB
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing.families import example_mixture

X0 = np.array([[-1.0], [1.5]])
FAMILY = Gaussian("diag")
LEARNERS: list[Any] = [
    EM(),
    EM(accelerate=True),
    OnlineEM(warmup=0),
    MiniBatchEM(batch_size=7, average_from=1),
    IncrementalEM(batch_size=4),
    OnlineVB(batch_size=6),
    MomentMatching(),
    AnnealedSGD(batch_size=4),
    DriftAware(OnlineEM(warmup=0), window=8),
]
WRONG: dict[str, list[Any]] = {
    "rows": [-1],
    "row": [-1],
    "updates": [-1],
    "passes": [-1],
    "n_degenerate": [-1],
    "averaged": [-1],
    "truncations": [-1],
    "length": [-1],
    "region": [-1.0],
    "seed": [-1],
    "weight": [-1.0, np.inf],
    "reach": [0.0],
    "gains": [[np.nan], [0.0] * 9],
    "drifts": [[-1]],
}


def learned(learner: Any) -> tuple[MixtureModel, Any]:
    model, params, x = example_mixture(FAMILY, 3, 2, 30, np.random.default_rng(0))
    backend = Threads(model, 1)
    state = learner.init(backend, params)
    for _ in range(2):
        state, _ = learner.step(backend, state, Rows(x))
        state, _ = learner.end_pass(backend, state)
    state, _ = learner.step(backend, state, Rows(x[:17]))
    return model, state


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_counts_are_counts(learner: Any) -> None:
    model, state = learned(learner)
    learner.check_state(model, state)
    tried = 0
    for name, values in WRONG.items():
        if not hasattr(state, name) or isinstance(getattr(type(state), name, None), property):
            continue
        if name == "gains" and not isinstance(state, EMState):
            continue
        for value in values:
            with pytest.raises(InvalidInputError):
                learner.check_state(model, replace(state, **{name: value}))
            tried += 1
    assert tried >= 2
    other = EM().init(Threads(model, 1), state.params) if not isinstance(state, EMState) else 3
    with pytest.raises(InvalidInputError, match="state"):
        learner.check_state(model, other)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_states_of_other_mixtures(learner: Any) -> None:
    _, state = learned(learner)
    for other in (MixtureModel(FAMILY, 4, 2), MixtureModel(FAMILY, 3, 3)):
        with pytest.raises(InvalidInputError):
            learner.check_state(other, state)


def test_gathered_rows_and_sums_agree() -> None:
    model, state = learned(EM())
    learner, gathered = EM(), state.gathered
    assert gathered.n == len(gathered.waiting) == 17
    for wrong in (
        replace(gathered, n=16),
        replace(gathered, sums=gathered.sums + 1.0),
        replace(gathered, sums=gathered.sums[:-1]),
        replace(gathered, sums=np.append(np.nan, gathered.sums[1:])),
        replace(gathered, waiting=Rows(np.full((17, 2), np.nan))),
        replace(gathered, n=-1, waiting=gathered.waiting.cut(0, 0)),
    ):
        with pytest.raises(InvalidInputError):
            learner.check_state(model, replace(state, gathered=wrong))
    more = replace(gathered, n=40)
    learner.check_state(model, replace(state, gathered=more))


def test_phases_have_their_points() -> None:
    point = object()
    counts: dict[Any, list[int]] = {
        PLAIN: [0],
        SECOND: [1],
        EXTRAPOLATED: [1],
        COMBINED: [4, 6, 8, 10, 12],
    }
    for phase, good in counts.items():
        assert [n for n in range(16) if _fits([point] * n, phase)] == good


def test_updates_need_rows() -> None:
    learner = IncrementalEM(batch_size=4)
    model, state = learned(learner)
    assert state.phase == "update"
    for wrong in ({"weight": 0.0}, {"length": 0}):
        with pytest.raises(InvalidInputError, match="updates need rows"):
            learner.check_state(model, replace(state, **wrong))


def em_state(**settings: Any) -> tuple[Any, Any, Any]:
    """Of components that overlap, so that steps are short."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 1)) + 2.0 * rng.integers(2, size=(200, 1))
    model = MixtureModel(FAMILY, 2, 1)
    start = MixtureParams(np.array([0.3, 0.7]), GaussianParams(X0, np.ones((2, 1))))
    return EM(accelerate=True, **settings), Threads(model, 1), (start, Rows(x))


def passed(learner: Any, backend: Any, state: Any, rows: Rows) -> Any:
    return learner.end_pass(backend, learner.step(backend, state, rows)[0])[0]


def test_extrapolation_is_kept_only_if_it_is_no_worse() -> None:
    learner, backend, (start, rows) = em_state(tol=0.0)
    state = learner.init(backend, start)
    assert (state.phase, state.reach) == (PLAIN, 4.0)
    one = passed(learner, backend, state, rows)
    assert (one.phase, len(one.trail)) == (SECOND, 1)
    two = passed(learner, backend, one, rows)
    if two.phase == EXTRAPOLATED:
        assert two.reach <= 4.0
        assert equal(learner.estimate(backend, two), two.trail[-1])
        kept = passed(learner, backend, replace(two, before=-np.inf), rows)
        assert (kept.phase, kept.trail, kept.reach) == (PLAIN, [], 4.0 * two.reach)
        back = passed(learner, backend, replace(two, before=np.inf), rows)
        assert equal(back.params, two.trail[0])
        assert back.reach == max(0.25 * two.reach, 2.0)
        far = passed(learner, backend, replace(two, before=np.inf, reach=100.0), rows)
        assert far.reach == 25.0
        same = learner._judge(two, start, two.before)
        assert equal(same.params, start)
    else:
        pytest.fail("two steps from afar are extrapolated")


def test_combinations_are_kept_only_if_they_are_no_worse() -> None:
    learner, backend, (start, rows) = em_state(tol=1e-6)
    state = learner.init(backend, start)
    for _ in range(200):
        state = passed(learner, backend, state, rows)
        if state.phase == COMBINED and len(state.trail) == 6:
            break
    assert state.phase == COMBINED
    assert equal(learner.estimate(backend, state), state.trail[-2])
    worse = passed(learner, backend, replace(state, before=np.inf), rows)
    assert (worse.phase, worse.trail, worse.refused) == (PLAIN, [], True)
    assert equal(worse.params, state.trail[-1])
    better = passed(learner, backend, replace(state, before=-1e9), rows)
    assert (better.phase, len(better.trail)) == (COMBINED, 8)
    info = learner.end_pass(backend, learner.step(backend, state, rows)[0])[1][0]
    enough = passed(learner, backend, replace(state, before=info.log_likelihood), rows)
    assert (enough.phase, enough.trail, enough.refused) == (PLAIN, [], False)
    assert enough.before == info.log_likelihood


def test_passes_of_no_weight_change_nothing() -> None:
    learner, backend, (start, rows) = em_state()
    nothing = Rows(rows.x, np.zeros(len(rows)))
    state = learner.init(backend, start)
    ended, infos = learner.end_pass(backend, learner.step(backend, state, nothing)[0])
    assert infos == []
    assert equal(ended, replace(state, passes=1))
