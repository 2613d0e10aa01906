"""E-steps in which a row belongs to the few components that a search finds for it."""

from __future__ import annotations

from itertools import pairwise
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mixfold.core.backend import Backend, Model
from mixfold.core.backend_capabilities import (
    CandidateKernel,
    Candidates,
    ComponentLists,
    PartMapper,
    required,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows, stretches
from mixfold.core.value import value
from mixfold.kernels.candidates import LEAST, has_candidates
from mixfold.models.mixture_model import MixtureModel

Numbers = NDArray[np.int32]

NEGLIGIBLE = 1e-30  # responsibilities below change no statistic
STEPS = 10  # how often the neighbours of a better component are tried
LEAST_PART = 256  # rows
PARTS = 16  # into which rows and components are divided among threads
CACHE = 2**25


@value
class Few:
    """How many components a row has, how many are neighbours of one, and random ones per pass."""

    candidates: int
    neighbours: int
    random: int

    def all_of(self, k: int) -> bool:
        """Whether K components are so few that all are evaluated."""
        return k <= self.candidates + self.neighbours + self.random


def not_searchable(learner: Learner, model: Model) -> str | None:
    """Why a learner that searches components does not support a model; None if it does."""
    if not isinstance(model, MixtureModel):
        return (
            f"learner is {type(learner).__name__}, which learns mixtures, and not {model!r}: use "
            "'em'"
        )
    if has_candidates(model.family):
        return None
    return (
        f"learner is {type(learner).__name__}, which needs Gaussians, or an exponential family "
        f"that is linear in statistics of complete rows, and not {model.family!r}: use 'em', "
        "'auto' or 'mini-batch-em'"
    )


class Shared(NamedTuple):
    """The components of rows (n, C), log densities of rows, and responsibilities (n, C)."""

    numbers: Numbers
    log_density: Array
    responsibilities: Array


class FewComponents:
    """The E-step under fixed parameters: s = sum over rows and over k in K_i of r_ik t(x_i)."""

    def __init__(self, backend: Backend, params: Params, few: Few) -> None:
        self.few, self.k, self.tile = few, backend.model.k, backend.tile
        self.map = required(backend, PartMapper).map
        form = required(backend, CandidateKernel).candidates(params)
        if form is None:
            raise InvalidInputError(f"{backend.model!r} has no densities of single components")
        self.form: Candidates = form
        self.kept = min(few.candidates, self.k)

    def fold(
        self, rows: Rows, sums: Array, start: Numbers, uniforms: Array | None = None
    ) -> tuple[Array, Numbers]:
        """Add rows to the sums, and return their components, the best first.

        `start` holds the components that a row had before, -1 if it had none. `uniforms` (n, R) in
        [0, 1) say which R others are tried at random.
        """
        sums, found = sums.copy(), np.empty((len(rows), self.kept), dtype=np.int32)
        table = sums[1:].reshape(self.k, -1)
        together = len(rows) if self.form.sequential else self.tile
        for cut in stretches(len(rows), max(together, 1)):
            some = rows.cut(cut.start, cut.stop)
            drawn = None if uniforms is None else uniforms[cut]
            values, weights = self.form.values(some.x), some.weights()
            shared = self._shared(values, start[cut], drawn)
            found[cut] = shared.numbers
            log_density = shared.log_density + self.form.log_base_measure(some.x)
            # one after the other, so that the sum does not depend on the blocks
            sums[0] = np.cumsum(np.append(sums[0], weights * log_density))[-1]
            self._add(values, shared.numbers, shared.responsibilities * weights[:, None], table)
        return sums, found

    def _shared(
        self, values: NDArray[np.floating], start: Numbers, uniforms: Array | None
    ) -> Shared:
        """The components of every row, searched on all threads."""
        n, lists = len(values), self.lists()
        found = Shared(
            np.empty((n, self.kept), dtype=np.int32), np.empty(n), np.empty((n, self.kept))
        )
        order = np.arange(n)
        if self.form.nbytes > CACHE:  # rows with the same components come together
            order = np.argsort(start[:, 0], kind="stable")

        def work(part: slice) -> None:
            rows = order[part] if self.form.nbytes > CACHE else part
            tried = self._tried(start[rows], None if uniforms is None else uniforms[rows])
            numbers, joint = self.form.search(values[rows], tried, lists, self.kept, STEPS)
            found.numbers[rows] = numbers
            found.log_density[rows], found.responsibilities[rows] = _softmax(joint)

        for _ in self.map(work, _parts(n)):
            pass
        return found

    def _tried(self, start: Numbers, uniforms: Array | None) -> Numbers:
        """The components at which the search of every row begins.

        Those of the row, and random neighbours of random neighbours of these, or any component: as
        often as any one of the row's own is taken.
        """
        if self.few.all_of(self.k):
            everyone = np.arange(self.k, dtype=np.int32)
            return np.ascontiguousarray(np.broadcast_to(everyone, (len(start), self.k)))
        if uniforms is None:
            return start
        neighbours, (_, count) = self.lists().neighbours, start.shape
        width = neighbours.shape[1]
        scaled = uniforms * (count + 1)
        which = scaled.astype(np.int32)
        rest = scaled - which
        first, second = np.divmod((rest * width**2).astype(np.int32), np.int32(width))
        own = np.take_along_axis(start, np.minimum(which, count - 1), axis=1)
        drawn = neighbours[neighbours[own, first], second]
        anywhere = (rest * self.k).astype(np.int32)
        drawn = np.where((which == count) | (own < 0), anywhere, drawn)
        return np.hstack([start, drawn])

    def _search(self, start: Numbers, lists: ComponentLists, kept: int) -> Numbers:
        """The best components for the mean of every component, searched on all threads."""
        centres, search = self.form.centres, self.form.search
        found = self.map(
            lambda part: search(centres[part], start[part], lists, kept, STEPS)[0], _parts(self.k)
        )
        return np.concatenate(list(found))

    def _add(
        self,
        values: NDArray[np.floating],
        numbers: Numbers,
        responsibilities: Array,
        table: Array,
    ) -> None:
        """Add rows to the sums of their components; threads share out the components."""
        n, kept = numbers.shape
        ends = np.arange(0, n * kept + 1, kept)
        known = np.maximum(numbers, 0).ravel()  # those that are none have no responsibility
        by_row = csr_array((responsibilities.ravel(), known, ends), shape=(n, self.k))
        by_row.eliminate_zeros()
        by_component = by_row.tocsc()
        wanted = np.linspace(0, by_component.nnz, PARTS + 1)[1:-1]
        inner = np.searchsorted(by_component.indptr, wanted)
        bounds = np.unique([0, *inner.clip(0, self.k), self.k])
        add = self.form.add
        for _ in self.map(
            lambda cut: add(values, by_component, table, int(cut[0]), int(cut[1])),
            list(pairwise(bounds)),
        ):
            pass

    def lists(self) -> ComponentLists:
        """The lists of the components under these parameters."""
        known, width = self.form.lists, self.few.neighbours
        if known is not None and known.neighbours.shape[1] == width:
            return known
        self.form.lists = found = self._new_lists(width)
        return found

    def _new_lists(self, width: int) -> ComponentLists:
        """Search the best head, and then the best other components, for the mean of each."""
        k, everyone = self.k, np.arange(self.k, dtype=np.int32)
        none = np.full((k, width), -1, dtype=np.int32)
        if self.few.all_of(k):
            return ComponentLists(everyone[:1], np.array([0, k], np.int32), everyone, none)
        count = isqrt(k - 1) + 1
        heads = (everyone[:count].astype(np.int64) * k // count).astype(np.int32)
        lists = ComponentLists(heads, np.zeros(count + 1, np.int32), everyone[:0], none)
        start = np.ascontiguousarray(np.broadcast_to(heads, (k, count)))
        head = np.searchsorted(heads, self._search(start, lists, 1)[:, 0])
        members = np.argsort(head, kind="stable").astype(np.int32)
        sizes = np.bincount(head, minlength=count)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        lists = ComponentLists(heads, offsets, members, none)
        start = np.full((k, 1), -1, dtype=np.int32)
        for _ in range(2):  # from the heads, and then from the neighbours that these gave
            start = self._search(start, lists, width + 1)
            lists = ComponentLists(heads, offsets, members, _others(start, everyone, width))
        return lists


def _parts(n: int) -> list[slice]:
    """Divide n rows into parts for threads."""
    return list(stretches(n, max(LEAST_PART, -(-n // PARTS))))


def _others(found: Numbers, own: Numbers, width: int) -> Numbers:
    """The first `width` components of each row that are not its own."""
    order = np.argsort(found == own[:, None], axis=1, kind="stable")[:, :width]
    return np.take_along_axis(found, order, axis=1)


def _softmax(joint: Array) -> tuple[Array, Array]:
    """log of the sum of joint densities (n, C), the best first, and each one's part of it.

    A row that no component explains is shared by all that it has.
    """
    best = joint[:, :1]
    odds = np.where(best > LEAST, np.exp(joint - np.maximum(best, LEAST)), joint >= LEAST)
    total = odds.sum(axis=1, keepdims=True)
    parts = odds / np.maximum(total, 1.0)
    logs = np.where(best > LEAST, np.log(np.maximum(total, 1.0)), 0.0)
    return (best + logs)[:, 0], np.where(parts < NEGLIGIBLE, 0.0, parts)
