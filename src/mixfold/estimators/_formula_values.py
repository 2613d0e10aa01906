"""Evaluation of expressions and polynomials; values in a row depend on that row alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mixfold.core.rows import Array
from mixfold.estimators.formula_nodes import (
    ARITHMETIC,
    FUNCTIONS,
    Expression,
    FormulaCall,
    FormulaColumn,
    FormulaNegative,
    FormulaNumber,
    FormulaOperation,
    FormulaPower,
    FormulaStandardized,
)


def evaluate(node: Expression, column: Callable[[str], Array]) -> Array:
    """The values of an expression, in float64; `column` gives those of a column."""
    match node:
        case FormulaColumn():
            return column(node.name)
        case FormulaNumber():
            return np.asarray(node.number, dtype=np.float64)
        case FormulaNegative():
            return np.negative(evaluate(node.operand, column))
        case FormulaPower():
            return np.asarray(evaluate(node.base, column) ** evaluate(node.exponent, column))
        case FormulaCall() | FormulaStandardized():
            return _called(node, evaluate(node.argument, column))
        case FormulaOperation():
            total = evaluate(node.operands[0], column)
            for operator, operand in zip(node.operators, node.operands[1:], strict=True):
                total = ARITHMETIC[operator](total, evaluate(operand, column))
            return total


def _called(node: FormulaCall | FormulaStandardized, x: Array) -> Array:
    if isinstance(node, FormulaCall):
        return FUNCTIONS[node.function](x)
    return (x - node.mean) / node.deviation


def polynomials(x: Array, centers: list[float], scales: list[float]) -> list[Array]:
    """Polynomials p_1, p_2, ... of x, one for every center.

    p_0 is 1 / scales[0], p_-1 is 0, and p_j is
    ((x - centers[j - 1]) p_(j - 1) - scales[j - 1] p_(j - 2)) / scales[j].
    """
    before, last = np.zeros_like(x), np.full_like(x, 1.0 / scales[0])
    found: list[Array] = []
    for center, scale, new_scale in zip(centers, scales[:-1], scales[1:], strict=True):
        before, last = last, ((x - center) * last - scale * before) / new_scale
        found.append(last)
    return found
