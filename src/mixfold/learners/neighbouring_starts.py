"""Initial parameters of K components from those of one component fewer or more."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.statistics import Statistics
from mixfold.core.value import replace
from mixfold.learners._convergence import TOL
from mixfold.learners._em_in_memory import Found, learn, responsibilities_of
from mixfold.learners._moves import Merge, left_out, maximized, merges_of, put, take
from mixfold.learners._splits import Splits
from mixfold.learners.candidates import best_first
from mixfold.learners.em import EM
from mixfold.learners.search import LONG, MIDDLE
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

TRIED = 3  # splits, merges and components left out that are tried
UNTIL_CONVERGED = EM(tol=TOL, max_iter=500, accelerate=True)


class Neighbour(NamedTuple):
    """Parameters with one component more or fewer, and which components were changed for that.

    One component is split, or left out if there are fewer afterwards; two are merged. `gain` is
    what the log-likelihood of the sample is expected to rise by before EM, in nats.
    """

    components: tuple[int, ...]
    params: MixtureParams
    gain: float


class Start(NamedTuple):
    """Initial parameters, how they were found, and the log-likelihood per row of the sample."""

    kind: str
    params: MixtureParams
    score: float


def split_starts(
    smaller: MixtureBackend,
    params: MixtureParams,
    larger: MixtureBackend,
    sample: Rows,
    seed: list[int],
) -> list[Neighbour]:
    """Parameters with one component more: the components that gain most by it are split.

    Of a component that is split, one part takes its place and the other one the last place.
    """
    rng, statistics = np.random.default_rng(seed), smaller.model.expected(params)
    joint = responsibilities_of(smaller, params, sample)
    splits = Splits(smaller, sample).best(params, *joint, rng)[:TRIED]
    # the place of the new component holds a copy until the split fills it
    places = [*range(smaller.model.k), smaller.model.k - 1]
    wider = _chosen(statistics, places)
    empty = Merge((smaller.model.k, smaller.model.k), 0.0)
    return [
        Neighbour((split.component,), maximized(larger.model, wider, [(split, empty)]), split.gain)
        for split in splits
    ]


def merge_starts(
    larger: MixtureBackend,
    params: MixtureParams,
    smaller: MixtureBackend,
    sample: Rows,
    seed: list[int],
) -> list[Neighbour]:
    """Parameters with one component less: two are merged, or one is left out, that lose least."""
    rng, model = np.random.default_rng(seed), larger.model
    joint = responsibilities_of(larger, params, sample)
    merges = merges_of(model, params, sample.on_host(), *joint, rng)[:TRIED]
    leaving = sorted(left_out(params, sample, joint[0]), key=lambda merge: merge.loss)[:TRIED]
    statistics = model.expected(params)
    return [
        Neighbour(tuple(dict.fromkeys(one.pair)), _merged(smaller, statistics, one.pair), -one.loss)
        for one in (*merges, *leaving)
    ]


def one_component(model: MixtureModel, params: MixtureParams) -> MixtureParams:
    """Parameters of a single component, with the moments of a mixture."""
    blocks = model.expected(params).blocks
    union = tuple(reduce(add, (take(block, [k]) for k in range(model.k))) for block in blocks)
    return replace(model, k=1).maximize(Statistics.of(union, np.ones(1)))[0]


def _merged(
    smaller: MixtureBackend, statistics: Statistics, pair: tuple[int, int]
) -> MixtureParams:
    """Parameters after the second component of a pair was added to the first, or was left out."""
    i, j = pair
    rest = [k for k in range(len(statistics.weight)) if k != j]
    found = _chosen(statistics, rest)
    if i != j:
        place = rest.index(i)
        found.weight[place] += statistics.weight[j]
        for block, all_of_them in zip(found.blocks, statistics.blocks, strict=True):
            put(block, place, take(all_of_them, [i]) + take(all_of_them, [j]))
    return smaller.model.maximize(Statistics.of(found.blocks, found.weight))[0]


def _chosen(statistics: Statistics, places: list[int]) -> Statistics:
    """Copies of the statistics of some components."""
    blocks = tuple(take(block, places) for block in statistics.blocks)
    return Statistics.of(blocks, statistics.weight[places])


def best_start(
    backend: MixtureBackend,
    known: Start | None,
    kind: str,
    drawn: Sequence[MixtureParams],
    sample: Rows,
    prior_strength: float,
    whole: bool,
) -> Start | None:
    """The better of a known start and of the best of those drawn, after EM on the sample.

    If the sample is the `whole` of the data, EM goes on until it has converged.
    """
    middle = replace(MIDDLE, prior_strength=prior_strength)
    last = replace(UNTIL_CONVERGED if whole else LONG, prior_strength=prior_strength)
    tried = [learn(middle, backend, params, sample) for params in drawn]
    tried = [one for one in tried if np.isfinite(one[1])]
    if not tried:
        return known
    params, _ = tried[best_first(backend, tried, sample)[0]]
    new = Start(kind, *learn(last, backend, params, sample))
    if known is None:
        return new
    pairs: list[Found] = [(one.params, one.score) for one in (known, new)]
    return (known, new)[best_first(backend, pairs, sample)[0]]
