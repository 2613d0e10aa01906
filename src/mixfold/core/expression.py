"""Computations on rows that are written down, to be done elsewhere, such as by ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capability import Capability
from mixfold.core.params import ParamsT_contra

Operand: TypeAlias = "Expression | NDArray[Any] | float"


class Expression:
    """A value computed from rows of float64 numbers, as an operator and its inputs.

    Operators and attributes are those of ONNX, which are the same for all numbers of rows; arrays
    and numbers are constants. Arithmetic follows NumPy's rules of shapes.

    Examples
    --------
    >>> (2.0 * Expression("X").log()).operator
    'Mul'
    """

    __array_ufunc__ = None  # arrays leave arithmetic with expressions to these

    def __init__(self, operator: str, *inputs: Operand, **attributes: Any) -> None:
        self.operator, self.inputs, self.attributes = operator, inputs, attributes

    # arithmetic

    def __add__(self, other: Operand) -> Expression:
        return Expression("Add", self, other)

    def __radd__(self, other: Operand) -> Expression:
        return Expression("Add", other, self)

    def __sub__(self, other: Operand) -> Expression:
        return Expression("Sub", self, other)

    def __rsub__(self, other: Operand) -> Expression:
        return Expression("Sub", other, self)

    def __mul__(self, other: Operand) -> Expression:
        return Expression("Mul", self, other)

    def __rmul__(self, other: Operand) -> Expression:
        return Expression("Mul", other, self)

    def __truediv__(self, other: Operand) -> Expression:
        return Expression("Div", self, other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return Expression("Div", other, self)

    def __neg__(self) -> Expression:
        return Expression("Neg", self)

    def __matmul__(self, other: Operand) -> Expression:
        return Expression("MatMul", self, other)

    # functions

    def log(self) -> Expression:
        return Expression("Log", self)

    def exp(self) -> Expression:
        return Expression("Exp", self)

    def sqrt(self) -> Expression:
        return Expression("Sqrt", self)

    def abs(self) -> Expression:
        return Expression("Abs", self)

    def sin(self) -> Expression:
        return Expression("Sin", self)

    def square(self) -> Expression:
        return self * self

    def sum(self, axis: int, keepdims: bool = False) -> Expression:
        return Expression("ReduceSum", self, np.array([axis]), keepdims=int(keepdims))

    def max(self, axis: int, keepdims: bool = False) -> Expression:
        return Expression("ReduceMax", self, np.array([axis]), keepdims=int(keepdims))

    # conditions

    def is_missing(self) -> Expression:
        """Where numbers are NaN."""
        return Expression("IsNaN", self)

    def below(self, other: Operand) -> Expression:
        return Expression("Less", self, other)

    def equals(self, other: Operand) -> Expression:
        return Expression("Equal", self, other)

    def choose(self, yes: Operand, no: Operand) -> Expression:
        """`yes` where this condition holds, `no` elsewhere."""
        return Expression("Where", self, yes, no)

    def as_numbers(self) -> Expression:
        """One where this condition holds, zero elsewhere."""
        return self.choose(1.0, 0.0)

    def at_least(self, low: float) -> Expression:
        """Numbers below `low` become `low`; missing cells stay missing."""
        return self.below(low).choose(low, self)

    def at_most(self, high: float) -> Expression:
        """Numbers above `high` become `high`; missing cells stay missing."""
        return Expression("Greater", self, high).choose(high, self)

    # shapes

    def columns(self, chosen: Sequence[int] | NDArray[Any]) -> Expression:
        """Some of the columns, in this order."""
        return self.part(1, np.asarray(chosen))

    def part(self, axis: int, chosen: int | NDArray[Any]) -> Expression:
        """Some of the entries along an axis, which stays."""
        entries = np.atleast_1d(np.asarray(chosen, dtype=np.int64))
        return Expression("Gather", self, entries, axis=axis)

    def shaped(self, *sizes: int) -> Expression:
        """The same numbers in another shape; one size can be -1."""
        return Expression("Reshape", self, np.array(sizes, dtype=np.int64))

    def with_axis(self, axis: int) -> Expression:
        """The same numbers with a further axis of length one."""
        return Expression("Unsqueeze", self, np.array([axis]))

    def transposed(self, *order: int) -> Expression:
        return Expression("Transpose", self, perm=list(order))

    def converted(self, dtype: type) -> Expression:
        """The same numbers in another type."""
        return Expression("Cast", self, to=np.dtype(dtype))


def side_by_side(*parts: Expression) -> Expression:
    """The columns of all parts."""
    return parts[0] if len(parts) == 1 else Expression("Concat", *parts, axis=1)


def total(*parts: Expression) -> Expression:
    """The sum of all parts."""
    return parts[0] if len(parts) == 1 else Expression("Sum", *parts)


@runtime_checkable
class LinearExpressions(Capability, Protocol):
    """Exponential families whose statistics and base measure can be written as expressions."""

    def statistics_expression(self, x: Expression) -> Expression:
        """t(x), (n, p), of rows (n, d)."""

    def base_measure_expression(self, x: Expression) -> Expression:
        """log h(x), (n, d) if the columns are independent, one for each, and else (n, 1)."""


@runtime_checkable
class DensityExpression(Capability, Protocol[ParamsT_contra]):
    """Families whose density is written as an expression in another way than the linear one."""

    def density_expression(
        self, params: ParamsT_contra, x: Expression, marginalize: bool
    ) -> Expression:
        """log p(x|k), (n, K), of rows (n, d).

        With `marginalize`, missing cells are integrated out if that is possible. In all other cases
        the result of a row with a missing cell is NaN.
        """


def observed(
    x: Expression, values: Expression, columns: NDArray[np.intp] | None = None
) -> Expression:
    """Zero in place of values where a cell of x is missing; `columns` are those of the values."""
    missing = x.is_missing()
    return (missing if columns is None else missing.columns(columns)).choose(0.0, values)
