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
NEAREST_HEADS = 8  # whose members are tried for rows without components
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
    complete = model.family.for_complete_rows()
    if has_candidates(complete):
        return (
            f"learner is {type(learner).__name__}, which needs complete rows, and here "
            f"missing cells are integrated out of {complete!r}: fill them or leave out their rows, "
            "or use 'em', 'auto' or 'mini-batch-em'"
        )
    return (
        f"learner is {type(learner).__name__}, which needs Gaussians, or an exponential family "
        f"that is linear in statistics of complete rows, and not {complete!r}: use 'em', 'auto' "
        "or 'mini-batch-em'"
    )


class Shared(NamedTuple):
    """The components of rows (n, C), log densities of rows, and responsibilities (n, C)."""

    numbers: Numbers
    log_density: Array
    responsibilities: Array


class Index(NamedTuple):
    """Centres of lists, their heads, and the lists of components that are near to each of them.

    A row without components begins at the members of the nearest heads. There are about sqrt(K)
    heads, each with about sqrt(K) members.
    """

    heads: Candidates
    lists: ComponentLists
    n_heads: int

    def nearest(self, values: NDArray[np.floating]) -> Numbers:
        """The heads nearest to every row."""
        n, kept = len(values), min(NEAREST_HEADS, self.n_heads)
        start = np.broadcast_to(np.arange(self.n_heads, dtype=np.int32), (n, self.n_heads))
        nothing = np.empty((n, 0), dtype=np.int32)
        lists = ComponentLists(
            np.zeros(1, np.int32), nothing.ravel(), np.empty((self.n_heads, 0), dtype=np.int32)
        )
        start = np.ascontiguousarray(start)
        return self.heads.search(values, start, nothing, lists, kept, 0)[0]


class FewComponents:
    """The E-step under fixed parameters: s = sum over rows and over k in K_i of r_ik t(x_i)."""

    def __init__(self, backend: Backend, params: Params, few: Few) -> None:
        self.few, self.k, self.tile = few, backend.model.k, backend.tile
        mapper = backend.capability(PartMapper)
        if mapper is None:
            raise InvalidInputError(
                "the components of rows are searched on the CPU, and not by "
                f"{type(backend).__name__}: use engine='cpu', or learner 'em' or 'mini-batch-em'"
            )
        self.map = mapper.map
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
        n, lists = len(values), self.index.lists
        found = Shared(
            np.empty((n, self.kept), dtype=np.int32), np.empty(n), np.empty((n, self.kept))
        )
        order = np.arange(n)
        if self.form.nbytes > CACHE:  # rows with the same components come together
            order = np.argsort(start[:, 0], kind="stable")

        def work(part: slice) -> None:
            rows = order[part] if self.form.nbytes > CACHE else part
            some, known = values[rows], start[rows]
            tried = self._tried(known, None if uniforms is None else uniforms[rows])
            listed = self._listed(some, known)
            numbers, joint = self.form.search(some, tried, listed, lists, self.kept, STEPS)
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
        neighbours, (_, count) = self.index.lists.neighbours, start.shape
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

    def _listed(self, values: NDArray[np.floating], start: Numbers) -> Numbers:
        """The lists at which rows without components begin, -1 for the others."""
        if self.few.all_of(self.k) or not (start[:, 0] < 0).any():
            return start[:, :0]
        listed = np.full((len(start), min(NEAREST_HEADS, self.index.n_heads)), -1, dtype=np.int32)
        cold = start[:, 0] < 0
        listed[cold] = self.index.nearest(values[cold])
        return listed

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

    @property
    def index(self) -> Index:
        """The lists of the components under these parameters."""
        width = self.few.neighbours
        if self.form.known is None or self.form.known.lists.neighbours.shape[1] != width:
            self.form.known = self._new_index(width)
        found: Index = self.form.known
        return found

    def _new_index(self, width: int) -> Index:
        """Search the nearest heads, and then the best other components, for the mean of each."""
        k, centres = self.k, self.form.centres
        everyone, none = np.arange(k, dtype=np.int32), np.full((k, width), -1, dtype=np.int32)
        if self.few.all_of(k):
            lists = ComponentLists(np.array([0, k], np.int32), everyone, none)
            return Index(self.form, lists, 1)
        count = isqrt(k - 1) + 1
        chosen = everyone[:count].astype(np.int64) * k // count
        spread = centres.std(axis=0)
        scale = np.divide(1.0, spread, out=np.ones_like(spread), where=spread > 0.0)
        heads = self.form.distances(np.ascontiguousarray(centres[chosen]), scale)
        index = Index(heads, ComponentLists(np.zeros(1, np.int32), everyone[:0], none), count)
        nearest = np.concatenate(
            list(self.map(lambda part: index.nearest(centres[part]), _parts(k)))
        )
        head = _allotted(nearest.astype(np.intp), count)
        sizes = np.bincount(head, minlength=count)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        members = np.argsort(head, kind="stable").astype(np.int32)
        start, listed = none[:, :1], nearest
        for _ in range(2):  # from the heads, and then from the neighbours that these gave
            lists = ComponentLists(offsets, members, none)
            found = self._best_of(centres, start, listed, lists, width + 1)
            none = _others(found, everyone, width)
            start, listed = found, nearest[:, :0]
        return Index(heads, ComponentLists(offsets, members, none), count)

    def _best_of(
        self, values: Array, start: Numbers, listed: Numbers, lists: ComponentLists, kept: int
    ) -> Numbers:
        """The best components of every row, searched on all threads."""
        search = self.form.search
        found = self.map(
            lambda part: search(values[part], start[part], listed[part], lists, kept, STEPS)[0],
            _parts(len(values)),
        )
        return np.concatenate(list(found))


def _parts(n: int) -> list[slice]:
    """Divide n rows into parts for threads."""
    return list(stretches(n, max(LEAST_PART, -(-n // PARTS))))


def _allotted(wanted: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """The head of each component: the first of those that it wants, (K, m), that has room.

    No head has more than twice its share, since a wide one would be wanted by most.
    """
    k, room = len(wanted), -(-2 * len(wanted) // count)
    head, left = np.full(k, -1), np.full(count, room)
    for choice in [*wanted.T, None]:
        waiting = np.flatnonzero(head < 0)
        if choice is None:  # whatever has room
            head[waiting] = np.repeat(np.arange(count), left)[: len(waiting)]
            break
        waiting = waiting[np.argsort(choice[waiting], kind="stable")]
        asked = choice[waiting]
        place = np.arange(len(asked)) - np.searchsorted(asked, asked)
        accepted = place < left[asked]
        head[waiting[accepted]] = asked[accepted]
        left -= np.bincount(asked[accepted], minlength=count)
    return head


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
