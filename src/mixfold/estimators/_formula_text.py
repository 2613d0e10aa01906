"""Nodes of a formula as text: names of columns of a model matrix, and keys of equal factors."""

from __future__ import annotations

import re

from mixfold.estimators.formula_nodes import (
    SUMS,
    Factor,
    FormulaCall,
    FormulaColumn,
    FormulaLevels,
    FormulaNegative,
    FormulaNumber,
    FormulaOperation,
    FormulaPolynomial,
    FormulaPower,
    FormulaStandardized,
)

SUM, PRODUCT, NEGATIVE, POWER, ATOM = range(5)
PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def display_name(factor: Factor) -> str:
    """How a factor is named in a model matrix: like its column if it is one."""
    return factor.name if isinstance(factor, FormulaColumn) else formula_text(factor)


def formula_text(node: Factor, least: int = SUM) -> str:
    """A node as a formula has it, in parentheses if it binds less than `least`."""
    text, binding = _atom(node), ATOM
    if isinstance(node, FormulaNegative):
        text, binding = f"-{formula_text(node.operand, NEGATIVE)}", NEGATIVE
    elif isinstance(node, FormulaPower):
        base, exponent = formula_text(node.base, ATOM), formula_text(node.exponent, POWER)
        text, binding = f"{base} ** {exponent}", POWER
    elif isinstance(node, FormulaOperation):
        binding = SUM if node.operators[0] in SUMS else PRODUCT
        text = _operation(node, binding)
    return text if binding >= least else f"({text})"


def _atom(node: Factor) -> str:
    match node:
        case FormulaColumn():
            return _quoted(node.name)
        case FormulaLevels():
            return f"C({_quoted(node.name)})"
        case FormulaNumber():
            return repr(node.number)
        case FormulaCall() | FormulaStandardized():
            return f"{node.function}({formula_text(node.argument)})"
        case FormulaPolynomial():
            degree = f"degree={node.degree}" if node.named else str(node.degree)
            return f"poly({formula_text(node.argument)}, {degree})"
    return ""


def _operation(node: FormulaOperation, binding: int) -> str:
    parts = [formula_text(node.operands[0], binding)]
    for operator, operand in zip(node.operators, node.operands[1:], strict=True):
        parts += [operator, formula_text(operand, binding + 1)]
    return " ".join(parts)


def _quoted(name: str) -> str:
    return name if PLAIN_NAME.fullmatch(name) else f"`{name}`"
