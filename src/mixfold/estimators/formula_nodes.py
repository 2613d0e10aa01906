"""The nodes of formulas: columns, numbers, arithmetic and a fixed list of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Array
from mixfold.core.value import value

MOST_CHARACTERS = 100_000
MOST_NODES = 20_000
MOST_TERMS = 5_000
MOST_FACTORS = 6  # in one interaction
DEEPEST = 48
HIGHEST_DEGREE = 6

SUMS, PRODUCTS = ("+", "-"), ("*", "/", "//", "%")
ARITHMETIC: Mapping[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.mod,
}
NUMPY_FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
}
PLAIN_FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    "I": np.asarray,
    "exp10": lambda x: 10.0**x,
    **NUMPY_FUNCTIONS,
}
FUNCTIONS: Mapping[str, Callable[[Array], Array]] = {
    **PLAIN_FUNCTIONS,
    **{f"np.{name}": function for name, function in NUMPY_FUNCTIONS.items()},
}
STANDARDIZING = ("center", "scale")
KNOWN = (
    f"arithmetic and C, {', '.join([*PLAIN_FUNCTIONS, *STANDARDIZING])}, poly of columns are "
    "known, and np.log and the like; make anything else a column of the data"
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
        check_list("the operators of a formula", self.operators)
        check_list("the operands of a formula", self.operands)
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


@value
class FormulaStandardized:
    """center(argument) or scale(argument), which are (argument - mean) / deviation.

    The numbers are 0 and 1 until they are learned from all rows; the deviation of center stays 1.
    """

    function: str
    argument: Expression
    mean: float
    deviation: float

    def __post_init__(self) -> None:
        if self.function not in STANDARDIZING:
            raise InvalidInputError(f"a formula has the function {self.function!r}: {KNOWN}")
        _check_argument(self.function, self.argument)
        check_above(f"the mean of {self.function}", self.mean, -LARGEST, LARGEST)
        check_above(f"the deviation of {self.function}", self.deviation, 0.0, LARGEST)
        if self.function == "center" and self.deviation != 1.0:
            raise InvalidInputError(f"the deviation of center is {self.deviation!r}: 1 is needed")


@value
class FormulaPolynomial:
    """poly(argument, degree): orthogonal polynomials of degrees 1, 2, ..., each one a column.

    They are those of `_formula_values.polynomials`, whose `centers` are 0 and whose `scales` are 1
    until they are learned from all rows. `named` is whether the formula has `degree=`.
    """

    argument: Expression
    degree: int
    named: bool
    centers: list[float]
    scales: list[float]

    def __post_init__(self) -> None:
        if type(self.degree) is not int or not 1 <= self.degree <= HIGHEST_DEGREE:
            raise InvalidInputError(
                f"the degree of poly is {self.degree!r}: a whole number from 1 to "
                f"{HIGHEST_DEGREE} is needed"
            )
        _check_argument("poly", self.argument)
        _check_constants("the centers of poly", self.centers, self.degree, -LARGEST)
        _check_constants("the scales of poly", self.scales, self.degree + 1, 0.0)


Expression = (
    FormulaColumn
    | FormulaNumber
    | FormulaNegative
    | FormulaPower
    | FormulaOperation
    | FormulaCall
    | FormulaStandardized
)
Factor = Expression | FormulaLevels | FormulaPolynomial


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


def _check_argument(function: str, argument: Expression) -> None:
    """Refuse what cannot be the argument of a function that is learned from all rows."""
    check_expression(argument)
    for node in nodes_of(argument):
        if isinstance(node, FormulaStandardized):
            raise InvalidInputError(
                f"a formula has {node.function} inside {function}: both are learned from all rows, "
                f"which cannot be nested; make {node.function}(...) a column of the data"
            )


def _check_constants(what: str, numbers: list[float], count: int, low: float) -> None:
    check_list(what, numbers)
    if len(numbers) != count:
        raise InvalidInputError(f"{what} are {len(numbers)} numbers: {count} are needed")
    for number in numbers:
        check_above(f"one of {what}", number, low, LARGEST)


def check_list(what: str, thing: object) -> None:
    """Refuse what is no list."""
    if not isinstance(thing, list):
        raise InvalidInputError(f"{what} are a {type(thing).__name__}: a list is needed")


def check_size(factors: list[Factor]) -> None:
    """Refuse trees that are too large, or too deep for recursion."""
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
        case FormulaCall() | FormulaStandardized() | FormulaPolynomial():
            return [node.argument]
    return []


def nodes_of(factor: Factor) -> Iterator[Factor]:
    """A factor and all nodes below it."""
    waiting: list[Factor] = [factor]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += children(node)


def columns_of(factor: Factor) -> Iterator[str]:
    """Names of the columns in a factor."""
    for node in nodes_of(factor):
        if isinstance(node, FormulaColumn | FormulaLevels):
            yield node.name


def shortened(text: str, most: int = 200) -> str:
    """A text in quotes for an error, cut if it is long."""
    return repr(text) if len(text) <= most else f"{text[:most]!r}..."
