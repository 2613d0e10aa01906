"""The compiled search for the components of rows: the same as in `candidates.py`, faster."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend_capabilities import Candidates, ComponentLists
from mixfold.core.rows import Array
from mixfold.kernels.candidates import (
    DiagonalPairs,
    Distances,
    LinearPairs,
    Pairs,
    TriangularPairs,
    candidates_of,
)
from mixfold.models.mixture_model import MixtureModel, MixtureParams

Form = Literal["diagonal", "triangular", "linear"]
Numbers = NDArray[np.int32]

BLOCK = 8  # as `candidate_block` in native/candidates.hpp


def compiled(model: MixtureModel, params: MixtureParams, native: Any) -> Candidates | None:
    """The mixture in compiled form, if there is one, or in NumPy."""
    pairs = candidates_of(model, params)
    if isinstance(pairs, TriangularPairs):
        numbers = np.hstack([_blocks(pairs.form.means), _triangles(pairs.form.whiten)])
        return NativeCandidates(pairs, native, "triangular", numbers, pairs.log_scale)
    if isinstance(pairs, DiagonalPairs):
        numbers = np.hstack([_blocks(pairs.form.means), _blocks(pairs.form.whiten)])
        return NativeCandidates(pairs, native, "diagonal", numbers, pairs.log_scale)
    if isinstance(pairs, LinearPairs):
        return NativeCandidates(pairs, native, "linear", _blocks(pairs.eta), pairs.offset)
    return pairs


class NativeCandidates:
    """Parameters in the order in which the compiled code reads them."""

    def __init__(
        self, pairs: Pairs, native: Any, form: Form, packed: Array, log_scale: Array
    ) -> None:
        self.known: Any = None
        self.sequential = form != "linear"  # whose values are computed in NumPy
        self.centres, self.nbytes = pairs.centres, packed.nbytes
        self.values, self.log_base_measure = pairs.values, pairs.log_base_measure
        self._native, self._form = native, (form, packed, log_scale)

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
        numbers, joint = (
            np.empty((len(values), kept), dtype=np.int32),
            np.empty((len(values), kept)),
        )
        self._native.search_candidates(
            values, *self._form, *lists, start, listed, steps, numbers, joint
        )
        return numbers, joint

    def distances(self, centres: Array, scale: Array) -> Candidates:
        """Centres in the coordinates of `values`, with minus half the squared scaled distance."""
        wide = np.broadcast_to(scale, centres.shape)
        packed = np.hstack([_blocks(centres), _blocks(wide)])
        pairs = Distances(centres, scale)
        return NativeCandidates(pairs, self._native, "diagonal", packed, np.zeros(len(centres)))

    def add(
        self,
        values: NDArray[np.floating],
        by_component: Any,
        table: Array,
        first: int,
        last: int,
    ) -> None:
        """Add rows to the sums of components first .. last - 1, row after row, in place."""
        rows = by_component.indptr, by_component.indices, by_component.data
        self._native.add_candidates(values, *self._form, *rows, first, last, table)


def _blocks(vectors: Array) -> Array:
    """Vectors (K, d), filled up with zeros to whole blocks."""
    return np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % BLOCK)))


def _triangles(whiten: Array) -> Array:
    """Lower triangular matrices (K, d, d) in blocks of rows, column after column."""
    k, d, _ = whiten.shape
    parts = []
    for first in range(0, d, BLOCK):
        rows = whiten[:, first : first + BLOCK, : first + BLOCK]
        rows = np.pad(rows, ((0, 0), (0, BLOCK - rows.shape[1]), (0, 0)))
        parts.append(rows.swapaxes(1, 2).reshape(k, -1))
    return np.hstack(parts)
