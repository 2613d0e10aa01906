"""The E-step of families in which missing cells depend on the observed ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend import Model
from mixfold.core.backend_capabilities import RowUpdater
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Statistics
from mixfold.core.value import replace
from mixfold.families.patterned_rows import PatternedRows, Regressions
from mixfold.kernels.factor import FactorKernel
from mixfold.kernels.native import NativeKernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

Complete = FactorKernel | NativeKernel | ReferenceKernel
COMPLETE: tuple[type[Complete], ...] = (
    FactorKernel,
    NativeKernel,
    ReferenceKernel,
)  # fastest first


class BothArguments(NamedTuple):
    """Parameters, those of the kernel of complete rows, and what is known of other rows."""

    params: MixtureParams
    complete: Any
    regressions: Regressions[Any]


class PatternedRowsKernel(ReferenceKernel):
    """Complete rows of a block have the kernel of their family, and the others are the family's.

    Sums of both are added. The regressions of patterns are computed once for all blocks.
    """

    def __init__(self, model: MixtureModel) -> None:
        super().__init__(model)
        assert isinstance(model.family, PatternedRows)
        self._family: PatternedRows[Any] = model.family
        complete = replace(model, family=model.family.complete)
        self._complete: Complete = next(
            kernel(complete) for kernel in COMPLETE if kernel.supports(complete)
        )

    @staticmethod
    def supports(model: Model) -> bool:
        """Whether the kernel serves a model."""
        return isinstance(model, MixtureModel) and isinstance(model.family, PatternedRows)

    def prepare(self, params: MixtureParams) -> BothArguments:
        """Convert parameters for the other methods, once for many blocks."""
        known = self._family.regressions(params.components)
        return BothArguments(params, self._complete.prepare(params), known)

    def expect(self, prepared: BothArguments, rows: Rows) -> Array:
        """The sums of one block of rows."""
        there = _is_complete(rows.x)
        if there.all():
            return self._complete.expect(prepared.complete, rows)
        found = super().expect(prepared, rows.where(~there))
        return found + self._complete.expect(prepared.complete, rows.where(there))

    def posterior(
        self, prepared: BothArguments, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its responsibilities."""
        there = _is_complete(x)
        if there.all():
            return self._complete.posterior(prepared.complete, x, responsibilities)
        log_density, found = np.empty(len(x)), np.empty((len(x), self.model.k))
        some = self._complete.posterior(prepared.complete, x[there], responsibilities)
        others = super().posterior(prepared, x[~there], responsibilities)
        for chosen, (densities, own) in ((there, some), (~there, others)):
            log_density[chosen] = densities
            if own is not None:
                found[chosen] = own
        return log_density, found if responsibilities else None

    def moments(self, prepared: BothArguments, rows: Rows, responsibilities: Array) -> Array:
        """The sums of a block under given responsibilities, of any sign, without likelihood."""
        there = _is_complete(rows.x)
        given = np.asarray(responsibilities, dtype=np.float64)
        found = self._complete.moments(prepared.complete, rows.where(there), given[there])
        if there.all():
            return found
        others = rows.where(~there)
        x, weighted = others.x.astype(np.float64), given[~there] * others.weights()[:, None]
        table = self._family.sums(prepared.params.components, x, weighted, prepared.regressions)
        found[1:] += table.ravel()
        return found

    def complete_row_updater(
        self, statistics: Statistics, params: MixtureParams
    ) -> RowUpdater | None:
        """The row updater of the kernel of complete rows, if it has one."""
        kernel = self._complete
        if not isinstance(kernel, NativeKernel):
            return None
        return kernel.row_updater(statistics, params)

    def log_joint(self, prepared: BothArguments, x: Array) -> Array:
        """log w_k p(x | k), (n, K)."""
        params, x = prepared.params, x.astype(np.float64, copy=False)
        densities = self._family.log_density(params.components, x, prepared.regressions)
        return densities + np.log(params.weights)


def _is_complete(x: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows miss no cell."""
    return np.asarray(~np.isnan(x).any(axis=1))
