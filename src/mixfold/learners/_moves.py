"""Split-and-merge moves of components on a sample of rows in memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Block, Blocks, Statistics
from mixfold.core.value import replace
from mixfold.learners._em_in_memory import Found, learn, responsibilities_of
from mixfold.learners._splits import MOST_ROWS, MOST_SPLITS, Split, Splits, members_of
from mixfold.learners.em import EM
from mixfold.models.mixture_model import (
    MixtureBackend,
    MixtureModel,
    MixtureParams,
    count_spurious,
)

TRIAL = EM(tol=1e-4, max_iter=8, accelerate=True, criterion="step")
# EM after a move, and nats per row and column that it must have gained before each of them
TRIALS = (
    (EM(tol=1e-4, max_iter=4, accelerate=True, criterion="step"), -np.inf),
    (TRIAL, -0.003),
    (EM(tol=1e-5, max_iter=20, accelerate=True, criterion="step"), -0.0005),
)
LEAST_EXPECTED = -0.05  # nats per row and column that a move must be expected to gain, to be tried
FAILURES = 5
MOST_ROUNDS = 30
NEIGHBOURS = 3
MERGES = 3  # merges of other components that are tried with a split
OWN_MERGES = 1  # merges of the heavier part with another component


class Merge(NamedTuple):
    """Two components, and what their union loses in nats.

    The same component twice is one that is left out.
    """

    pair: tuple[int, int]
    loss: float


Move = tuple[Split, Merge]


def improve(
    backend: MixtureBackend,
    found: Found,
    sample: Rows,
    seed: list[int],
    prior_strength: float = 0.0,
) -> Found:
    """Merge two components and split another, as long as the likelihood of the sample rises.

    What a move changes is estimated from the rows of the components alone, which bounds the
    likelihood from below (Jensen), so that several moves can be made at once. They are kept if the
    likelihood after a few passes of EM has risen by as much as the parameters of a component
    explain by chance, and no more components of few rows are degenerate. After a few moves in turn
    that were not kept, the search ends.

    References: Ueda, Nakano, Ghahramani and Hinton (2000), SMEM algorithm for mixture models;
    Fränti (2018), Efficiency of random swap clustering.
    """
    model, failures = backend.model, 0
    if model.k < 3:
        return found
    weight = sample.total_weight()
    least = max(1.0, 0.5 * model.n_parameters() / model.k) * weight / len(sample)
    splits = Splits(backend, sample)
    steps = _steps(splits, found[0], least, [*seed, 0])
    trials = [(replace(em, prior_strength=prior_strength), gain) for em, gain in TRIALS]
    for number in range(1, MOST_ROUNDS):
        if not steps or failures == FAILURES:
            break
        after = _applied(model, found[0], steps.pop(0)), np.inf
        for em, gain in trials:
            if found[1] + gain * model.d < after[1]:
                after = learn(em, backend, after[0], sample)
        risen = (after[1] - found[1]) * weight > least
        spurious = count_spurious(model, found[0], [sample])
        if risen and count_spurious(model, after[0], [sample]) <= spurious:
            found, failures = after, 0
            steps = _steps(splits, found[0], least, [*seed, number])
        else:
            failures += 1
    return found


def _steps(
    splits: Splits, params: MixtureParams, least: float, seed: list[int]
) -> list[list[Move]]:
    """All moves that are expected to help at once, then single ones, best first.

    Those are left out that are expected to do much harm.
    """
    moves = _moves(splits, params, np.random.default_rng(seed))
    least_expected = LEAST_EXPECTED * splits.model.d * splits.sample.total_weight()
    moves = [move for move in moves if _expected(move) > least_expected]
    together = _disjoint([move for move in moves if _expected(move) > least])
    single = [[move] for move in moves]
    return [together, *single] if len(together) > 1 else single


def _expected(move: Move) -> float:
    """What a move is expected to gain, in nats."""
    return move[0].gain - move[1].loss


def _disjoint(moves: list[Move]) -> list[Move]:
    """Moves that can be made at once: those of other components than the ones before."""
    used: set[int] = set()
    found: list[Move] = []
    for split, merge in moves:
        components = {split.component, *merge.pair}
        if not used & components:
            found.append((split, merge))
            used |= components
    return found


def _moves(splits: Splits, params: MixtureParams, rng: np.random.Generator) -> list[Move]:
    """Splits of components, each with the merges of others that lose the least; best first."""
    sample = splits.sample
    joint = responsibilities_of(splits.backend, params, sample)
    merges = merges_of(splits.model, params, sample, *joint, rng)
    merges += left_out(params, sample, joint[0])
    merges.sort(key=lambda merge: merge.loss)
    found: list[Move] = []
    for split in splits.best(params, *joint, rng):
        others = [merge for merge in merges if split.component not in merge.pair]
        own = [
            merge for merge in merges if split.component in merge.pair and len({*merge.pair}) > 1
        ]
        found += [(split, merge) for merge in others[:MERGES] + own[:OWN_MERGES]]
    return sorted(found, key=lambda move: -_expected(move))


def merges_of(
    model: MixtureModel,
    params: MixtureParams,
    sample: Rows,
    responsibilities: Array,
    log_density: Array,
    rng: np.random.Generator,
) -> list[Merge]:
    """Pairs of components that overlap, those first whose union loses the least."""
    blocks, found = model.expected(params).blocks, []
    for i, j in _close_pairs(responsibilities):
        both = responsibilities[:, i] + responsibilities[:, j]
        total = np.log(params.weights[i] + params.weights[j])
        loss = union_loss(model, blocks, (i, j), total, sample, both, log_density, rng)
        if np.isfinite(loss):
            found.append(Merge((i, j), max(loss, 0.0)))
    return sorted(found, key=lambda merge: merge.loss)


def union_loss(
    model: MixtureModel,
    blocks: Blocks,
    pair: tuple[int, int],
    log_weight: float,
    sample: Rows,
    both: Array,
    log_density: Array,
    rng: np.random.Generator,
) -> float:
    """What the union of two components loses, in nats; `both` is the sum of responsibilities."""
    members, weight = members_of(both, sample, MOST_ROWS, rng)
    if not len(members):
        return 0.0
    i, j = pair
    union, _ = model.family.maximize(tuple(take(b, [i]) + take(b, [j]) for b in blocks))
    with np.errstate(divide="ignore"):
        logs = np.log(both[members]) + log_density[members]
    x = sample.x[members].astype(np.float64)
    return float(weight @ (logs - model.family.log_density(union, x)[:, 0] - log_weight))


def left_out(params: MixtureParams, sample: Rows, responsibilities: Array) -> list[Merge]:
    """What every component loses if its rows are left to the others."""
    with np.errstate(divide="ignore", invalid="ignore"):
        others = np.log(np.maximum(1.0 - responsibilities, 0.0))
        loss = sample.total_weight() * np.log1p(-params.weights) - sample.weights() @ others
    return [
        Merge((k, k), max(each, 0.0)) for k, each in enumerate(loss.tolist()) if np.isfinite(each)
    ]


def _close_pairs(responsibilities: Array) -> list[tuple[int, int]]:
    """For every component the pairs with those that share most of its rows."""
    shared = responsibilities.T @ responsibilities
    total = np.maximum(responsibilities.sum(axis=0), 1e-300)
    np.fill_diagonal(shared, -1.0)
    shared = shared / total[:, None]
    k = len(shared)
    pairs = set()
    for i in range(k):
        for j in np.argsort(-shared[i], kind="stable")[: min(NEIGHBOURS, k - 1)].tolist():
            pairs.add((min(i, j), max(i, j)))
    ranked = sorted(pairs, key=lambda p: -max(shared[p[0], p[1]], shared[p[1], p[0]]))
    return ranked[: max(2 * MOST_SPLITS, 1)]


def take(block: Block, chosen: list[int]) -> Block:
    return Block(block.weight[chosen], block.mean[chosen], block.scatter[chosen])


def _applied(model: MixtureModel, params: MixtureParams, moves: list[Move]) -> MixtureParams:
    """Parameters after moves of different components."""
    return maximized(model, model.expected(params), moves)


def maximized(model: MixtureModel, statistics: Statistics, moves: list[Move]) -> MixtureParams:
    """Parameters of statistics after moves of different components."""
    blocks = [Block(b.weight.copy(), b.mean.copy(), b.scatter.copy()) for b in statistics.blocks]
    weight = statistics.weight.copy()
    for split, (pair, _) in moves:
        k = split.component
        i, j = pair if pair[1] != k else pair[::-1]
        if i == k != j:
            _exchange(blocks, weight, split, j)
            continue
        weight[i] += weight[j]
        for block, halves in zip(blocks, split.blocks, strict=True):
            if i != j:
                put(block, i, take(block, [i]) + take(block, [j]))
            own = block.weight[k].copy()
            put(block, j, take(halves, [0]) * float(np.max(own)))
            put(block, k, take(halves, [1]) * float(np.max(own)))
        part = split.blocks[0].weight
        part = part if part.ndim == 1 else part.mean(axis=1)
        part = part / part.sum()
        weight[j], weight[k] = weight[k] * part[0], weight[k] * part[1]
    return model.maximize(replace(statistics, blocks=tuple(blocks), weight=weight))[0]


def _exchange(blocks: list[Block], weight: Array, split: Split, j: int) -> None:
    """The lighter part of a component becomes component j, and the heavier is merged with that."""
    k, share = split.component, split.blocks[0].weight
    share = share if share.ndim == 1 else share.mean(axis=1)
    share = share / share.sum()
    light, heavy = np.argsort(share, kind="stable").tolist()
    for block, halves in zip(blocks, split.blocks, strict=True):
        own = float(np.max(block.weight[k]))
        other = take(block, [j])
        put(block, j, take(halves, [light]) * own)
        put(block, k, take(halves, [heavy]) * own + other)
    weight[j], weight[k] = weight[k] * share[light], weight[k] * share[heavy] + weight[j]


def put(block: Block, k: int, other: Block) -> None:
    block.weight[k], block.mean[k], block.scatter[k] = (
        other.weight[0],
        other.mean[0],
        other.scatter[0],
    )
