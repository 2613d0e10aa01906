"""Parameters from responsibilities, labels or centres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mixfold.core.capabilities import CommonSpread
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array, Rows
from mixfold.core.source import block_length
from mixfold.core.statistics import Block, Statistics
from mixfold.families.distances import half_squares, squared_distances
from mixfold.families.gaussian import Gaussian
from mixfold.models.mixture_model import MixtureModel, MixtureParams

Divergence = Callable[[Array, Array, Array], Array]

MEAN_SHRINKAGE = 0.2
ENOUGH_FOR_CENTERS = 5000
MOST_NUMBERS = 2**24  # of rows and components that are compared at once; above, so many components
COMPONENTS_TOGETHER = 64


def statistics_of(model: MixtureModel, rows: Rows, responsibilities: Array) -> Statistics:
    """Statistics of rows under given responsibilities (n, K)."""
    x = rows.x.astype(np.float64, copy=False)
    r = responsibilities if rows.weight is None else responsibilities * weights_of(rows)[:, None]
    return Statistics.of(model.family.blocks_of(x, r), r.sum(axis=0))


def statistics_of_groups(model: MixtureModel, rows: Rows, labels: np.ndarray) -> Statistics:
    """Statistics of groups of rows, which belong to the components of these numbers.

    Of many rows and components only those of some components are compared at a time.
    """
    if len(rows) * model.k <= MOST_NUMBERS:
        return statistics_of(model, rows, _indicators(labels, model.k))
    weight = rows.weights()
    order, counts = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=model.k)
    ends, any_row, parts = np.append(0, np.cumsum(counts)), weight.argmax(), []
    for first in range(0, model.k, COMPONENTS_TOGETHER):
        number = min(COMPONENTS_TOGETHER, model.k - first)
        own = order[ends[first] : ends[first + number]]
        # one component more, so that there are rows, which is left out again
        own, there = np.append(own, any_row), np.append(labels[own] - first, number)
        found = statistics_of(model, Rows(rows.x[own], weight[own]), _indicators(there, number + 1))
        parts.append([Block(b.weight[:-1], b.mean[:-1], b.scatter[:-1]) for b in found.blocks])
    total = np.bincount(labels, weight, model.k).astype(np.float64)
    return Statistics.of(tuple(map(_joined, zip(*parts, strict=True))), total)


def _indicators(labels: np.ndarray, k: int) -> Array:
    return np.asarray(np.equal.outer(labels, np.arange(k)), dtype=np.float64)


def _joined(parts: Sequence[Block]) -> Block:
    """The components of all parts; those without rows have the mean of all rows."""
    weight, mean, scatter = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("weight", "mean", "scatter")
    )
    block = Block(weight, mean, scatter)
    filled = weight > 0.0 if weight.ndim == 2 else (weight > 0.0)[:, None]
    return replace(block, mean=np.where(filled, mean, block.together().mean))


def from_labels(
    model: MixtureModel, rows: Rows, labels: np.ndarray, pull: float = 0.0
) -> MixtureParams:
    """The M-step for given labels, in which small groups are shrunk towards all rows.

    A group of n rows in d columns keeps n / (n + d + 1) of its own scatter, so that groups of one
    row have a positive scale. Means of statistics without a scatter are moved by the fraction
    `pull` towards the common mean. The smallest weight counts as one row, so that a common factor
    of weights does not matter, and a row of weight 2 counts twice.
    """
    if rows.weight is not None:
        weight = weights_of(rows)
        rows = Rows(rows.x, weight / weight[weight > 0.0].min())
    found = statistics_of_groups(model, rows, labels)
    more = found.count / (found.count + model.k) / model.k
    blocks = []
    for block in found.blocks:
        all_rows = block.together()
        own = block.weight / (block.weight + model.d + 1.0)
        shrunk = block.shrunk(all_rows, own, pull)
        blocks.append(replace(shrunk, weight=block.weight + more))
    return model.maximize(Statistics.of(tuple(blocks), found.weight + more))[0]


def from_centers(model: MixtureModel, rows: Rows, centers: Array) -> MixtureParams:
    """Parameters of the groups of rows nearest to each centre."""
    labels = _nearest_center(model, rows, centers)
    # a group of zeros would remain a point mass if the mean is the only parameter
    params = from_labels(model, rows, labels, MEAN_SHRINKAGE)
    empty = np.bincount(labels, minlength=model.k) == 0
    if not empty.any():
        return params
    return moved_to_centers(model, params, centers, empty)


def _nearest_center(model: MixtureModel, rows: Rows, centers: Array) -> np.ndarray:
    """The number of the centre of least divergence from every row, some centres at a time."""
    x, weight = rows.x.astype(np.float64, copy=False), weights_of(rows)
    least, labels = np.full(len(x), np.inf), np.zeros(len(x), np.intp)
    step = max(1, MOST_NUMBERS // len(x))
    for first in range(0, len(centers), step):
        divergence = model.family.divergence(x, centers[first : first + step], weight)
        found = divergence.argmin(axis=1)
        smallest = divergence[np.arange(len(x)), found]
        closer = smallest < least
        least[closer], labels[closer] = smallest[closer], found[closer] + first
    return labels


def from_groups(model: MixtureModel, rows: Rows, labels: np.ndarray) -> MixtureParams:
    """The M-step for groups of rows, in which small groups are shrunk towards the others.

    A group of n rows in d columns keeps n / (n + d + 1) of its own scatter, and gets the rest from
    the mean scatter within groups, which counts for all rows but K, and from that of all rows.
    """
    weight = weights_of(rows)
    rows = Rows(rows.x, weight / weight[weight > 0.0].min())
    found = statistics_of_groups(model, rows, labels)
    more, between = found.count / (found.count + model.k) / model.k, model.k / found.count
    blocks = []
    for block in found.blocks:
        all_rows = block.together()
        size = block.weight if block.weight.ndim == 1 else block.weight.mean(axis=1)
        within = (size / size.sum()) @ block.scatter
        part = min(1.0, between)
        common = replace(all_rows, scatter=(1.0 - part) * within + part * all_rows.scatter)
        own = block.weight / (block.weight + model.d + 1.0)
        blocks.append(replace(block.shrunk(common, own, 0.0), weight=block.weight + more))
    return model.maximize(Statistics.of(tuple(blocks), found.weight + more))[0]


def real_columns(model: MixtureModel, name: str) -> None:
    """Refuse a family that does not allow any real numbers."""
    if not isinstance(model.family, CommonSpread):
        raise InvalidInputError(
            f"init={name!r} needs a family of real columns, "
            f"which {model.family!r} is not: use 'k-mle++'"
        )


def moved_to_centers(
    model: MixtureModel, params: MixtureParams, centers: Array, chosen: np.ndarray
) -> MixtureParams:
    """Parameters with the means of the chosen components at their centres."""
    statistics = model.expected(params)
    at_centers = model.family.blocks_of(centers, np.eye(model.k))
    blocks = []
    for block, there in zip(statistics.blocks, at_centers, strict=True):
        mean = np.where(chosen[:, None], there.mean, block.mean)
        blocks.append(replace(block, mean=mean))
    return model.maximize(replace(statistics, blocks=tuple(blocks)))[0]


def spread_centers(divergence: Divergence, k: int, rows: Rows, rng: np.random.Generator) -> Array:
    """K rows, each drawn with probability proportional to its divergence from those before.

    Of a few candidates the one with the smallest total divergence is taken, as in scikit-learn,
    since a single draw often puts two centres into one cluster.
    """
    enough = max(ENOUGH_FOR_CENTERS, 2 * k)
    if len(rows) > enough:
        chosen_rows = np.sort(rng.choice(len(rows), enough, replace=False))
        rows = Rows(rows.x[chosen_rows], weights_of(rows)[chosen_rows])
    # sorted, so that draws depend neither on the order of rows nor on repeated rows
    order = row_order(rows.x)
    x, weight = rows.x[order].astype(np.float64, copy=False), weights_of(rows)[order]
    chosen = _draws(weight, 1, rng)
    nearest = divergence(x, x[chosen], weight)[:, 0]
    for _ in range(k - 1):
        drawn = _draws(weight * nearest, 2 + int(np.log(k)), rng)
        left = np.minimum(nearest[:, None], divergence(x, x[drawn], weight))
        best = int((weight @ left).argmin())
        chosen.append(drawn[best])
        nearest = left[:, best]
    return np.asarray(x[chosen])


class ScaledDistances:
    """Half the squared distances of rows from centres, in columns divided by their deviations.

    The rows of a call are scaled once for it and those that follow with the same rows.
    """

    def __init__(self) -> None:
        self._rows: Array | None = None
        self._scaled = self._origin = self._scale = np.empty(0)
        self._squares: Array | None = None

    def __call__(self, x: Array, centers: Array, weight: Array) -> Array:
        if x is not self._rows:
            self._rows, self._origin = x, x[0]  # subtracted, so that far rows lose no digits
            self._scale = Gaussian().deviations_of(x, weight)
            self._scaled = (x - self._origin) / self._scale
            self._squares = half_squares(self._scaled)
        scaled = (centers - self._origin) / self._scale
        return squared_distances(self._scaled, scaled, self._squares)


def row_order(x: Array) -> np.ndarray:
    """The order of rows by their first column, then by the second, and so on."""
    order = np.argsort(x[:, 0], kind="stable")
    first = x[order, 0]
    tied = ~(first[1:] > first[:-1])
    in_ties = np.append(tied, False) | np.append(False, tied)
    some = order[in_ties]
    order[in_ties] = some[np.lexsort(x[some].T[::-1])]
    return order


def with_spread(model: MixtureModel) -> CommonSpread:
    """The family, if its components can be initialised with any centres and a common scale."""
    if not isinstance(model.family, CommonSpread):
        raise InvalidInputError(
            f"init draws means that {model.family!r} may not allow: use 'k-mle++'"
        )
    return model.family


def of_one_spread(model: MixtureModel, rows: Rows, centers: Array) -> MixtureParams:
    """Components that differ in their centres only, with the scale of all rows."""
    some = rows.cut(0, block_length(model.d))
    x = some.x.astype(np.float64, copy=False)
    components = with_spread(model).around(centers, x, weights_of(some))
    return MixtureParams(np.full(model.k, 1.0 / model.k), components)


def weights_of(rows: Rows) -> Array:
    """The weights; ones if there are none or all are zero."""
    return rows.weight if rows.weight is not None and rows.weight.any() else np.ones(len(rows))


def _draws(mass: Array, number: int, rng: np.random.Generator) -> list[int]:
    """Indices with probabilities proportional to mass; uniform where all mass is zero."""
    largest = mass.max()
    if not (largest > 0 and np.isfinite(largest)):
        return [int(rng.integers(len(mass))) for _ in range(number)]
    cumulative = np.cumsum(mass / largest)
    found = np.searchsorted(cumulative, rng.random(number) * cumulative[-1])
    return np.minimum(found, len(mass) - 1).tolist()  # type: ignore[no-any-return]
