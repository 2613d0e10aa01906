"""Passes of EM: sums in tiles, states joined and refused, when they end, and what Auto makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.backend_capabilities import FusedPasses, Passes
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.core.statistics import Block
from mixfold.core.value import equal
from mixfold.families.poisson import Poisson
from mixfold.learners._convergence import has_converged, remaining
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.learners.k_mle import KMLE
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.learners.sem import SEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

MODEL = MixtureModel(Poisson(), 2, 2)
WEIGHTS, MEANS = np.array([0.4, 0.6]), np.array([[2.0, 5.0], [6.0, 3.0]])


def some_rows(n: int) -> Rows:
    rng = np.random.default_rng(n)
    means = np.array([[1.0, 7.0], [8.0, 2.0]])[rng.integers(2, size=n)]
    return Rows(rng.poisson(means).astype(np.float64), rng.uniform(0.2, 2.0, size=n))


def backend_with(tile: int) -> Any:
    backend = Threads(MODEL, 1)
    backend.tile = tile
    return backend


def begun(learner: Learner, backend: Any) -> Any:
    components, _ = MODEL.family.maximize((Block.of_means(WEIGHTS, MEANS),))
    return learner.init(backend, MixtureParams(WEIGHTS, components), seed=3)


def one_pass(learner: Any, backend: Any, state: Any, rows: Rows, cuts: Sequence[int]) -> Any:
    """The state after a pass in blocks of these lengths in turn."""
    first, i = 0, 0
    while first < len(rows):
        stop = first + cuts[i % len(cuts)]
        state, _ = learner.step(backend, state, rows.cut(first, stop))
        first, i = stop, i + 1
    return learner.end_pass(backend, state)[0]


def expected_sums(rows: Rows) -> np.ndarray:
    """Of each component: responsibilities, and responsibilities times x, by their definition."""
    logs = np.log(WEIGHTS) + rows.x @ np.log(MEANS).T - MEANS.sum(axis=1)
    share = np.exp(logs - logs.max(axis=1, keepdims=True))
    share = rows.weights()[:, None] * share / share.sum(axis=1, keepdims=True)
    return np.column_stack([share.sum(axis=0), share.T @ rows.x])


def check_params(params: Any, sums: np.ndarray) -> None:
    np.testing.assert_allclose(params.weights, sums[:, 0] / sums[:, 0].sum(), rtol=1e-12)
    np.testing.assert_allclose(params.components.means, sums[:, 1:] / sums[:, :1], rtol=1e-12)


# tiles


def test_only_rows_that_fill_no_tile_wait() -> None:
    backend, learner, rows = backend_with(4), EM(), some_rows(41)
    for cuts in ([1], [3], [4], [5], [8, 1, 3], [41], [2, 6], [13]):
        state, n, i = begun(learner, backend), 0, 0
        while n < len(rows):
            block = rows.cut(n, n + cuts[i % len(cuts)])
            state, _ = learner.step(backend, state, block)
            n, i = n + len(block), i + 1
            assert len(state.gathered.waiting) == n % 4
            assert state.gathered.n == n
            np.testing.assert_array_equal(state.gathered.waiting.x, rows.x[n - n % 4 : n])
        closed = learner.flushed(backend, state)
        assert len(closed.gathered.waiting) == 0
        check_params(learner.end_pass(backend, state)[0].params, expected_sums(rows))


@pytest.mark.parametrize("cuts", [[1], [3], [5], [7, 2], [41]])
def test_rows_keep_their_random_numbers_in_tiles_of_any_length(cuts: list[int]) -> None:
    """Counts are whole numbers, whose sums are exact in any order."""
    rows = Rows(some_rows(41).x)
    learner = SEM()
    whole, small = backend_with(1024), backend_with(4)
    expected = one_pass(learner, whole, begun(learner, whole), rows, [41])
    expected = one_pass(learner, whole, expected, rows, [41])
    found = one_pass(learner, small, begun(learner, small), rows, cuts)
    found = one_pass(learner, small, found, rows, cuts)
    np.testing.assert_array_equal(found.params.components.means, expected.params.components.means)
    np.testing.assert_array_equal(found.params.weights, expected.params.weights)


def test_states_that_began_with_the_same_rows_are_joined() -> None:
    """Rows that all of them have in common count once."""
    backend, learner, rows = backend_with(4), EM(), some_rows(30)
    before, _ = learner.step(backend, begun(learner, backend), rows.cut(0, 7))
    before = learner.flushed(backend, before)
    assert before.gathered.n == 7
    parts = [learner.step(backend, before, rows.cut(a, b))[0] for a, b in ((7, 12), (12, 30))]
    joined = learner.merge(backend, before, parts)
    assert joined.gathered.n == 30
    state, infos = learner.end_pass(backend, joined)
    check_params(state.params, expected_sums(rows))
    assert [info.rows for info in infos] == [30]


def test_sums_that_no_rows_have_are_refused() -> None:
    backend, learner = backend_with(4), EM()
    state, _ = learner.step(backend, begun(learner, backend), some_rows(6))
    learner.check_state(MODEL, state)
    gathered = state.gathered
    assert len(gathered.waiting) == 2

    def refused(message: str, **changes: Any) -> None:
        with pytest.raises(InvalidInputError, match=message):
            learner.check_state(MODEL, replace(state, gathered=replace(gathered, **changes)))

    unknown = gathered.sums.copy()
    unknown[0] = np.nan
    refused("log-likelihood in sums is NaN", sums=unknown)
    refused("no rows have been added", n=2)
    one = np.zeros_like(gathered.sums)
    one[0] = -1.0
    refused("no rows have been added", n=2, sums=one)
    refused("n is 1", n=1)
    none = replace(gathered, n=2, sums=np.zeros_like(one))
    learner.check_state(MODEL, replace(state, gathered=none))


def test_phases_have_the_points_they_need() -> None:
    backend, learner = backend_with(4), EM(accelerate=True)
    state = begun(learner, backend)
    allowed: dict[Any, list[int]] = {
        "plain": [0],
        "second": [1],
        "extrapolated": [1],
        "combined": [4, 6, 8, 10, 12],
    }
    for phase, lengths in allowed.items():
        for length in range(15):
            other = replace(state, phase=phase, trail=[state.params] * length)
            if length in lengths:
                learner.check_state(MODEL, other)
            else:
                with pytest.raises(InvalidInputError, match=f"{length} points before"):
                    learner.check_state(MODEL, other)
    learner.check_state(MODEL, replace(state, gains=[1.0] * 8, reach=0.5))
    for changes, message in (
        ({"gains": [1.0] * 9}, "number of gains is 9"),
        ({"reach": 0.0}, "reach is 0"),
        ({"weight": -1.0}, "weight is -1"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            learner.check_state(MODEL, replace(state, **changes))


# passes made at once


class Fused:
    """Passes that were made before; None is where there are none."""

    def __init__(self, log_likelihood: Sequence[float] | None, params: Sequence[Any] = ()) -> None:
        self.log_likelihood, self.params = log_likelihood, params

    def run_passes(self, params: Any, rows: Rows) -> Passes | None:
        if self.log_likelihood is None:
            return None
        return Passes(np.array(self.log_likelihood), lambda made: self.params[made - 1])


class WithPasses(Threads):
    fused: Any = None

    def capability(self, kind: type[Any]) -> Any:
        return self.fused if kind is FusedPasses else super().capability(kind)


@pytest.mark.parametrize("weight", [0.01, 1.0, 50.0])
def test_passes_made_at_once_are_as_those_made_one_by_one(weight: float) -> None:
    backend, learner = WithPasses(MODEL, 1), EM(tol=0.05)
    rows = Rows(some_rows(40).x, np.full(40, weight))
    start = begun(learner, backend)
    states, told = [start], list[float]()
    for _ in range(80):
        state, _ = learner.step(backend, states[-1], rows)
        state, infos = learner.end_pass(backend, state)
        states.append(state)
        told.append(infos[0].log_likelihood)
    ends = 1 + [state.converged for state in states[1:]].index(True)
    assert 4 < ends < 80
    backend.fused = Fused(told, [state.params for state in states[1:]])
    for most, made in ((None, ends), (3, 3), (1, 1), (ends + 1, ends)):
        found = learner.run_passes(backend, start, rows, most)
        assert found is not None
        state, infos = found
        assert [info.log_likelihood for info in infos] == told[:made]
        assert {(info.rows, info.step_size) for info in infos} == {(40, 1.0)}
        assert state.params is states[made].params
        assert (state.passes, state.converged) == (made, made == ends)
        np.testing.assert_allclose(state.gains, states[made].gains, rtol=1e-9)


def test_passes_that_are_to_be_made_one_by_one() -> None:
    backend, rows = WithPasses(MODEL, 1), some_rows(4)
    start = begun(EM(), backend)
    assert EM().run_passes(backend, start, rows, None) is None
    for fused in (Fused(None), Fused([])):
        backend.fused = fused
        assert EM().run_passes(backend, start, rows, None) is None
    backend.fused = Fused([-4.0, -3.0], [start.params] * 2)
    assert EM().run_passes(backend, start, rows, 0) is None
    assert EM(accelerate=True).run_passes(backend, start, rows, None) is None
    assert KMLE().run_passes(backend, start, rows, None) is None
    assert EM().run_passes(backend, start, rows, None) is not None


# when passes have converged


def test_what_is_left_at_the_limits_of_rounding() -> None:
    """A gain is rounding up to 2^-48 of the total, or where a step has lost as much."""
    noise = 2.0**-48 * 1024.0
    assert remaining([1.0, noise], -1024.0) == 0.0
    assert remaining([1.0, -noise], -1024.0) == 0.0
    assert remaining([1.0, 1.25 * noise], -1024.0) > 0.0
    lost = 2.0**-20 * 1024.0  # no fall of so much is rounding
    assert remaining([1.0, -0.75 * lost, 0.75 * lost], -1024.0) == 0.0
    assert remaining([1.0, -lost], -1024.0) > 0.0
    assert remaining([noise, 64.0 * noise], -1024.0) == pytest.approx(64.0 * noise * 99.0)


def test_shares_are_held_within_limits() -> None:
    assert remaining([8.0, 4.0, 2.0], -9.0) == pytest.approx(2.0 * 99.0)
    assert remaining([2.0, 2.0, 2.0], -9.0) == pytest.approx(2.0 * 9999.0)
    assert remaining([2.0, 3.0], -9.0) == pytest.approx(3.0 * 9999.0)


def test_the_last_two_steps_must_agree_that_little_is_left() -> None:
    tiny = 1e-9
    assert not has_converged([tiny, 1.0, tiny], -9.0, 9.0, 0.005, "remaining")
    assert not has_converged([tiny, tiny, 1.0], -9.0, 9.0, 0.005, "remaining")
    assert has_converged([1.0, tiny, tiny], -9.0, 9.0, 0.005, "remaining")


def test_the_gain_per_row_of_the_last_step_is_compared() -> None:
    assert has_converged([9.0, 8.0, 3.9], -9.0, 4.0, 1.0, "step")
    assert not has_converged([3.9, 3.9, 4.1], -9.0, 4.0, 1.0, "step")


@pytest.mark.parametrize("criterion", ["remaining", "step"])
def test_a_tolerance_of_zero_is_never_met(criterion: Any) -> None:
    assert not has_converged([0.0, 0.0, 0.0], -9.0, 9.0, 0.0, criterion)


def test_the_last_eight_gains_are_kept() -> None:
    backend, learner, rows = backend_with(1024), EM(tol=0.0), some_rows(30)
    state, told = begun(learner, backend), list[float]()
    for _ in range(12):
        state, _ = learner.step(backend, state, rows)
        state, infos = learner.end_pass(backend, state)
        told.append(infos[0].log_likelihood)
    n = max(30.0, rows.total_weight())
    np.testing.assert_allclose(state.gains, np.diff(told)[-8:] * n, rtol=1e-9)


# Auto


def test_what_auto_does_for_data_of_any_size() -> None:
    """About 32 updates in a pass, of 1,024 rows or more, and of no more than 2^22 numbers."""
    for n in (1, 19_999, 20_000):
        small = Auto(tol=0.1, max_iter=7).resolve(n, 3, False)
        assert equal(small, EM(0.1, 7, True, prior_strength=1.0))
    sizes: list[tuple[int | None, int, int]] = [
        (20_001, 1, 1024),
        (32 * 1024 + 31, 5, 1024),
        (32 * 1025, 5, 1025),
        (1_000_000, 1, 31_250),
        (10**9, 1, 2**19),
        (10**9, 16, 2**18),
        (10**9, 1000, 4194),
        (10**9, 10**5, 1024),
        (None, 1, 2**19),
        (None, 64, 2**16),
        (None, 10**5, 1024),
    ]
    for rows, d, size in sizes:
        assert equal(Auto().resolve(rows, d, False), Auto(batch_size=size))
    assert equal(Auto(batch_size=9).resolve(10**9, 1, False), Auto(batch_size=9))
    assert equal(Auto().resolve(None, 1, True), ReservoirEM())


def test_auto_is_a_pass_of_mini_batches_and_then_accelerated_em() -> None:
    backend, rows = backend_with(1024), some_rows(50)
    auto = Auto(batch_size=8, tol=0.0, max_iter=11)
    first: Any = MiniBatchEM(batch_size=8, sampling="stream", max_iter=1)
    then = EM(tol=0.0, max_iter=11, accelerate=True)
    state, other = begun(auto, backend), begun(first, backend)
    state = one_pass(auto, backend, state, rows, [20])
    other = one_pass(first, backend, other, rows, [20])
    assert equal(auto.estimate(backend, state), first.estimate(backend, other))
    other = then.init(backend, first.estimate(backend, other))
    for _ in range(11):
        assert not auto.finished(state)
        state = one_pass(auto, backend, state, rows, [20])
        other = one_pass(then, backend, other, rows, [20])
        assert equal(auto.estimate(backend, state), then.estimate(backend, other))
    assert auto.finished(state)


def test_auto_has_batches_of_its_own_where_the_number_of_rows_is_unknown() -> None:
    backend, learner, rows = backend_with(32768), Auto(), some_rows(70_000)
    state, infos = learner.step(backend, begun(learner, backend), rows)
    _, last = learner.end_pass(backend, state)
    assert [info.rows for info in infos + last] == [65_536, 4_464]


def test_auto_closes_the_stage_under_way() -> None:
    backend, learner, rows = backend_with(1024), Auto(batch_size=8, max_iter=0), some_rows(20)
    state, _ = learner.step(backend, begun(learner, backend), rows)
    closed, infos = learner.flush(backend, state)
    assert [info.rows for info in infos] == [4]
    assert equal(learner.flushed(backend, state), closed)
    assert not learner.finished(closed)
    state, _ = learner.end_pass(backend, closed)
    assert learner.finished(state)  # no pass of EM is wanted
    assert not learner.converged(state)


def test_stages_of_auto_are_not_merged_with_each_other() -> None:
    backend, learner, rows = backend_with(1024), Auto(batch_size=8), some_rows(40)
    before = begun(learner, backend)
    early = learner.step(backend, before, rows)[0]
    late = learner.end_pass(backend, early)[0]
    with pytest.raises(InvalidInputError, match="different stages"):
        learner.merge(backend, before, [early, late])
    with pytest.raises(InvalidInputError, match="different stages"):
        learner.merge(backend, late, [early])
    assert isinstance(learner.merge(backend, before, [early, early]), type(before))
    parts = [learner.step(backend, late, rows.cut(a, a + 20))[0] for a in (0, 20)]
    joined = learner.end_pass(backend, learner.merge(backend, late, parts))[0]
    whole = one_pass(learner, backend, late, rows, [40])
    found, wanted = (learner.estimate(backend, one) for one in (joined, whole))
    np.testing.assert_allclose(found.components.means, wanted.components.means, rtol=1e-12)
