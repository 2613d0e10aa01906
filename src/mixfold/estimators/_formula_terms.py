"""The algebra of terms: sums, interactions and powers of sets of products of factors."""

from __future__ import annotations

from mixfold.estimators._formula_tokens import FormulaText
from mixfold.estimators.formula_nodes import MOST_FACTORS, MOST_TERMS

MOST_PRODUCTS = 100_000

Term = tuple[str, ...]
"""The texts of the factors of a product."""

Terms = dict[frozenset[str], Term]
"""Terms in the order in which they were met; two with the same factors are one."""

INTERCEPT: Terms = {frozenset(): ()}


class TermAlgebra:
    """Makes terms of the factors of one text; how many, and with how much work, is bounded."""

    def __init__(self, text: FormulaText) -> None:
        self._text = text
        self._products = 0

    def add(self, terms: Terms, more: Terms) -> None:
        """Put more terms behind those that are there."""
        for key, term in more.items():
            terms.setdefault(key, term)
        self._check_number(terms)

    def cross(self, left: Terms, right: Terms) -> Terms:
        """left * right: both, and their interactions."""
        found = dict(left)
        self.add(found, right)
        self.add(found, self.interact(left, right))
        return found

    def nest(self, outer: Terms, inner: Terms) -> Terms:
        """outer / inner: the outer terms, and the inner ones within all of them."""
        found, within = dict(outer), INTERCEPT
        for key, term in outer.items():
            within = self.interact(within, {key: term})
        self.add(found, self.interact(within, inner))
        return found

    def interact(self, left: Terms, right: Terms) -> Terms:
        """left : right, every term of one with every term of the other."""
        found: Terms = {}
        for first in left.values():
            for second in right.values():
                term = self._product(first, second)
                found.setdefault(frozenset(term), term)
            self._check_number(found)
        return found

    def power(self, terms: Terms, exponent: int) -> Terms:
        """terms ** exponent: interactions of up to `exponent` of them."""
        found = terms
        for _ in range(exponent - 1):
            found = self.interact(found, terms)
        return found

    def _product(self, first: Term, second: Term) -> Term:
        self._products += 1
        if self._products > MOST_PRODUCTS:
            raise self._text.error(
                f"its interactions take more than {MOST_PRODUCTS} products of terms, which is the "
                "most that is possible; write those that are needed one by one"
            )
        term = tuple(dict.fromkeys([*first, *second]))
        if len(term) > MOST_FACTORS:
            raise self._text.error(
                f"it has interactions of more than {MOST_FACTORS} factors, which is the most that "
                "is possible; leave some out"
            )
        return term

    def _check_number(self, terms: Terms) -> None:
        if len(terms) > MOST_TERMS:
            raise self._text.error(
                f"it has more than {MOST_TERMS} terms, which is the most that is possible; leave "
                "some out"
            )


def by_degree(terms: Terms) -> list[Term]:
    """Terms of few factors first, otherwise in the order in which they were met."""
    return sorted(terms.values(), key=len)
