"""The E-step of products of families, and of columns with missing cells."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.backend import Model
from mixfold.core.rows import Array, Rows
from mixfold.kernels._leaves import Terms, can_divide, leaves_of, positions, terms_of
from mixfold.kernels.native import is_compiled
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams


class ProductArguments(NamedTuple):
    """Parameters, the factors, and the arguments of the compiled functions.

    `positions` are where the compiled sums are in the table of sums, `totals` where it has the
    total responsibility, and `width` is the number of its columns.
    """

    params: MixtureParams
    factors: Terms
    arguments: tuple[Any, ...]
    positions: NDArray[np.intp]
    totals: list[int]
    width: int


class Values(NamedTuple):
    """A block as the compiled functions take it: values, other log densities, base measure."""

    values: NDArray[Any]
    more: Array | None
    log_base: Array | None


class ProductKernel(ReferenceKernel):
    """One pass adds the log densities of all factors, takes the softmax and sums all statistics.

    An exponential family is a single factor, and a categorical one has a factor for each column.
    Factors whose densities have no form that is compiled, such as Gaussians with covariances, are
    computed by their families: before the pass their densities, after it their sums.
    """

    def __init__(self, model: MixtureModel) -> None:
        super().__init__(model)
        self._native = import_module("mixfold._native")

    @staticmethod
    def supports(model: Model) -> bool:
        """Whether the kernel serves a model on this machine."""
        return isinstance(model, MixtureModel) and can_divide(model.family) and is_compiled()

    def prepare(self, params: MixtureParams) -> ProductArguments:
        """Convert parameters for the other methods, once for many blocks."""
        d = self.model.d
        leaves, totals = leaves_of(self.model.family, params.components, d)
        factors = terms_of(leaves)
        rows = [one.description for one in factors.terms]
        parameters = [one.term.parameters for one in factors.terms]
        arguments = (
            np.log(params.weights),
            np.array(rows, dtype=np.int64).reshape(-1, 5),
            np.hstack([np.empty((self.model.k, 0)), *parameters]),
            d if factors.plain else factors.n_values,
        )
        places = np.fromiter(positions(factors.terms), dtype=np.intp)
        width = self.model.family.n_sums(d)
        return ProductArguments(params, factors, arguments, places, totals, width)

    def expect(self, prepared: ProductArguments, rows: Rows) -> Array:
        """The sums of one block of rows."""
        values, more, log_base = self._values(prepared, rows.x)
        wanted = bool(prepared.factors.others)
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
        factors, more = prepared.factors, None
        if factors.others and densities:
            more = np.asarray(sum(one.log_density(x) for one in factors.others))
        if factors.plain:
            return Values(x, more, None)
        values, log_base = np.empty((len(x), factors.n_values), order="F"), np.zeros(len(x))
        for one in factors.terms:
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
        width = prepared.width
        if len(prepared.positions) == width:
            return sums
        k = self.model.k
        result = np.empty(1 + k * width)
        result[0] = sums[0]
        table, found = result[1:].reshape(k, width), sums[1:].reshape(k, -1)
        table[:, prepared.positions] = found
        table[:, prepared.totals] = found[:, :1]
        for one in prepared.factors.others:
            assert responsibilities is not None
            table[:, one.positions] = one.sums(rows.x, responsibilities)
        return result
