"""E-steps in which a row belongs to a few components, in NumPy: the oracle and the fallback.

For a row, the components of highest joint density are searched from some components, or from all
members of some lists. These are evaluated, and the neighbours of the best one, and then the
neighbours of any better one that was found.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend_capabilities import Candidates, ComponentLists
from mixfold.core.capabilities import LowRankKernel, WhitenedKernel
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.params import Params
from mixfold.core.rows import Array
from mixfold.core.statistics import lower_triangle
from mixfold.families.factor_analysis import LOG_2PI, Moments, packed, posterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams

Numbers = NDArray[np.int32]

LEAST = -4.4e307  # stands for minus infinity, as in the compiled kernels
ELEMENTS = 2**20  # numbers in memory for pairs of a row and a component


def has_candidates(family: Family) -> bool:
    """Whether densities of single pairs of a row and a component can be evaluated."""
    return isinstance(family, WhitenedKernel | LowRankKernel) or (
        isinstance(family, ExponentialFamily) and family.has_linear_form
    )


def candidates_of(model: MixtureModel, params: MixtureParams) -> Pairs | None:
    """The mixture under these parameters in NumPy; None if the family has no such form."""
    family = model.family
    if isinstance(family, LowRankKernel):
        return FactorPairs(model, params)
    if isinstance(family, WhitenedKernel):
        kind = DiagonalPairs if family.form == "diagonal" else TriangularPairs
        return kind(model, params)
    return LinearPairs(model, params) if has_candidates(family) else None


class LastCandidates:
    """Makes the form of parameters, and keeps it for the next call with the same ones."""

    def __init__(self, make: Callable[[MixtureParams], Candidates | None]) -> None:
        self._make = make
        self._last: tuple[MixtureParams | None, Candidates | None] = (None, None)

    def __call__(self, params: MixtureParams) -> Candidates | None:
        known, found = self._last
        if params is not known:
            found = self._make(params)
            self._last = params, found
        return found


def best_of(numbers: Numbers, joint: Array, kept: int) -> tuple[Numbers, Array]:
    """Of components that may be repeated, the `kept` of highest joint density, the best first."""
    rows = np.arange(len(numbers))[:, None]
    order = np.argsort(numbers, axis=1, kind="stable")
    numbers, joint = numbers[rows, order], joint[rows, order]
    repeated = np.zeros(numbers.shape, dtype=bool)
    repeated[:, 1:] = numbers[:, 1:] == numbers[:, :-1]
    there = (numbers >= 0) & ~repeated
    joint = np.where(there, joint, -np.inf)
    numbers = np.where(there, numbers, np.int32(-1))
    order = np.argsort(-joint, axis=1, kind="stable")[:, :kept]
    return numbers[rows, order], joint[rows, order]


class Pairs(ABC):
    """log w_k p(x_i | k) for pairs (i, k), and sums of their statistics."""

    sequential = False  # NumPy may compute a row in another way if the block is of another length

    def __init__(self, model: MixtureModel, params: MixtureParams) -> None:
        self.known: Any = None
        self.model, self.params, self.count = model, params, model.k
        with np.errstate(divide="ignore"):
            self.log_weights = np.log(params.weights)

    @property
    @abstractmethod
    def centres(self) -> Array:
        """The means of components in the coordinates of `values`."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers in memory for a pair."""

    @abstractmethod
    def log_joint(self, values: Array, components: Numbers) -> Array:
        """The joint density of each row with one component, (m,)."""

    @abstractmethod
    def statistics(self, values: Array, components: Numbers) -> Array:
        """The statistics of each row under one component, as in a row of the table of sums."""

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters of all components."""
        return 8 * self.model.k * self.model.family.n_sums(self.model.d)

    def values(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """The rows in the coordinates in which densities are evaluated."""
        return x

    def log_base_measure(self, x: NDArray[np.floating]) -> Array | float:
        """The part of log densities that all components share."""
        return 0.0

    def search(
        self,
        values: NDArray[np.floating],
        start: Numbers,
        listed: Numbers,
        lists: ComponentLists,
        kept: int,
        steps: int,
    ) -> tuple[Numbers, Array]:
        """The components of highest joint density that are found, and the logarithms of it."""
        wide = np.asarray(values, dtype=np.float64)
        members = _members(lists, listed)
        numbers, joint = self._best(wide, np.hstack([start, members]), kept)
        expanded = np.full(len(values), -1, dtype=np.int32)
        for _ in range(steps):
            going = np.flatnonzero((numbers[:, 0] >= 0) & (numbers[:, 0] != expanded))
            if not len(going):
                break
            best = numbers[going, 0]
            expanded[going] = best
            more, their = self._best(wide[going], lists.neighbours[best], kept)
            together = np.hstack([numbers[going], more]), np.hstack([joint[going], their])
            numbers[going], joint[going] = best_of(*together, kept)
        return numbers, joint

    def distances(self, centres: Array, scale: Array) -> Candidates:
        """Centres in the coordinates of `values`, with minus half the squared scaled distance."""
        return Distances(centres, scale)

    def _best(self, values: Array, numbers: Numbers, kept: int) -> tuple[Numbers, Array]:
        """The best of some components of every row, (n, m); numbers outside 0 .. K-1 are none."""
        joint = np.full(numbers.shape, -np.inf)
        rows, columns = np.nonzero((numbers >= 0) & (numbers < self.count))
        for some in self._chunks(len(rows)):
            i, j = rows[some], columns[some]
            with np.errstate(over="ignore", invalid="ignore"):
                found = self.log_joint(values[i], numbers[i, j])
            joint[i, j] = np.where(found > LEAST, found, LEAST)
        known = np.where(np.isneginf(joint), np.int32(-1), numbers)
        short = kept - numbers.shape[1]
        if short > 0:
            known = np.pad(known, ((0, 0), (0, short)), constant_values=-1)
            joint = np.pad(joint, ((0, 0), (0, short)), constant_values=-np.inf)
        return best_of(known, joint, kept)

    def add(
        self,
        values: NDArray[np.floating],
        by_component: Any,
        table: Array,
        first: int,
        last: int,
    ) -> None:
        """Add rows to the sums of components first .. last - 1, row after row, in place."""
        bounds = by_component.indptr[first : last + 1]
        components = np.repeat(np.arange(first, last, dtype=np.int32), np.diff(bounds))
        rows = by_component.indices[bounds[0] : bounds[-1]]
        weights = by_component.data[bounds[0] : bounds[-1]]
        for some in self._chunks(len(rows)):
            x = values[rows[some]].astype(np.float64, copy=False)
            with np.errstate(over="ignore", invalid="ignore"):
                statistics = self.statistics(x, components[some])
            np.add.at(table, components[some], weights[some, None] * statistics)

    def _chunks(self, n: int) -> Iterator[slice]:
        """Divide n pairs into parts that fit into memory."""
        length = max(1, ELEMENTS // self.width)
        return (slice(first, first + length) for first in range(0, n, length))


def _members(lists: ComponentLists, listed: Numbers) -> Numbers:
    """All members of the lists of every row, filled up with -1."""
    sizes = np.diff(lists.offsets)
    padded = np.full((len(sizes) + 1, sizes.max(initial=0)), -1, dtype=np.int32)
    padded[:-1][np.arange(padded.shape[1]) < sizes[:, None]] = lists.members
    found = padded[np.where((listed >= 0) & (listed < len(sizes)), listed, len(sizes))]
    return found.reshape(len(listed), -1)


class Distances(Pairs):
    """Minus half the squared distance of rows from centres, of coordinates times a scale."""

    def __init__(self, centres: Array, scale: Array) -> None:
        self._centres, self.scale, self.count = centres, scale, len(centres)

    @property
    def centres(self) -> Array:
        return self._centres

    @property
    def width(self) -> int:
        return 3 * len(self.scale)

    def log_joint(self, values: Array, components: Numbers) -> Array:
        away = (values - self._centres[components]) * self.scale
        return np.asarray(-0.5 * np.square(away).sum(axis=1))

    def statistics(self, values: Array, components: Numbers) -> Array:
        raise AssertionError("centres have no statistics")


class DiagonalPairs(Pairs):
    """Gaussians: y = (x - mu) / sigma, with the statistics y and y^2."""

    def __init__(self, model: MixtureModel, params: MixtureParams) -> None:
        super().__init__(model, params)
        self.form = cast(WhitenedKernel[Params], model.family).whitened(params.components)
        constant = -0.5 * model.d * LOG_2PI - self.form.log_determinant
        self.log_scale = self.log_weights + constant

    @property
    def centres(self) -> Array:
        return self.form.means

    @property
    def width(self) -> int:
        return 4 * self.model.d

    def whitened(self, values: Array, components: Numbers) -> Array:
        """The distances of rows from the means of components, in standard deviations."""
        return np.asarray((values - self.form.means[components]) * self.form.whiten[components])

    def log_joint(self, values: Array, components: Numbers) -> Array:
        square = np.square(self.whitened(values, components)).sum(axis=1)
        return np.asarray(self.log_scale[components] - 0.5 * square)

    def statistics(self, values: Array, components: Numbers) -> Array:
        y = self.whitened(values, components)
        return np.hstack([np.ones((len(y), 1)), y, np.square(y)])


class TriangularPairs(DiagonalPairs):
    """Gaussians: y = W (x - mu), with the statistics y and the products of its entries."""

    @property
    def width(self) -> int:
        return 2 * self.model.d**2

    def whitened(self, values: Array, components: Numbers) -> Array:
        centred = (values - self.form.means[components])[:, :, None]
        return np.asarray((self.form.whiten[components] @ centred)[:, :, 0])

    def statistics(self, values: Array, components: Numbers) -> Array:
        y = self.whitened(values, components)
        i, j = lower_triangle(self.model.d)
        return np.hstack([np.ones((len(y), 1)), y, y[:, i] * y[:, j]])


class LinearPairs(Pairs):
    """Exponential families: <eta, t(x)> - A(eta), with the statistics t(x)."""

    def __init__(self, model: MixtureModel, params: MixtureParams) -> None:
        super().__init__(model, params)
        self.family = cast(ExponentialFamily[Params], model.family)
        self.eta = self.family.to_natural(params.components)
        self.offset = self.log_weights - self.family.log_normalizer(self.eta)

    @property
    def centres(self) -> Array:
        return self.family.mean(self.params.components)

    @property
    def width(self) -> int:
        return 3 * int(self.eta.shape[1])

    def values(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        wide = x.astype(np.float64, copy=False)
        return np.ascontiguousarray(self.family.sufficient_statistics(wide))

    def log_base_measure(self, x: NDArray[np.floating]) -> Array | float:
        return self.family.log_base_measure(x.astype(np.float64, copy=False))

    def log_joint(self, values: Array, components: Numbers) -> Array:
        return np.asarray((values * self.eta[components]).sum(axis=1) + self.offset[components])

    def statistics(self, values: Array, components: Numbers) -> Array:
        return np.hstack([np.ones((len(values), 1)), values])


class FactorPairs(Pairs):
    """Gaussians with factors, with the statistics of `FactorKernel`."""

    def __init__(self, model: MixtureModel, params: MixtureParams) -> None:
        super().__init__(model, params)
        self.low_rank = cast(LowRankKernel, model.family).low_rank(params.components)
        self.form = posterior(self.low_rank)
        constant = -0.5 * model.d * LOG_2PI - self.form.half_log_determinant
        self.log_scale = self.log_weights + constant

    @property
    def centres(self) -> Array:
        return self.low_rank.means

    @property
    def width(self) -> int:
        _, q, d = self.form.reach.shape
        return int((3 * q + 4) * d)

    def log_joint(self, values: Array, components: Numbers) -> Array:
        centred = values - self.low_rank.means[components]
        square = (np.square(centred) * self.form.precision[components]).sum(axis=1)
        reached = (self.form.reach[components] @ centred[:, :, None])[:, :, 0]
        square -= np.square(reached).sum(axis=1)
        return np.asarray(self.log_scale[components] - 0.5 * square)

    def statistics(self, values: Array, components: Numbers) -> Array:
        centred = values - self.low_rank.means[components]
        factors = (self.form.beta[components] @ centred[:, :, None])[:, :, 0]
        products = Moments(
            np.square(centred),
            factors[:, :, None] * centred[:, None, :],
            factors[:, :, None] * factors[:, None, :],
        )
        return np.hstack([np.ones((len(centred), 1)), centred, factors, packed(products)])
