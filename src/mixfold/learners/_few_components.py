"""E-steps in which a row belongs to the few components that a search finds for it."""

from __future__ import annotations

from itertools import pairwise
from math import isqrt

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
from mixfold.core.noise import uniforms
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows, stretches
from mixfold.core.value import value
from mixfold.kernels.candidates import LEAST, has_candidates
from mixfold.models.mixture_model import MixtureModel

Numbers = NDArray[np.int32]

NEGLIGIBLE = 1e-30  # responsibilities below change no statistic
COLD_STEPS, WARM_STEPS = 10, 2  # how often the neighbours of a better component are tried
LEAST_PART = 256  # rows
PARTS = 16  # into which rows and components are divided among threads
CACHE = 2**19  # bytes of parameters above which rows with the same components come together


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
        self, rows: Rows, sums: Array, start: Numbers, random: Numbers
    ) -> tuple[Array, Numbers]:
        """Add rows to the sums, and return their components, the best first.

        `start` holds the components that a row had before, -1 if it had none, and `random` others
        that are tried.
        """
        sums, found = sums.copy(), np.empty((len(rows), self.kept), dtype=np.int32)
        table = sums[1:].reshape(self.k, -1)
        for cut in stretches(len(rows), self._together(len(rows))):
            some = rows.cut(cut.start, cut.stop)
            values = self.form.values(some.x)
            found[cut], joint = self._searched(values, start[cut], random[cut])
            log_density, responsibilities = _softmax(joint)
            log_density = log_density + self.form.log_base_measure(some.x)
            weights = some.weights()
            # one after the other, so that the sum does not depend on the blocks
            sums[0] = np.cumsum(np.append(sums[0], weights * log_density))[-1]
            self._add(values, found[cut], responsibilities * weights[:, None], table)
        return sums, found

    def _together(self, n: int) -> int:
        """How many rows are processed at once."""
        return n if self.form.sequential else self.tile

    def _searched(
        self, values: NDArray[np.floating], start: Numbers, random: Numbers
    ) -> tuple[Numbers, Array]:
        """The components of every row, and their joint densities."""
        lists = self.lists()
        if self.few.all_of(self.k):
            start = np.broadcast_to(np.arange(self.k, dtype=np.int32), (len(values), self.k))
            return self._search(values, np.ascontiguousarray(start), lists, self.kept, 0)
        warm = bool(len(start)) and bool((start[:, 0] >= 0).all())
        start = np.hstack([start, random])
        if not warm or self.form.nbytes < CACHE:
            steps = WARM_STEPS if warm else COLD_STEPS
            return self._search(values, start, lists, self.kept, steps)
        order = np.argsort(start[:, 0], kind="stable")
        numbers, joint = self._search(values[order], start[order], lists, self.kept, WARM_STEPS)
        found, their = np.empty_like(numbers), np.empty_like(joint)
        found[order], their[order] = numbers, joint
        return found, their

    def _search(
        self,
        values: NDArray[np.floating],
        start: Numbers,
        lists: ComponentLists,
        kept: int,
        steps: int,
    ) -> tuple[Numbers, Array]:
        """Search on all threads."""
        parts = list(stretches(len(values), max(LEAST_PART, -(-len(values) // PARTS))))
        search = self.form.search
        found = list(
            self.map(lambda cut: search(values[cut], start[cut], lists, kept, steps), parts)
        )
        if not found:
            return np.empty((0, kept), dtype=np.int32), np.empty((0, kept))
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])

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
        centres = self.form.centres
        lists = ComponentLists(heads, np.zeros(count + 1, np.int32), everyone[:0], none)
        start = np.ascontiguousarray(np.broadcast_to(heads, (k, count)))
        head = np.searchsorted(heads, self._search(centres, start, lists, 1, 0)[0][:, 0])
        members = np.argsort(head, kind="stable").astype(np.int32)
        sizes = np.bincount(head, minlength=count)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        lists = ComponentLists(heads, offsets, members, none)
        start, steps = np.full((k, 1), -1, dtype=np.int32), 0
        for _ in range(2):  # from the heads, then from the neighbours that these gave
            start = self._search(centres, start, lists, width + 1, steps)[0]
            lists = ComponentLists(heads, offsets, members, _others(start, everyone, width))
            steps = COLD_STEPS
        return lists


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


def random_components(few: Few, k: int, seed: int, first: int, n: int) -> Numbers:
    """Components to try for rows number first .. first + n - 1, drawn at random."""
    drawn = uniforms(seed, first, n, few.random) if few.random else np.empty((n, 0))
    return (drawn * k).astype(np.int32)
