"""Coding of levels as columns, without linear dependence.

A categorical effect has a column for every level but the first if there is an intercept, and a
column for every level if no other term spans their sum. The rule for interactions is that of R and
of formulaic: a term adds what the terms before it do not span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import NamedTuple


class CodedFactor(NamedTuple):
    """A factor by its number; `reduced` lacks the column of the first level."""

    factor: int
    reduced: bool = False


CodedTerm = tuple[CodedFactor, ...]


def coded_terms(terms: Iterable[list[int]], has_levels: Callable[[int], bool]) -> list[CodedTerm]:
    """The products of columns that terms add, one term after the other."""
    spanned: set[frozenset[CodedFactor]] = set()
    found: list[CodedTerm] = []
    for term in terms:
        new = [part for part in _span(term, has_levels) if frozenset(part) not in spanned]
        spanned.update(map(frozenset, new))
        found += _merged(new)
    return found


def _span(term: list[int], has_levels: Callable[[int], bool]) -> Iterator[CodedTerm]:
    """Parts of a term that no part of another term can be a combination of."""
    choices = [
        [[CodedFactor(i, reduced=True)], []] if has_levels(i) else [[CodedFactor(i)]] for i in term
    ]
    for chosen in product(*choices):
        yield tuple(factor for one in chosen for factor in one)


def _merged(parts: Iterable[CodedTerm]) -> list[CodedTerm]:
    """As few terms with the same span: anything:reduced + anything is anything:full."""
    found: list[CodedTerm] = []
    for part in sorted(parts, key=len):
        for other in found:
            new = set(part).difference(other)
            if len(part) != len(other) + 1 or len(new) != 1 or not (factor := new.pop()).reduced:
                continue
            whole = tuple(CodedFactor(f.factor) if f == factor else f for f in part)
            found = _merged([*(kept for kept in found if kept is not other), whole])
            break
        else:
            found.append(part)
    return found
