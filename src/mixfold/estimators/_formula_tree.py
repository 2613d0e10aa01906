"""Formulas as trees of values: all that a formula may say, however it was read.

A tree comes from the parser or from a model file. Both are checked by the same rules, here, and
evaluation knows no others: columns, numbers, arithmetic and a fixed list of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value

MOST_CHARACTERS = 100_000
MOST_NODES = 20_000
MOST_TERMS = 5_000
MOST_FACTORS = 6  # in one interaction
DEEPEST = 48

SUMS, PRODUCTS = ("+", "-"), ("*", "/", "//", "%")
ARITHMETIC: Mapping[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.mod,
}
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "I": np.asarray,
    "abs": np.abs,
    "exp": np.exp,
    "exp10": lambda x: 10.0**x,
    "exp2": np.exp2,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
}
KNOWN = (
    f"arithmetic and C, {', '.join(FUNCTIONS)} of columns are known; make anything else a "
    "column of the data"
)


@value
class FormulaColumn:
    """A column of the data, by its name."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)


@value
class FormulaLevels:
    """C(name): a column whose values are levels, even if they are numbers."""

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)


@value
class FormulaNumber:
    """A number, which is not negative: signs are nodes of their own."""

    number: int | float

    def __post_init__(self) -> None:
        whole = type(self.number) is int and 0 <= self.number <= 2**53
        if not whole and not (type(self.number) is float and 0.0 <= self.number < np.inf):
            raise InvalidInputError(
                f"a formula has the number {self.number!r}: numbers must be finite, and whole "
                "numbers must be at most 2**53"
            )


@value
class FormulaNegative:
    """-operand."""

    operand: Expression

    def __post_init__(self) -> None:
        check_expression(self.operand)


@value
class FormulaPower:
    """base ** exponent."""

    base: Expression
    exponent: Expression

    def __post_init__(self) -> None:
        check_expression(self.base)
        check_expression(self.exponent)


@value
class FormulaOperation:
    """Sums and differences, or else products and quotients, from left to right."""

    operators: list[str]
    operands: list[Expression]

    def __post_init__(self) -> None:
        _check_list("the operators of a formula", self.operators)
        _check_list("the operands of a formula", self.operands)
        known = all(isinstance(operator, str) for operator in self.operators)
        alike = known and any(set(self.operators) <= {*kind} for kind in (SUMS, PRODUCTS))
        if not self.operators or not alike:
            raise InvalidInputError(
                f"a formula has the operators {self.operators!r}: they must all be of {SUMS}, or "
                f"all of {PRODUCTS}"
            )
        if len(self.operands) != len(self.operators) + 1:
            raise InvalidInputError(
                f"a formula has {len(self.operands)} operands of {len(self.operators)} operators"
            )
        for operand in self.operands:
            check_expression(operand)


@value
class FormulaCall:
    """A known function of one argument."""

    function: str
    argument: Expression

    def __post_init__(self) -> None:
        if not isinstance(self.function, str) or self.function not in FUNCTIONS:
            raise InvalidInputError(f"a formula has the function {self.function!r}: {KNOWN}")
        check_expression(self.argument)


Expression = (
    FormulaColumn | FormulaNumber | FormulaNegative | FormulaPower | FormulaOperation | FormulaCall
)
Factor = Expression | FormulaLevels


def check_name(name: object) -> None:
    """Refuse what cannot be the name of a column in a formula."""
    if not isinstance(name, str) or not name or "`" in name or len(name) > MOST_CHARACTERS:
        shown = shortened(name) if isinstance(name, str) else repr(type(name).__name__)
        raise InvalidInputError(
            f"a formula has a column named {shown}: text without backticks is needed"
        )


def check_expression(thing: object) -> None:
    """Refuse what is no node of an expression; its own parts have been checked before."""
    if not isinstance(thing, Expression):
        raise InvalidInputError(f"a formula has a {type(thing).__name__}: {KNOWN}")


def _check_list(what: str, thing: object) -> None:
    if not isinstance(thing, list):
        raise InvalidInputError(f"{what} are a {type(thing).__name__}: a list is needed")


