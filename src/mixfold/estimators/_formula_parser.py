"""From the text of formulas to trees, by recursive descent; nothing is evaluated.

    formula     = terms "~" terms                  random = ["~"] terms
    terms       = [signs] product {signs product}
    product     = interaction {("*" | "/") interaction}
    interaction = power {":" power}
    power       = operand [("**" | "^") whole number]
    operand     = column | function "(" sum ")" | "poly" "(" sum "," ["degree" "="] number ")"
                | "{" sum "}" | "(" terms ")" | "1" | "0"

Arithmetic, in functions and braces, is that of Python; see `_formula_arithmetic`.
"""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.estimators._formula_arithmetic import ArithmeticParser
from mixfold.estimators._formula_terms import INTERCEPT, Term, TermAlgebra, Terms, by_degree
from mixfold.estimators._formula_text import formula_text
from mixfold.estimators._formula_tokens import FormulaText
from mixfold.estimators._formula_tree import FormulaTree
from mixfold.estimators.formula_nodes import (
    HIGHEST_DEGREE,
    MOST_FACTORS,
    SUMS,
    Factor,
    FormulaColumn,
    FormulaLevels,
    FormulaPolynomial,
    columns_of,
)

TWO_SIDES = "'response ~ fixed effects' is needed"
ONE_SIDE = "'~ random effects' is needed"


def parse_formulas(formula: Any, random: Any) -> FormulaTree:
    """The tree of `response ~ fixed effects` and `~ random effects`."""
    both = TermParser(FormulaText("formula", formula))
    response, fixed = both.two_sides()
    other = TermParser(FormulaText("random", random))
    effects = other.one_side()
    table = both.factors | other.factors
    numbers: dict[str, int] = {}  # factors of removed terms get no number

    def numbered(term: Term) -> list[int]:
        return [numbers.setdefault(factor, len(numbers)) for factor in term]

    return FormulaTree(
        response=numbered(response),
        fixed=[numbered(term) for term in by_degree(fixed)],
        random=[numbered(term) for term in by_degree(effects)],
        factors=[table[factor] for factor in numbers],
    )


