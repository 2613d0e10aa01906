"""Families of other kinds than those that are built in, each in a few lines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import bernoulli, rv_discrete

from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.families.gaussian import Gaussian

LEAST = 1e-12


@value
class OddsParams:
    """Probabilities, (K, L) of levels or (K, d) of ones."""

    probabilities: Array


@value
class CodedCategorical(ExponentialFamily):
    """One column of codes 0..L-1: t(x) is one-hot, eta = log p."""

    levels: int = 4

    @property
    def support(self) -> Support:
        return Support(0.0, self.levels - 1.0, whole=True)

    def scipy_log_density(self, params: OddsParams, x: Array) -> Array:
        codes = range(self.levels)
        each = (rv_discrete(values=(codes, p)).logpmf(x[:, 0]) for p in params.probabilities)
        return np.stack(list(each), axis=1)

    def n_statistics(self, d: int) -> int:
        return self.levels

    def sufficient_statistics(self, x: Array) -> Array:
        return np.asarray(x[:, :1] == np.arange(self.levels), dtype=np.float64)

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))

    def to_natural(self, params: OddsParams) -> Array:
        return np.log(params.probabilities)

    def log_normalizer(self, eta: Array) -> Array:
        return np.asarray(logsumexp(eta, axis=1))

    def mean(self, params: OddsParams) -> Array:
        return params.probabilities

    def maximize(self, blocks: Blocks) -> tuple[OddsParams, int]:
        p = np.maximum(blocks[0].mean, LEAST)
        return OddsParams(p / p.sum(axis=1, keepdims=True)), 0

    def sample(self, params: OddsParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        reached = params.probabilities[labels].cumsum(axis=1) > rng.random((len(labels), 1))
        return np.asarray(reached.argmax(axis=1)[:, None], dtype=np.float64)

    def example(self, k: int, d: int, rng: np.random.Generator) -> OddsParams:
        return OddsParams(rng.dirichlet(np.ones(self.levels), size=k))


@value
class PairParams:
    """Parameters of both factors."""

    first: Any
    second: Any


@value
class PairFamily(ExponentialFamily):
    """The first `split` columns have one family, the others another, independent of it."""

    first: ExponentialFamily = CodedCategorical()
    second: ExponentialFamily = Gaussian("diag")
    split: int = 1

    def _parts(self, x: Array) -> tuple[Array, Array]:
        return x[:, : self.split], x[:, self.split :]

    def _cut(self, blocks: Blocks) -> tuple[Blocks, Blocks]:
        n = len(self.first.block_shapes(self.split))
        return blocks[:n], blocks[n:]

    def out_of_support(self, x: Array) -> np.ndarray:
        found = [f.out_of_support(part) for f, part in self._pairs(x)]
        zeros = [np.zeros(part.shape, dtype=bool) for part in self._parts(x)]
        return np.hstack([z if f is None else f for f, z in zip(found, zeros, strict=True)])

    def supports(self, d: int) -> tuple[Support, ...]:
        return (*self.first.supports(self.split), *self.second.supports(d - self.split))

    def scipy_log_density(self, params: PairParams, x: Array) -> Array:
        factors: Any = zip(self._pairs(x), (params.first, params.second), strict=True)
        return np.asarray(sum(f.scipy_log_density(own, part) for (f, part), own in factors))

    def _pairs(self, x: Array) -> list[tuple[ExponentialFamily, Array]]:
        return list(zip((self.first, self.second), self._parts(x), strict=True))

    def n_statistics(self, d: int) -> int:
        return self.first.n_statistics(self.split) + self.second.n_statistics(d - self.split)

    def sufficient_statistics(self, x: Array) -> Array:
        return np.hstack([f.sufficient_statistics(part) for f, part in self._pairs(x)])

    def log_base_measure(self, x: Array) -> Array:
        return np.asarray(sum(f.log_base_measure(part) for f, part in self._pairs(x)))

    def to_natural(self, params: PairParams) -> Array:
        return np.hstack(
            [self.first.to_natural(params.first), self.second.to_natural(params.second)]
        )

    def log_normalizer(self, eta: Array) -> Array:
        n = self.first.n_statistics(self.split)
        return self.first.log_normalizer(eta[:, :n]) + self.second.log_normalizer(eta[:, n:])

    def mean(self, params: PairParams) -> Array:
        return np.hstack([self.first.mean(params.first), self.second.mean(params.second)])

    def maximize(self, blocks: Blocks) -> tuple[PairParams, int]:
        found = [
            f.maximize(b) for f, b in zip((self.first, self.second), self._cut(blocks), strict=True)
        ]
        return PairParams(found[0][0], found[1][0]), found[0][1] + found[1][1]

    def sample(self, params: PairParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        rows = self.first.sample(params.first, labels, rng)
        return np.hstack([rows, self.second.sample(params.second, labels, rng)])

    def example(self, k: int, d: int, rng: np.random.Generator) -> PairParams:
        first = self.first.example(k, self.split, rng)
        return PairParams(first, self.second.example(k, d - self.split, rng))

    def check_params(self, params: PairParams, k: int, d: int) -> None:
        self.first.check_params(params.first, k, self.split)
        self.second.check_params(params.second, k, d - self.split)

    # blocks are those of both factors, and the table of sums is theirs side by side

    def n_sums(self, d: int) -> int:
        return self.first.n_sums(self.split) + self.second.n_sums(d - self.split)

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return self.first.block_shapes(self.split) + self.second.block_shapes(d - self.split)

    def sums(self, params: PairParams, x: Array, responsibilities: Array) -> Array:
        one, two = self._parts(x)
        first = self.first.sums(params.first, one, responsibilities)
        return np.hstack([first, self.second.sums(params.second, two, responsibilities)])

    def to_blocks(self, params: PairParams, table: Array) -> Blocks:
        n = self.first.n_sums(self.split)
        first = self.first.to_blocks(params.first, table[:, :n])
        return first + self.second.to_blocks(params.second, table[:, n:])

    def to_sums(self, params: PairParams, blocks: Blocks) -> Array:
        one, two = self._cut(blocks)
        first = self.first.to_sums(params.first, one)
        return np.hstack([first, self.second.to_sums(params.second, two)])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        one, two = (f.blocks_of(part, responsibilities) for f, part in self._pairs(x))
        return one + two

    def expected(self, params: PairParams, weights: Array) -> Blocks:
        first = self.first.expected(params.first, weights)
        return first + self.second.expected(params.second, weights)

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        pairs = zip((self.first, self.second), self._parts(x), self._parts(centers), strict=True)
        return np.asarray(sum(f.divergence(part, centre, weight) for f, part, centre in pairs))


@value
class ObservedBernoulli(ExponentialFamily):
    """Zeros and ones, of which NaN are not observed: every cell has a weight of its own."""

    accepts_missing = True
    support = Support(0.0, 1.0, whole=True)

    def scipy_log_density(self, params: OddsParams, x: Array) -> Array:
        return np.asarray(bernoulli.logpmf(x[:, None], params.probabilities).sum(axis=2))

    def out_of_support(self, x: Array) -> np.ndarray:
        return np.asarray((x != 0) & (x != 1) & ~np.isnan(x))

    def n_statistics(self, d: int) -> int:
        return d

    def sufficient_statistics(self, x: Array) -> Array:
        return np.nan_to_num(x)

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))

    def to_natural(self, params: OddsParams) -> Array:
        return np.log(params.probabilities) - np.log1p(-params.probabilities)

    def log_normalizer(self, eta: Array) -> Array:
        return np.asarray(np.logaddexp(0.0, eta).sum(axis=1))

    def mean(self, params: OddsParams) -> Array:
        return params.probabilities

    def maximize(self, blocks: Blocks) -> tuple[OddsParams, int]:
        return OddsParams(blocks[0].mean.clip(LEAST, 1.0 - LEAST)), 0

    def sample(self, params: OddsParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        p = params.probabilities[labels]
        return np.asarray(rng.random(p.shape) < p, dtype=np.float64)

    def example(self, k: int, d: int, rng: np.random.Generator) -> OddsParams:
        return OddsParams(rng.uniform(0.1, 0.9, size=(k, d)))

    # cells that are not observed do not count

    def n_sums(self, d: int) -> int:
        return 1 + 2 * d

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return (BlockShape(d, by_cell=True),)

    def sums(self, params: Any, x: Array, responsibilities: Array) -> Array:
        r, there = responsibilities.T[:, :, None], ~np.isnan(x)
        cells, ones = (r * there).sum(axis=1), (r * np.nan_to_num(x)).sum(axis=1)
        return np.hstack([responsibilities.sum(axis=0)[:, None], cells, ones])

    def to_blocks(self, params: Any, table: Array) -> Blocks:
        d = table.shape[1] // 2
        return (Block.of_sums(table[:, 1 : 1 + d], table[:, 1 + d :]),)

    def to_sums(self, params: OddsParams, blocks: Blocks) -> Array:
        (block,) = blocks
        total = block.weight.max(axis=1, keepdims=True)
        return np.hstack([total, block.weight, block.sums()])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        (whole,) = self.to_blocks(None, self.sums(None, x, np.ones((len(x), 1))))
        (block,) = self.to_blocks(None, self.sums(None, x, responsibilities))
        return (block.with_gaps_from(whole),)

    def expected(self, params: OddsParams, weights: Array) -> Blocks:
        p = params.probabilities
        return (Block.of_means(np.repeat(weights[:, None], p.shape[1], axis=1), p.copy()),)

    def log_density(self, params: OddsParams, x: Array) -> Array:
        ones, zeros = np.log(params.probabilities), np.log1p(-params.probabilities)
        there = ~np.isnan(x)
        return np.asarray(np.nan_to_num(x) @ ones.T + (there & (x == 0)) @ zeros.T)


@value
class ImputingBernoulli(ObservedBernoulli):
    """The same, with what is expected of a cell in its place: statistics depend on parameters."""

    statistics_depend_on_params = True

    def n_sums(self, d: int) -> int:
        return 1 + d

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        return (BlockShape(d),)

    def sums(self, params: Any, x: Array, responsibilities: Array) -> Array:
        r = responsibilities.T[:, :, None]
        filled = np.where(np.isnan(x), params.probabilities[:, None], x[None])
        return np.hstack([responsibilities.sum(axis=0)[:, None], (r * filled).sum(axis=1)])

    def to_blocks(self, params: Any, table: Array) -> Blocks:
        return (Block.of_sums(table[:, 0], table[:, 1:]),)

    def to_sums(self, params: OddsParams, blocks: Blocks) -> Array:
        return np.hstack([blocks[0].weight[:, None], blocks[0].sums()])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        there = np.maximum((~np.isnan(x)).sum(axis=0), 1)
        p = np.tile(np.nan_to_num(x).sum(axis=0) / there, (responsibilities.shape[1], 1))
        return self.to_blocks(None, self.sums(OddsParams(p), x, responsibilities))

    def expected(self, params: OddsParams, weights: Array) -> Blocks:
        return (Block.of_means(weights.copy(), params.probabilities.copy()),)


PAIR = PairFamily()
COMPLETE: list[tuple[Family, int]] = [
    (CodedCategorical(), 1),
    (PAIR, 2),
    (PAIR, 3),
    (PairFamily(CodedCategorical(3), Gaussian("full")), 3),
    (ObservedBernoulli(), 5),
]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)
