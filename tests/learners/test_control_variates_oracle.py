"""Incremental, fast incremental and variance-reduced EM against loops over batches in NumPy.

Small tiles and blocks of odd lengths; weights, some zero; memories of both precisions, in memory
and on file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Rows
from mixfold.core.statistics import Block
from mixfold.core.value import equal
from mixfold.families.poisson import Poisson
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.fast_incremental_em import FastIncrementalEM
from mixfold.learners.incremental_em import IncrementalEM
from mixfold.learners.variance_reduced_em import VarianceReducedEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

Vector = NDArray[Any]
KINDS = [IncrementalEM, FastIncrementalEM, VarianceReducedEM]
BLOCKS = [8, 3, 1, 5]


def data(n: int, d: int = 2, seed: int = 4) -> Rows:
    """Two groups; some rows, and rows 12 to 17, weigh nothing."""
    rng = np.random.default_rng(seed)
    means = np.array([[1.0, 7.0], [8.0, 2.0]])[rng.integers(2, size=n), :d]
    weight = rng.uniform(0.3, 3.0, size=n)
    weight[[0, n - 1, *range(12, 18)]] = 0.0
    return Rows(rng.poisson(means).astype(np.float64), weight)


class Loop:
    """The learners by their definition; statistics are (K, 1 + d): weights, and sums of x."""

    def __init__(self, rows: Rows, size: int, kind: type, precision: str = "float64") -> None:
        self.x, self.weight = rows.x, rows.weights()
        self.size, self.kind, self.precision = size, kind, precision
        d = self.x.shape[1]
        self.s = np.column_stack([START[0], START[0][:, None] * START[1][:, :d]])
        self.anchor = self.reference = self.s
        self.memory = np.zeros((len(self.x), 2))
        self.infos: list[tuple[int, float, float]] = []
        self.told: list[float] = []
        self.steps = 0

    def shares(self, s: Vector, part: slice) -> tuple[Vector, Vector]:
        """log p(x) of rows, and responsibilities as they are kept."""
        weights, means = s[:, 0] / s[:, 0].sum(), np.maximum(s[:, 1:] / s[:, :1], 1e-60)
        x = self.x[part]
        logs = np.log(weights) + x @ np.log(means).T - means.sum(axis=1)
        total = logsumexp(logs, axis=1)
        kept = np.exp(logs - total[:, None]).astype(self.precision).astype(np.float64)
        return total - gammaln(x + 1.0).sum(axis=1), kept

    def sums(self, part: slice, share: Vector) -> Vector:
        rows = np.column_stack([np.ones(len(share)), self.x[part]])
        return np.asarray((self.weight[part][:, None] * share).T @ rows)

    def rho(self) -> float:
        """(batches)^(-2/3), or less: the fraction of a batch in 50 K (d + 1) rows, or in all."""
        n, window = len(self.x), 50 * 2 * (1 + self.x.shape[1])
        share = float(self.size / n)
        return float(min(1.0, max(self.size / window, share), share ** (2.0 / 3.0)))

    def fill(self) -> None:
        """A pass that makes the reference, and is a step of EM."""
        every = slice(0, len(self.x))
        told, self.memory = self.shares(self.s, every)
        self.anchor = self.s
        self.s = self.reference = self.sums(every, self.memory) / self.weight.sum()
        self.told.append(float(self.weight @ told / self.weight.sum()))
        self.infos.append((len(self.x), self.told[-1], 1.0))
        self.steps += 1

    def update(self) -> None:
        """A pass of steps."""
        began, log_likelihood, total = self.s, 0.0, self.weight.sum()
        for first in range(0, len(self.x), self.size):
            part = slice(first, min(first + self.size, len(self.x)))
            weight = self.weight[part].sum()
            if not weight > 0.0:
                continue
            told, share = self.shares(self.s, part)
            old = self.memory[part]
            if self.kind is VarianceReducedEM:
                old = self.shares(self.anchor, part)[1]
            change = self.sums(part, share - old)
            batches = weight / (total / len(self.x)) / self.size
            step = batches * self.rho() / (1.0 + (batches - 1.0) * self.rho())
            if self.kind is IncrementalEM:
                self.memory[part] = share
                self.s = self.s + change / total
            else:
                self.s = (1.0 - step) * self.s + step * (self.reference + change / weight)
            log_likelihood += float(self.weight[part] @ told)
            self.infos.append((part.stop - first, float(self.weight[part] @ told) / weight, step))
            self.steps += 1
        self.told.append(log_likelihood / total)
        if self.kind is FastIncrementalEM:
            self.memory = self.shares(began, slice(0, len(self.x)))[1]
            self.reference = self.sums(slice(0, len(self.x)), self.memory) / total

    def run(self, passes: int) -> Loop:
        for number in range(passes):
            again = self.kind is VarianceReducedEM and number % 2 == 0
            (self.fill if number == 0 or again else self.update)()
        return self

    def check(self, params: Any) -> None:
        s, rtol = self.s, 1e-10 if self.precision == "float64" else 1e-8
        np.testing.assert_allclose(params.weights, s[:, 0] / s[:, 0].sum(), rtol=rtol)
        means = np.maximum(s[:, 1:] / s[:, :1], 1e-60)
        np.testing.assert_allclose(params.components.means, means, rtol=rtol)


START = np.array([0.4, 0.6]), np.array([[2.0, 5.0], [6.0, 3.0]])


def backend_for(d: int, tile: int | None, reference: bool = False) -> Any:
    model = MixtureModel(Poisson(), 2, d)
    backend = Threads(model, 1, ReferenceKernel(model) if reference else None)
    backend.tile = backend.tile if tile is None else tile
    return backend


def begun(learner: Any, backend: Any) -> Any:
    components, _ = Poisson().maximize((Block.of_means(START[0], START[1][:, : backend.model.d]),))
    return learner.init(backend, MixtureParams(START[0], components))


def one_pass(
    learner: Any, backend: Any, state: Any, rows: Rows, blocks: Sequence[int] = BLOCKS
) -> tuple[Any, list[Any]]:
    infos, first, lengths = [], 0, cycle(blocks)
    while first < len(rows):
        stop = first + next(lengths)
        state, some = learner.step(backend, state, rows.cut(first, stop))
        infos += some
        first = stop
    state, some = learner.end_pass(backend, state)
    return state, infos + some


def several(
    learner: Any, backend: Any, rows: Rows, passes: int, blocks: Sequence[int] = BLOCKS
) -> tuple[Any, list[Any]]:
    state, infos = begun(learner, backend), []
    for _ in range(passes):
        state, some = one_pass(learner, backend, state, rows, blocks)
        infos += some
    return state, infos


@pytest.mark.parametrize("kind", KINDS)
def test_batches_across_blocks_and_tiles(kind: Any) -> None:
    for size, n, blocks in ((2, 37, BLOCKS), (6, 41, BLOCKS), (11, 64, [8, 16]), (50, 37, [37])):
        rows, backend = data(n), backend_for(2, 4)
        learner = kind(batch_size=size, max_iter=5)
        loop = Loop(rows, size, kind).run(5)
        state, infos = several(learner, backend, rows, 5, blocks)
        loop.check(learner.estimate(backend, state))
        found = [(info.rows, info.log_likelihood, info.step_size) for info in infos]
        np.testing.assert_allclose(found, loop.infos, rtol=1e-10)
        assert state.before == pytest.approx(loop.told[-1], rel=1e-10)
        assert state.n_degenerate == 0
        learner.check_state(backend.model, state)


@pytest.mark.parametrize("kind", KINDS)
def test_light_rows_are_learned_from_like_others(kind: Any) -> None:
    rows, backend = data(37), backend_for(2, 4)
    loop = Loop(rows, 6, kind).run(3)
    light = Rows(rows.x, 1e-4 * rows.weights())
    state, infos = several(kind(batch_size=6), backend, light, 3)
    loop.check(state.params)
    assert [info.step_size for info in infos] == pytest.approx([info[2] for info in loop.infos])


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_at_a_time(kind: Any) -> None:
    """What is told of a block is the mean of its rows, each evaluated before its own step."""
    rows, passes = data(37), 4
    backend, learner = backend_for(2, None), kind(batch_size=1)
    loop = Loop(rows, 1, kind).run(passes)
    state, infos = several(learner, backend, rows, passes, [6])
    loop.check(learner.estimate(backend, state))
    logs = iter([info for info in loop.infos if info[0] == 1])
    expected = []
    for number in range(passes):
        if number == 0 or (kind is VarianceReducedEM and number % 2 == 0):
            expected.append((37, loop.told[number], 1.0))
            continue
        for first in range(0, 37, 6):
            weight = rows.weights()[first : first + 6]
            if weight.any():
                told = [next(logs)[1] if one else 0.0 for one in weight]
                expected.append((len(weight), float(weight @ told) / weight.sum(), loop.rho()))
    found = [(info.rows, info.log_likelihood, info.step_size) for info in infos]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_step_sizes_by_default(kind: Any) -> None:
    """Few rows, many rows in small and in large batches, and batches larger than the data."""
    for n, size in ((90, 3), (1000, 3), (1000, 250), (1000, 1200), (1000, 1)):
        backend, rows = backend_for(2, None), Rows(data(n).x)
        loop = Loop(rows, size, kind)
        state, _ = several(kind(batch_size=size), backend, rows, 1, [n])
        _, infos = one_pass(kind(batch_size=size), backend, state, rows, [n])
        assert infos[0].step_size == pytest.approx(loop.rho(), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_components_on_their_floor_are_counted(kind: Any) -> None:
    """A column of zeros: both components, in every M-step."""
    weight = data(37).weights()
    rows = Rows(data(37).x * [1.0, 0.0], weight)
    for size, reference in ((1, False), (1, True), (6, False)):
        backend, learner = backend_for(2, 4, reference), kind(batch_size=size)
        loop = Loop(rows, size, kind).run(3)
        state, _ = several(learner, backend, rows, 3)
        assert state.n_degenerate == 2 * loop.steps


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", [IncrementalEM, FastIncrementalEM])
def test_many_rows_in_memory_and_on_file(kind: Any, precision: str, tmp_path: Path) -> None:
    rows, size = data(40_000, 1), 10_007
    backend = backend_for(1, None)
    loop = Loop(rows, size, kind, precision).run(4)
    inside = kind(batch_size=size, precision=precision)
    state, _ = several(inside, backend, rows, 4, [7_001])
    loop.check(state.params)
    assert not state.on_file
    outside = kind(batch_size=size, precision=precision, memory=tmp_path / "r")
    other, _ = several(outside, backend, rows, 4, [7_001])
    assert other.on_file
    assert equal(other.params, state.params)
    outside.check_state(backend.model, other)
    outside.release(other)
    bytes_per_row = 2 * np.dtype(precision).itemsize
    for file in tmp_path.iterdir():
        assert file.stat().st_size == 64 + 40_000 * bytes_per_row
        assert file.stat().st_mode & 0o111 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_can_be_gone_on_from_twice(kind: Any, tmp_path: Path) -> None:
    """As after a kill: what was learned since the state was kept leaves no trace."""
    rows, backend = data(41), backend_for(2, 4)
    files: list[dict[str, Any]] = [{}]
    if kind is not VarianceReducedEM:
        files.append({"memory": str(tmp_path / kind.__name__)})
    for settings in files:
        learner = kind(batch_size=6, **settings)
        kept, _ = several(learner, backend, rows, 2)
        on = kept
        for block in (rows.cut(0, 9), rows.cut(9, 20)):
            on, _ = learner.step(backend, on, block)
        learner.release(on)
        state, _ = one_pass(learner, backend, kept, rows)
        state, _ = one_pass(learner, backend, state, rows, [13])
        Loop(rows, 6, kind).run(4).check(state.params)
        learner.release(state)


@pytest.mark.parametrize("kind", KINDS)
def test_passes_without_weight_leave_everything_as_it_was(kind: Any) -> None:
    rows, backend = data(30), backend_for(2, 4)
    learner = kind(batch_size=4)
    none = Rows(rows.x, np.zeros(30))
    state = start = begun(learner, backend)
    assert (state.length, state.n_degenerate, state.log_likelihood) == (0, 0, 0.0)
    for passes in range(2):
        assert state.phase == "fill"
        assert (state.weight, state.before, state.gains) == (0.0, -np.inf, [])
        assert learner.weight_learned(state, 30) == 0.0
        assert (state.passes, state.converged) == (passes, False)
        state, infos = one_pass(learner, backend, state, none)
        assert infos == []
        assert equal(state.params, start.params)
    state, _ = one_pass(learner, backend, state, rows)
    assert (state.phase, state.length) == ("update", 30)
    Loop(rows, 4, kind).run(1).check(state.params)


def test_incremental_em_converges_by_the_rounding_of_the_total() -> None:
    """Heavy rows: the log-likelihood of all has few digits left, and no tolerance is below them."""
    rows = Rows(data(60).x, np.full(60, 1e6))
    learner, backend = IncrementalEM(batch_size=60, tol=1e-9), backend_for(2, None)
    state, seen = begun(learner, backend), 0
    for _ in range(80):
        state, _ = one_pass(learner, backend, state, rows, [60])
        noise = 2.0**-48 * abs(state.before) * 6e7
        falls = [-gain for gain in state.gains if gain < 0.0]
        quiet = [abs(gain) <= max([noise, *falls]) for gain in state.gains[-2:]]
        assert learner.converged(state) == (len(quiet) == 2 and all(quiet))
        seen += any(0.0 < abs(gain) <= noise for gain in state.gains[-2:])
        if learner.converged(state):
            break
    assert learner.finished(state)
    assert seen > 0


def test_what_cannot_tell_whether_it_converged_says_that_it_has() -> None:
    rows, backend = data(30), backend_for(2, None)
    for kind in (FastIncrementalEM, VarianceReducedEM):
        assert kind().converged(several(kind(batch_size=4), backend, rows, 2)[0])
    state, _ = several(IncrementalEM(batch_size=4, tol=1e-9), backend, rows, 2)
    assert not IncrementalEM(tol=1e-9).converged(state)
    assert IncrementalEM(tol=0.0).converged(state)
    state, _ = several(IncrementalEM(batch_size=4, tol=0.5), backend, rows, 40)
    assert IncrementalEM(tol=0.5).converged(state)


def test_states_that_no_passes_lead_to_are_refused() -> None:
    rows, backend = data(30), backend_for(2, 4)
    learner = IncrementalEM(batch_size=4)
    state, _ = several(learner, backend, rows, 2)
    for changes in ({"weight": 0.5}, {"length": 1}, {"weight": 1.0}):
        learner.check_state(backend.model, replace(state, **changes))
    short = several(learner, backend, rows.cut(0, 29), 1)[0].memory
    for changes, message in (
        ({"weight": 0.0}, "updates need rows"),
        ({"length": 0}, "updates need rows"),
        ({"weight": -1.0}, "weight is -1"),
        ({"length": 31}, "memory holds 30 rows: 31 are needed"),
        ({"memory": short}, "memory holds 29 rows: 30 are needed"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            learner.check_state(backend.model, replace(state, **changes))
    begins = begun(learner, backend)
    learner.check_state(backend.model, begins)
    learner.check_state(backend.model, replace(begins, length=3))  # a pass that fills