class TermParser(ArithmeticParser):
    """Reads terms; `factors` are those it has met, by their texts."""

    def __init__(self, text: FormulaText) -> None:
        super().__init__(text)
        self.factors: dict[str, Factor] = {}
        self._algebra = TermAlgebra(text)

    def two_sides(self) -> tuple[Term, Terms]:
        """response ~ fixed effects."""
        if self.at("~"):
            raise self.text.error(TWO_SIDES)
        left = self._terms({}, outermost=False)
        if not self.take("~"):
            raise self._misplaced(TWO_SIDES)
        fixed = self._effects(TWO_SIDES)
        (response, *others) = left.values() or [()]
        if others or not response:
            raise self.text.error("it must have one response")
        for kind, name in ((FormulaLevels, "levels"), (FormulaPolynomial, "polynomials")):
            if any(isinstance(self.factors[factor], kind) for factor in response):
                raise self.text.error(f"{name} cannot be a response")
        return response, fixed

    def one_side(self) -> Terms:
        """~ random effects."""
        self.take("~")
        return self._effects(ONE_SIDE)

    def _effects(self, needed: str) -> Terms:
        effects = self._terms(INTERCEPT, outermost=True)
        if self.next.kind != "end":
            raise self._misplaced(needed)
        if not effects:
            raise InvalidInputError(f"{self.text.parameter} has no effects: '1' is an intercept")
        return effects

    def _misplaced(self, needed: str) -> InvalidInputError:
        sides = self.next.kind == "end" or self.at("~", "|")
        return self.text.error(needed) if sides else self.unexpected()

    def _terms(self, terms: Terms, outermost: bool) -> Terms:
        """Add and remove terms from left to right, beginning with those given."""
        found, first = dict(terms), True
        while first or self.at(*SUMS):
            adds, start, first = self._sign(), self.next.start, False
            if self.next.kind == "number" and float(self.next.text) == 0.0:
                self.advance()
                adds, others = not adds, INTERCEPT
            else:
                others = self._product()
            if not adds and not outermost and others == INTERCEPT:
                raise self.text.error_at(
                    start, "an intercept can be removed outside of parentheses, behind ~, alone"
                )
            if adds:
                self._algebra.add(found, others)
            for key in others if not adds else ():
                found.pop(key, None)
        return found

    def _sign(self) -> bool:
        """Whether the next term is added: signs in a row are one."""
        adds = True
        while self.at(*SUMS):
            adds ^= self.advance().text == "-"
        return adds

    def _product(self) -> Terms:
        found = self._interaction()
        while True:
            if self.take("*"):
                found = self._algebra.cross(found, self._interaction())
            elif self.take("/"):
                found = self._algebra.nest(found, self._interaction())
            else:
                return found

    def _interaction(self) -> Terms:
        found = self._power()
        while self.take(":"):
            found = self._algebra.interact(found, self._power())
        return found

    def _power(self) -> Terms:
        found = self._operand()
        if not self.take("**") and not self.take("^"):
            return found
        exponent = self.advance()
        allowed = [str(i) for i in range(1, MOST_FACTORS + 1)]
        if exponent.kind != "number" or exponent.text not in allowed:
            raise self.text.error_at(
                exponent.start, f"a power of terms is a whole number from 1 to {MOST_FACTORS}"
            )
        return self._algebra.power(found, int(exponent.text))

    def _operand(self) -> Terms:
        token = self.next
        if token.kind == "number":
            if float(self.advance().text) != 1.0:
                raise self.text.error_at(
                    token.start, "of numbers, terms are 0 and 1 alone; write I(2 * x) for others"
                )
            return INTERCEPT
        if self.take("("):
            with self.nested():
                found = self._terms({}, outermost=False)
            self.expect(")")
            return found
        factor = self._factor()
        if next(columns_of(factor), None) is None:
            raise self.text.error_in(token.start, self.next.start, "it has no column; leave it out")
        key = formula_text(factor)
        self.factors.setdefault(key, factor)
        return {frozenset([key]): (key,)}

    def _factor(self) -> Factor:
        token = self.next
        if self.take("{"):
            with self.nested():
                found = self.sum()
            self.expect("}")
            return found
        if token.kind != "name":
            raise self.unexpected()
        if not token.quoted and self.following[:2] == ("operator", "("):
            if token.text == "C":
                return self._levels()
            if token.text == "poly":
                return self._polynomial()
        return self.column_or_call()

    def _levels(self) -> FormulaLevels:
        """C(column)."""
        start = self.advance().start
        self.expect("(")
        column = None
        if not self.at(")"):
            with self.nested():
                column = self.sum()
        end = self.expect(")")
        if not isinstance(column, FormulaColumn):
            raise self.text.error_in(
                start,
                end.start + 1,
                "C takes the name of one column; make anything else a column of the data",
            )
        return FormulaLevels(column.name)

    def _polynomial(self) -> FormulaPolynomial:
        """poly(sum, degree)."""
        self.advance()
        self.expect("(")
        with self.nested():
            argument = self.sum()
        if not self.take(","):
            raise self.unexpected("poly needs a degree, such as in poly(x, 2)")
        named = self.next.text == "degree"
        if named:
            self.advance()
            self.expect("=")
        allowed = [str(i) for i in range(1, HIGHEST_DEGREE + 1)]
        if self.next.text not in allowed:
            raise self.unexpected(
                f"the degree of poly is a whole number from 1 to {HIGHEST_DEGREE}"
            )
        degree = int(self.advance().text)
        if self.at(","):
            raise self.unexpected("poly takes an expression and a degree")
        self.expect(")")
        return FormulaPolynomial(argument, degree, named, [0.0] * degree, [1.0] * (degree + 1))
