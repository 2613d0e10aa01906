"""The E-step of products of families, and of columns with missing cells."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend import Model
from mixfold.core.rows import Array, Rows
from mixfold.kernels._factors import Division, Layout, Other, can_divide
from mixfold.kernels.native import is_compiled
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams


class ProductArguments(NamedTuple):
    """Parameters, the groups that the families compute, and arguments of the compiled functions."""

    params: MixtureParams
    others: list[Other]
    layout: Layout
    arguments: tuple[Any, ...]


class Values(NamedTuple):
    """A block as the compiled functions take it: values, other log densities, base measure."""

    values: NDArray[Any]
    more: Array | None
    log_base: Array | None


class ProductKernel(ReferenceKernel):
    """One pass adds the log densities of all factors, takes the softmax and sums all statistics.

    An exponential family is a single factor, and independent columns are a factor each. Groups
    of factors whose densities have no form that is compiled, such as Gaussians with covariances,
    are computed by their families: before the pass their densities, after it their sums.
    """

    def __init__(self, model: MixtureModel) -> None:
        super().__init__(model)
        self._native = import_module("mixfold._native")
        self._division = Division(model)

    @staticmethod
    def supports(model: Model) -> bool:
        """Whether the kernel serves a model on this machine."""
        return isinstance(model, MixtureModel) and can_divide(model.family) and is_compiled()

    def prepare(self, params: MixtureParams) -> ProductArguments:
        """Convert parameters for the other methods, once for many blocks."""
        layout, parameters, others = self._division.divide(params.components)
        arguments = (np.log(params.weights), layout.descriptions, parameters, layout.n_values)
        return ProductArguments(params, others, layout, arguments)

    def expect(self, prepared: ProductArguments, rows: Rows) -> Array:
        """The sums of one block of rows."""
        values, more, log_base = self._values(prepared, rows.x)
        wanted = bool(prepared.others)
        sums, responsibilities = self._native.expect_product(
            values, rows.weight, more, *prepared.arguments, wanted
        )
        result = self._spread(prepared, rows, sums, responsibilities)
        if log_base is not None:
            result[0] += rows.weights() @ log_base
        return result

    def posterior(
        self, prepared: ProductArguments, x: Array, responsibilities: bool = True
    ) -> tuple[Array, Array | None]:
        """log p(x) of every row and, if wanted, its responsibilities."""
        values, more, log_base = self._values(prepared, x)
        log_density, found = self._native.posterior_product(
            values, more, *prepared.arguments, responsibilities
        )
        return log_density if log_base is None else log_density + log_base, found

    def moments(self, prepared: ProductArguments, rows: Rows, responsibilities: Array) -> Array:
        """The sums of a block under given responsibilities, of any sign, without likelihood."""
        values = self._values(prepared, rows.x, densities=False).values
        given = np.asarray(responsibilities, dtype=np.float64)
        sums = self._native.moments_product(values, rows.weight, given, *prepared.arguments)
        return self._spread(prepared, rows, sums, given * rows.weights()[:, None])

    def log_joint(self, prepared: ProductArguments, x: Array) -> Array:
        """log w_k p(x | k), (n, K)."""
        return super().log_joint(prepared.params, x)

    def _values(
        self, prepared: ProductArguments, x: NDArray[Any], densities: bool = True
    ) -> Values:
        """The block as the compiled functions take it; without `densities`, its values alone."""
        layout, more = prepared.layout, None
        if prepared.others and densities:
            more = np.asarray(sum(one.log_density(x) for one in prepared.others))
        if layout.plain:
            return Values(x, more, None)
        values, log_base = np.empty((len(x), layout.n_values), order="F"), np.zeros(len(x))
        values[:, layout.to] = x.take(layout.copied, axis=1)
        for one in layout.computed:
            one.add_values(x, values, log_base)
        return Values(values, more, log_base)

    def _spread(
        self,
        prepared: ProductArguments,
        rows: Rows,
        sums: Array,
        responsibilities: Array | None,
    ) -> Array:
        """The sums of all factors in the order of the table; responsibilities have weights."""
        sources, k = prepared.layout.sources, self.model.k
        if prepared.layout.same:
            return sums
        result = np.empty(1 + k * len(sources))
        result[0] = sums[0]
        table, found = result[1:].reshape(k, -1), sums[1:].reshape(k, -1)
        found.take(sources, axis=1, out=table, mode="clip")  # other modes copy `out`
        for one in prepared.others:
            assert responsibilities is not None
            table[:, one.group.sums] = one.sums(rows.x, responsibilities)
        return result
