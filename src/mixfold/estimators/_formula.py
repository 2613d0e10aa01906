"""Model matrices of formulas, the same for every block of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, reduce
from itertools import product
from math import prod
from typing import TypeVar

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.estimators._formula_coding import CodedFactor, CodedTerm, coded_terms
from mixfold.estimators._formula_levels import FormulaLevelTable
from mixfold.estimators._formula_text import display_name
from mixfold.estimators._formula_tree import FormulaTree
from mixfold.estimators._formula_values import evaluate, polynomials
from mixfold.estimators.formula_nodes import (
    Expression,
    FormulaColumn,
    FormulaLevels,
    FormulaPolynomial,
    columns_of,
)

MOST_COLUMNS = 10_000
LONGEST_NAMES = 10_000_000  # characters, of all columns together

T = TypeVar("T")


@value
class FormulaDesign:
    """y, A and B of rows by the formulas `y ~ fixed effects` and `~ random effects`.

    `columns` are those of the rows, and `levels` are the values of their codes, None for numeric
    columns. Numeric levels are levels inside C(...) only, and numbers elsewhere. `group` is the
    column of groups.
    """

    tree: FormulaTree
    group: str
    columns: list[str]
    levels: list[FormulaLevelTable | None]

    def __post_init__(self) -> None:
        self._check_fields()
        for i, factor in enumerate(self.tree.factors):
            if self._levels_of(i) is None:
                self._check_numeric("arithmetic", columns_of(factor))
        self._check_numeric("the response", self.tree.columns("response"))
        for name, terms in (("fixed", self._fixed), ("random", self._random)):
            self._check_columns(name, terms)

    def _check_columns(self, name: str, terms: list[CodedTerm]) -> None:
        """Refuse too many columns, before any is computed."""
        numbers = [prod(map(self._width, term)) for term in terms]
        if sum(numbers) > MOST_COLUMNS:
            raise InvalidInputError(
                f"the {name} effects have {sum(numbers)} columns: at most {MOST_COLUMNS} are "
                "possible; leave out interactions, or join levels"
            )
        sizes = (sum(map(self._name_length, term)) for term in terms)
        if sum(number * size for number, size in zip(numbers, sizes, strict=True)) > LONGEST_NAMES:
            raise InvalidInputError(
                f"the names of the {name} effects have more than {LONGEST_NAMES} characters in "
                "all: give columns and levels shorter names"
            )

    def _check_fields(self) -> None:
        if not isinstance(self.tree, FormulaTree) or not isinstance(self.group, str):
            raise InvalidInputError("a design needs the tree of a formula and the name of groups")
        if not isinstance(self.columns, list) or self.columns != self.tree.all_columns:
            raise InvalidInputError(
                f"a design has the columns {self.columns!r}, but its formula needs "
                f"{self.tree.all_columns}"
            )
        known = isinstance(self.levels, list) and len(self.levels) == len(self.columns)
        if not known or not all(isinstance(t, FormulaLevelTable | None) for t in self.levels):
            raise InvalidInputError("a design needs levels, or None, for each of its columns")
        for name in self.tree.level_columns:
            if self._tables[name] is None:
                raise InvalidInputError(f"C({name}) needs the levels of column {name!r}")

    def _check_numeric(self, where: str, names: Iterable[str]) -> None:
        for name in names:
            table = self._tables[name]
            if table is not None and not table.numeric:
                raise InvalidInputError(
                    f"column {name!r} has levels, which cannot be in {where}: use {name!r} or "
                    f"C({name}) as a term of its own, or make it numeric"
                )

    # factors

    @cached_property
    def _tables(self) -> dict[str, FormulaLevelTable | None]:
        return dict(zip(self.columns, self.levels, strict=True))

    def _levels_of(self, number: int) -> FormulaLevelTable | None:
        """The levels of a factor, None if it is numeric."""
        factor = self.tree.factors[number]
        if not isinstance(factor, FormulaColumn | FormulaLevels):
            return None
        table = self._tables[factor.name]
        if table is not None and table.numeric and isinstance(factor, FormulaColumn):
            return None
        return table

    def _width(self, coded: CodedFactor) -> int:
        """Columns of a factor."""
        factor, table = self.tree.factors[coded.factor], self._levels_of(coded.factor)
        if isinstance(factor, FormulaPolynomial):
            return factor.degree
        return 1 if table is None else max(0, len(table.values) - coded.reduced)

    def _name_length(self, coded: CodedFactor) -> int:
        """Characters of the name of a column of a factor, at most."""
        table = self._levels_of(coded.factor)
        return len(self._shown[coded.factor]) + (3 if table is None else table.longest)

    @cached_property
    def _shown(self) -> list[str]:
        """Names of factors."""
        return [display_name(factor) for factor in self.tree.factors]

    def _factor_names(self, coded: CodedFactor) -> list[str]:
        shown, table = self._shown[coded.factor], self._levels_of(coded.factor)
        factor = self.tree.factors[coded.factor]
        if isinstance(factor, FormulaPolynomial):
            return [f"{shown}[{i}]" for i in range(1, factor.degree + 1)]
        if table is None:
            return [shown]
        if coded.reduced:
            return [f"{shown}[T.{level}]" for level in table.names[1:]]
        return [f"{shown}[{level}]" for level in table.names]

    # columns of matrices

    @cached_property
    def _fixed(self) -> list[CodedTerm]:
        return coded_terms(self.tree.fixed, lambda i: self._levels_of(i) is not None)

    @cached_property
    def _random(self) -> list[CodedTerm]:
        return coded_terms(self.tree.random, lambda i: self._levels_of(i) is not None)

    @property
    def n_features(self) -> int:
        """Columns that the effects need."""
        return len(self.tree.effect_columns)

    @property
    def response_name(self) -> str:
        """The response as the formula has it."""
        return ":".join(self._shown[i] for i in self.tree.response)

    @cached_property
    def names(self) -> list[str]:
        """Columns of A."""
        return self._names(self._fixed)

    @cached_property
    def random_names(self) -> list[str]:
        """Columns of B."""
        return self._names(self._random)

    def _names(self, terms: list[CodedTerm]) -> list[str]:
        return [
            ":".join(names) if term else "Intercept"
            for term in terms
            for names in _products(term, self._factor_names)
        ]

    def matrices(self, x: Array, response: bool = True) -> tuple[Array, Array, Array]:
        """y, A and B of rows; without the response, of rows that lack its columns."""
        columns = self._columns(x, response)
        found: dict[CodedFactor, list[Array]] = {}

        def values(coded: CodedFactor) -> list[Array]:
            if coded not in found:
                found[coded] = self._values(coded, columns)
            return found[coded]

        y = [tuple(map(CodedFactor, self.tree.response))] if response else []
        # values that are not finite are refused later, with the name of the column
        with np.errstate(all="ignore"):
            parts = [_matrix(terms, values, len(x)) for terms in (y, self._fixed, self._random)]
        return parts[0][:, 0] if response else np.zeros(len(x)), parts[1], parts[2]

    def values(self, expression: Expression, x: Array) -> Array:
        """The values of an expression in rows."""
        with np.errstate(all="ignore"):
            found = self._evaluated(expression, self._columns(x, True))
        return np.array(np.broadcast_to(found, len(x)))

    def _columns(self, x: Array, response: bool) -> dict[str, Array]:
        names = self.columns if response else self.tree.effect_columns
        return dict(zip(names, np.ascontiguousarray(x.T), strict=True))

    def _values(self, coded: CodedFactor, columns: dict[str, Array]) -> list[Array]:
        """The columns of a factor."""
        factor, table = self.tree.factors[coded.factor], self._levels_of(coded.factor)
        if table is not None:
            assert isinstance(factor, FormulaColumn | FormulaLevels)
            ranks = table.ranks(columns[factor.name])
            chosen = range(int(coded.reduced), len(table.values))
            return [(ranks == rank).astype(np.float64) for rank in chosen]
        if isinstance(factor, FormulaPolynomial):
            x = self._evaluated(factor.argument, columns)
            return polynomials(x, factor.centers, factor.scales)
        assert not isinstance(factor, FormulaLevels)
        return [self._evaluated(factor, columns)]

    def _evaluated(self, expression: Expression, columns: dict[str, Array]) -> Array:
        return evaluate(expression, lambda name: self._numbers(name, columns[name]))

    def _numbers(self, name: str, column: Array) -> Array:
        table = self._tables[name]
        return column if table is None else table.numbers(column)


def _products(term: CodedTerm, parts: Callable[[CodedFactor], list[T]]) -> Iterator[tuple[T, ...]]:
    """The factors' columns whose products are the columns of a term, first factor fastest."""
    for chosen in product(*(parts(factor) for factor in reversed(term))):
        yield chosen[::-1]


def _matrix(
    terms: list[CodedTerm], values: Callable[[CodedFactor], list[Array]], length: int
) -> Array:
    found = [
        reduce(np.multiply, columns) if columns else np.ones(length)
        for term in terms
        for columns in _products(term, values)
    ]
    return np.column_stack(found) if found else np.zeros((length, 0))