def check_size(factors: list[Factor]) -> None:
    """Refuse trees that are too large or too deep to be walked without worry."""
    waiting: list[tuple[Factor, int]] = [(factor, 1) for factor in factors]
    nodes = 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if nodes + len(waiting) > MOST_NODES:
            raise InvalidInputError(
                f"a formula has more than {MOST_NODES} names, numbers and operators: make the "
                "columns it needs part of the data"
            )
        if depth > DEEPEST:
            raise InvalidInputError(
                f"a formula is nested more than {DEEPEST} deep: make what is inside a column of "
                "the data"
            )
        waiting += [(child, depth + 1) for child in children(node)]


def children(node: Factor) -> list[Expression]:
    """The nodes directly below a node."""
    match node:
        case FormulaNegative():
            return [node.operand]
        case FormulaPower():
            return [node.base, node.exponent]
        case FormulaOperation():
            return node.operands
        case FormulaCall():
            return [node.argument]
    return []


def columns_of(factor: Factor) -> Iterator[str]:
    """Names of the columns in a factor."""
    waiting: list[Factor] = [factor]
    while waiting:
        node = waiting.pop()
        if isinstance(node, FormulaColumn | FormulaLevels):
            yield node.name
        waiting += children(node)


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
        case FormulaCall():
            return FUNCTIONS[node.function](evaluate(node.argument, column))
        case FormulaOperation():
            total = evaluate(node.operands[0], column)
            for operator, operand in zip(node.operators, node.operands[1:], strict=True):
                total = ARITHMETIC[operator](total, evaluate(operand, column))
            return total


def shortened(text: str, most: int = 200) -> str:
    """A text in quotes for an error, cut if it is long."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}..."


@value
class FormulaTree:
    """The response, fixed and random effects of formulas as sums of terms.

    A term is the product of some of `factors`, given by their numbers; that of none is the
    intercept.
    """

    factors: list[Factor]
    response: list[int]
    fixed: list[list[int]]
    random: list[list[int]]

    def __post_init__(self) -> None:
        for name in ("factors", "response", "fixed", "random"):
            _check_list(f"the {name} of a formula", getattr(self, name))
        for factor in self.factors:
            if not isinstance(factor, FormulaLevels):
                check_expression(factor)
        check_size(self.factors)
        for factor in self.factors:
            if next(columns_of(factor), None) is None:
                raise InvalidInputError("a formula has a factor without a column: leave it out")
        for terms in ([self.response], self.fixed, self.random):
            self._check_terms(terms)
        if not self.response or any(isinstance(f, FormulaLevels) for f in self._of("response")):
            raise InvalidInputError("a formula must have one response, which is not levels")

    def _check_terms(self, terms: list[list[int]]) -> None:
        if not 1 <= len(terms) <= MOST_TERMS:
            raise InvalidInputError(
                f"a formula has {len(terms)} terms: at least 1 and at most {MOST_TERMS} are needed"
            )
        for term in terms:
            _check_list("the factors of a term", term)
            if len(term) > MOST_FACTORS:
                raise InvalidInputError(
                    f"a formula has an interaction of {len(term)} factors: at most {MOST_FACTORS} "
                    "are possible"
                )
            known = all(type(i) is int and 0 <= i < len(self.factors) for i in term)
            if not known or len(set(term)) != len(term):
                raise InvalidInputError(
                    f"a formula has the term {term!r}: different numbers from 0 to "
                    f"{len(self.factors) - 1} are needed"
                )

    def _of(self, part: str) -> list[Factor]:
        """The factors in the response, or in the fixed or random effects."""
        terms = [self.response] if part == "response" else getattr(self, part)
        return [self.factors[i] for i in sorted({i for term in terms for i in term})]

    def columns(self, *parts: str) -> list[str]:
        """Columns that some parts of the formula need, in a fixed order."""
        factors = (factor for part in parts for factor in self._of(part))
        return sorted({name for factor in factors for name in columns_of(factor)})

    @property
    def all_columns(self) -> list[str]:
        """Columns that the formulas need."""
        return self.columns("response", "fixed", "random")

    @property
    def effect_columns(self) -> list[str]:
        """Columns that the effects need."""
        return self.columns("fixed", "random")

    @property
    def level_columns(self) -> set[str]:
        """Columns inside C(...), which are levels there even if they are numbers."""
        return {factor.name for factor in self.factors if isinstance(factor, FormulaLevels)}
