"""Formulas as trees of values: all that a formula may say, however it was read.

A tree comes from the parser or from a model file. Both are checked by the same rules, here and in
`formula_nodes`, and evaluation knows no others.
"""

from __future__ import annotations

from mixfold.core.errors import InvalidInputError
from mixfold.core.value import value
from mixfold.estimators.formula_nodes import (
    MOST_FACTORS,
    MOST_TERMS,
    Factor,
    FormulaLevels,
    FormulaPolynomial,
    check_expression,
    check_list,
    check_size,
    columns_of,
)


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
            check_list(f"the {name} of a formula", getattr(self, name))
        for factor in self.factors:
            if not isinstance(factor, FormulaLevels | FormulaPolynomial):
                check_expression(factor)
        check_size(self.factors)
        for factor in self.factors:
            if next(columns_of(factor), None) is None:
                raise InvalidInputError("a formula has a factor without a column: leave it out")
        for terms in ([self.response], self.fixed, self.random):
            self._check_terms(terms)
        wide = FormulaLevels | FormulaPolynomial
        if not self.response or any(isinstance(factor, wide) for factor in self._of("response")):
            raise InvalidInputError("a formula must have one response, not levels or polynomials")

    def _check_terms(self, terms: list[list[int]]) -> None:
        if not 1 <= len(terms) <= MOST_TERMS:
            raise InvalidInputError(
                f"a formula has {len(terms)} terms: at least 1 and at most {MOST_TERMS} are needed"
            )
        for term in terms:
            check_list("the factors of a term", term)
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
