"""The E-step of rows of which some have a known label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend import Model
from mixfold.core.components import take_components
from mixfold.core.rows import Array, Rows
from mixfold.core.value import replace
from mixfold.families.labelled_rows import LabelledRows, without_labels
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.labelled import without_label_column
from mixfold.models.mixture_model import MixtureModel, MixtureParams


class Part(NamedTuple):
    """The components of a label, their kernel and parameters, and the logarithm of their weight."""

    components: NDArray[np.intp]
    kernel: Any
    prepared: Any
    log_weight: float


class LabelledArguments(NamedTuple):
    """Parameters, and what each label makes of them; the last is of rows without a label."""

    params: MixtureParams
    parts: list[Part]


class LabelledRowsKernel(ReferenceKernel):
    """Rows are divided by their labels.

    Those of a label go through the kernel of a mixture of its components alone, those without
    through the kernel of all components; the sums are added.
    """

    def __init__(self, model: MixtureModel, kernel_for: Callable[[MixtureModel], Any]) -> None:
        super().__init__(model)
        assert isinstance(model.family, LabelledRows)
        self._family = model.family
        everyone = np.arange(model.k)
        sets = [*map(np.flatnonzero, model.family.allowed), everyone]
        plain = without_label_column(model)
        self._parts = [(one, kernel_for(replace(plain, k=len(one)))) for one in sets]

    @staticmethod
    def supports(model: Model) -> TypeGuard[MixtureModel]:
        """Whether the kernel serves a model."""
        return isinstance(model, MixtureModel) and isinstance(model.family, LabelledRows)

    def prepare(self, params: MixtureParams) -> LabelledArguments:
        """Convert parameters for the other methods, once for many blocks."""
        found = []
        for components, kernel in self._parts:
            some = take_components(params, components, self.model.k)
            weight = float(some.weights.sum())
            some = replace(some, weights=some.weights / weight)
            found.append(Part(components, kernel, kernel.prepare(some), float(np.log(weight))))
        return LabelledArguments(params, found)

    def expect(self, prepared: LabelledArguments, rows: Rows) -> Array:
        """The sums of one block of rows."""
        total = np.zeros(self.model.n_sums)
        table = total[1:].reshape(self.model.k, -1)
        for code, members in self._family.groups(rows.x):
            some, part = without_labels(_where(rows, members)), prepared.parts[code]
            sums = part.kernel.expect(part.prepared, some)
            total[0] += sums[0] + some.total_weight() * part.log_weight
            table[part.components] += sums[1:].reshape(len(part.components), -1)
        return total

    def posterior(
        self, prepared: LabelledArguments, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its responsibilities."""
        log_density, found = np.empty(len(x)), np.zeros((len(x), self.model.k))
        for code, members in self._family.groups(x):
            part = prepared.parts[code]
            own, inside = part.kernel.posterior(part.prepared, x[members, :-1], responsibilities)
            log_density[members] = own + part.log_weight
            if inside is not None:
                found[np.ix_(members, part.components)] = inside
        return log_density, found if responsibilities else None

    def moments(self, prepared: LabelledArguments, rows: Rows, responsibilities: Array) -> Array:
        """The sums of a block under given responsibilities, of any sign, without likelihood."""
        part = prepared.parts[-1]
        found: Array = part.kernel.moments(part.prepared, without_labels(rows), responsibilities)
        return found

    def log_joint(self, prepared: LabelledArguments, x: Array) -> Array:
        """log w_k p(x | k), (n, K)."""
        return super().log_joint(prepared.params, x)


def _where(rows: Rows, members: NDArray[np.bool_]) -> Rows:
    """The selected rows, without a copy if they are all."""
    return rows if members.all() else rows.where(members)
