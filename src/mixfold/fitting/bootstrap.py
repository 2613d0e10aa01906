"""Bootstrap replicates of a fitted mixture, learned together in the same passes over the data.

A replicate begins with a step of Newton's method from the fit, for which all replicates share the
scores of the rows. Passes over its own rows and further steps follow, in most cases one. Where
there are no such steps, as at a limit of parameters, or they do not converge, it is learned by EM.

References
----------
Efron and Tibshirani (1993), An introduction to the bootstrap.
Chamandy et al. (2012), Estimating uncertainty for massive data streams: Poisson weights.
Andrews (2002), Higher-order improvements of the k-step bootstrap, Econometrica 70.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from mixfold.core.rows import Array, Rows, in_tiles
from mixfold.core.source import block_length
from mixfold.fitting._poisson_weights import poisson_weights
from mixfold.fitting.component_order import reorder
from mixfold.learners.em import EM
from mixfold.models.information import InformationSums, MixtureScores
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams
from mixfold.models.newton_steps import NewtonSteps, can_step

TOL = 1e-3  # nats left to gain: estimates are within 0.05 standard errors of the maximum
LEARNER = EM(tol=TOL, accelerate=True)
LEFT = 1e-4  # nats left to gain after a step, by the gains of the last two
LEAST_FALL = 2.0  # of the gain from step to step; otherwise EM takes over
MOST_STEPS = 8
MOST_KEPT = 2**22  # cells of drawn rows that are kept between passes

Blocks = Callable[[], Iterable[Rows]]


def aligned(model: MixtureModel, params: MixtureParams, like: MixtureParams) -> MixtureParams:
    """The components in the order in which they are closest to those of `like`."""
    distances = model.family.symmetric_kl(like.components, params.components)
    return reorder(params, linear_sum_assignment(distances)[1])


class _Replicate:
    """Parameters on their way from the fit to the maximum for other rows."""

    def __init__(self, steps: NewtonSteps, params: MixtureParams) -> None:
        self._steps, self._gain = steps, np.inf
        self._last: tuple[Array, Array] | None = None  # change and score
        self._pairs: list[tuple[Array, Array]] = []
        self.params: MixtureParams | None = params
        self.is_active = True

    def move(self, score: Array) -> None:
        """Take a step; without convergence there are no parameters."""
        assert self.params is not None
        if self._last is not None:
            self._pairs.append((self._last[0], self._last[1] - score))
        change = self._steps.change(score, self._pairs)
        gain, before = 0.5 * float(score @ change), self._gain
        if gain * LEAST_FALL < before and len(self._pairs) < MOST_STEPS:
            self.params = self._steps.moved(self.params, change)
        else:
            self.params = None
        self._gain, self._last = gain, (change, score)
        left = gain * min(gain / before, 1.0) if np.isfinite(before) else gain
        self.is_active = self.params is not None and left > LEFT

    def end_pass(self, sums: Array) -> None:
        """Take a step from the sums of an E-step."""
        assert self.params is not None
        statistics = self._steps.model.statistics(self.params, sums)
        self.move(self._steps.score(self.params, statistics))


def weighted_replicates(
    backend: MixtureBackend, params: MixtureParams, blocks: Blocks, n_replicates: int, seed: int
) -> list[MixtureParams]:
    """Parameters learned from rows with Poisson(1) weights.

    `blocks` reads the rows once more. All replicates that have not converged take part in a pass.
    """
    seeds = [int(one) for one in np.random.SeedSequence(seed).generate_state(n_replicates)]
    found = _stepped(backend, params, blocks, seeds)
    left = [b for b, one in enumerate(found) if one is None]
    learned = _learned(backend, params, blocks, [seeds[b] for b in left])
    whole = dict(zip(left, learned, strict=True))
    return [
        aligned(backend.model, whole[b] if one is None else one, params)
        for b, one in enumerate(found)
    ]


def _stepped(
    backend: MixtureBackend, params: MixtureParams, blocks: Blocks, seeds: Sequence[int]
) -> list[MixtureParams | None]:
    """The replicates that converge in a few steps."""
    scores = MixtureScores(backend.model, params)
    if not can_step(scores):
        return [None] * len(seeds)
    information, totals = InformationSums(scores), np.zeros((len(seeds), scores.n_free))
    for rows in in_tiles(blocks(), scores.tile):
        first = information.n
        own = information.add(rows, _responsibilities(backend, params, rows))
        own *= rows.weights()[:, None]
        totals += np.stack([poisson_weights(one, first, len(rows)) for one in seeds]) @ own
    steps = NewtonSteps(information)
    if not steps.is_known:
        return [None] * len(seeds)
    replicates = [_Replicate(steps, params) for _ in seeds]
    for replicate, total in zip(replicates, totals, strict=True):
        replicate.move(total)
    while active := [b for b, one in enumerate(replicates) if one.is_active]:
        sums = np.zeros((len(seeds), backend.model.n_sums))
        first = 0
        for rows in in_tiles(blocks(), backend.tile):
            for b in active:
                weight = rows.weights() * poisson_weights(seeds[b], first, len(rows))
                sums[b] = backend.fold(replicates[b].params, Rows(rows.x, weight), sums[b])
            first += len(rows)
        for b in active:
            replicates[b].end_pass(sums[b])
    return [one.params for one in replicates]


def _responsibilities(backend: MixtureBackend, params: MixtureParams, rows: Rows) -> Array:
    found = backend.posterior(params, rows)[1]
    assert found is not None
    return np.asarray(found, dtype=np.float64)


def _learned(
    backend: MixtureBackend, params: MixtureParams, blocks: Blocks, seeds: Sequence[int]
) -> list[MixtureParams]:
    """Replicates learned by EM from `params` on."""
    states: list[Any] = [LEARNER.init(backend, params) for _ in seeds]
    while active := [b for b, state in enumerate(states) if not LEARNER.finished(state)]:
        first = 0
        for rows in blocks():
            for b in active:
                weight = rows.weights() * poisson_weights(seeds[b], first, len(rows))
                states[b] = LEARNER.step(backend, states[b], Rows(rows.x, weight))[0]
            first += len(rows)
        for b in active:
            states[b] = LEARNER.end_pass(backend, states[b])[0]
    return [LEARNER.estimate(backend, state) for state in states]


def parametric_replicates(
    backend: MixtureBackend, params: MixtureParams, n: int, n_replicates: int, seed: int
) -> list[MixtureParams]:
    """Parameters learned from n rows that are drawn from the mixture."""
    first, *seeds = np.random.SeedSequence(seed).spawn(1 + n_replicates)
    model, found = backend.model, []
    steps = _steps_of_model(backend, params, lambda: _drawn(model, params, n, first))
    for one in seeds:
        blocks = _drawn_again(model, params, n, one)
        replicate = None if steps is None else _stepped_alone(backend, params, blocks, steps)
        if replicate is None:
            replicate = _learned_alone(backend, params, blocks)
        found.append(aligned(model, replicate, params))
    return found


def _steps_of_model(
    backend: MixtureBackend, params: MixtureParams, blocks: Blocks
) -> NewtonSteps | None:
    """Steps with the information of rows of the mixture, if there are any."""
    scores = MixtureScores(backend.model, params)
    if not can_step(scores):
        return None
    information = InformationSums(scores)
    for rows in in_tiles(blocks(), scores.tile):
        information.add(rows, _responsibilities(backend, params, rows))
    steps = NewtonSteps(information)
    return steps if steps.is_known else None


def _stepped_alone(
    backend: MixtureBackend, params: MixtureParams, blocks: Blocks, steps: NewtonSteps
) -> MixtureParams | None:
    """Parameters learned by steps, if they converge."""
    replicate = _Replicate(steps, params)
    while replicate.is_active:
        sums = np.zeros(backend.model.n_sums)
        for rows in in_tiles(blocks(), backend.tile):
            sums = backend.fold(replicate.params, rows, sums)
        replicate.end_pass(sums)
    return replicate.params


def _learned_alone(backend: MixtureBackend, params: MixtureParams, blocks: Blocks) -> MixtureParams:
    state = LEARNER.init(backend, params)
    while not LEARNER.finished(state):
        for rows in blocks():
            state = LEARNER.step(backend, state, rows)[0]
        state = LEARNER.end_pass(backend, state)[0]
    return LEARNER.estimate(backend, state)  # type: ignore[no-any-return]


def _drawn_again(
    model: MixtureModel, params: MixtureParams, n: int, seed: np.random.SeedSequence
) -> Blocks:
    """Rows that are kept if they are few, and drawn again in every pass if not."""
    if n * model.d > MOST_KEPT:
        return lambda: _drawn(model, params, n, seed)
    kept = list(_drawn(model, params, n, seed))
    return lambda: kept


def _drawn(
    model: MixtureModel, params: MixtureParams, n: int, seed: np.random.SeedSequence
) -> Iterator[Rows]:
    """Rows of the mixture, component by component in every block, which takes less time."""
    rng, length = np.random.default_rng(seed), block_length(model.d)
    for first in range(0, n, length):
        times = rng.multinomial(min(length, n - first), params.weights)
        labels = np.repeat(np.arange(model.k), times)
        yield Rows(model.family.sample(params.components, labels, rng))
