"""The factors of products as the compiled kernel sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import HasKernelTerm, KernelTerm
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.rows import Array
from mixfold.families.categorical import Categorical
from mixfold.families.observed_columns import ObservedColumns
from mixfold.families.patterned_rows import PatternedRows
from mixfold.families.product import Product

KINDS = {"normal": 0, "linear": 1, "levels": 2}


class Leaf(NamedTuple):
    """A factor that is divided no further.

    `positions` are where its sums are in the table of all sums, and `missing` says whether its cell
    may be missing, which is then one column. `more` are further arguments of the family's methods.
    """

    family: Family
    places: list[int]
    params: Any
    positions: Sequence[int]
    missing: bool = False
    more: tuple[Any, ...] = ()

    @property
    def term(self) -> KernelTerm | None:
        """The factor in a form that the compiled kernel has, if there is one."""
        known = self.family
        return known.kernel_term(self.params) if isinstance(known, HasKernelTerm) else None

    def rows(self, x: NDArray[Any]) -> Array:
        """The factor's own columns."""
        return x[:, self.places].astype(np.float64, copy=False)

    def log_density(self, x: NDArray[Any]) -> Array:
        """log p(x|k) of the factor (n, K), which is 0 where its cell is missing."""
        own = self.rows(x)
        if not self.missing or not np.isnan(own).any():
            return self.family.log_density(self.params, own, *self.more)
        there = ~np.isnan(own[:, 0])
        found = self.family.log_density(self.params, own[there])
        whole = np.zeros((len(own), found.shape[1]))
        whole[there] = found
        return whole

    def sums(self, x: NDArray[Any], responsibilities: Array) -> Array:
        """The table of sums of the rows that have the factor's cell."""
        own = self.rows(x)
        if self.missing and np.isnan(own).any():
            there = ~np.isnan(own[:, 0])
            own, responsibilities = own[there], responsibilities[there]
        return self.family.sums(self.params, own, responsibilities, *self.more)


class Leaves(NamedTuple):
    """All factors, and where the table of sums has the total responsibility."""

    leaves: list[Leaf]
    totals: list[int]


def can_divide(family: Family) -> bool:
    """Whether a family is made of factors, or is one that the compiled kernel has."""
    if isinstance(family, Product | ObservedColumns | Categorical):
        return True
    return isinstance(family, ExponentialFamily) and family.has_linear_form


def leaves_of(family: Family, params: Any, d: int) -> Leaves:
    """The factors of a family."""
    found = Leaves([], [0])
    if isinstance(family, Product):
        first = 1
        for part in family.placed(params):
            _add(found, part.family, part.places, part.params, first)
            first += part.family.n_sums(part.width)
    elif isinstance(family, Categorical):
        for j in range(d):
            counts = range(1 + j * family.levels, 1 + (j + 1) * family.levels)
            part = family.take_columns(params, [j])
            found.leaves.append(Leaf(family, [j], part, [0, *counts]))
    else:
        _add(found, family, list(range(d)), params, 0)
    return found


def _add(found: Leaves, family: Family, places: list[int], params: Any, first: int) -> None:
    if not isinstance(family, ObservedColumns):
        last = first + family.n_sums(len(places))
        # the regressions of patterns are computed once for all blocks
        more = (family.regressions(params),) if isinstance(family, PatternedRows) else ()
        found.leaves.append(Leaf(family, places, params, range(first, last), more=more))
        return
    found.totals.append(first)
    width = family.complete.n_sums(1)
    for j, (column, part) in enumerate(family.divided(params)):
        start = first + 1 + j * width
        own = range(start, start + width)
        found.leaves.append(Leaf(column, [places[j]], part, own, missing=True))


class TermLeaf(NamedTuple):
    """A factor with a term, and the first column of its values."""

    leaf: Leaf
    term: KernelTerm
    column: int

    @property
    def width(self) -> int:
        """The number of columns of its values."""
        return int(self.term.parameters.shape[1]) - 1 if self.term.kind == "linear" else 1

    @property
    def description(self) -> list[int]:
        """Kind, column, size, and whether cells can be missing and x! is in the base measure."""
        levels = self.term.kind == "levels"
        size = self.term.parameters.shape[1] if levels else self.width
        factorial = self.term.base_measure == "factorial"
        return [KINDS[self.term.kind], self.column, size, self.leaf.missing, factorial]

    def add_values(self, x: NDArray[Any], values: Array, log_base: Array) -> None:
        """Write the values of the term into their columns, and add the base measure."""
        own: Array = self.leaf.rows(x)
        there: Any = slice(None)
        family = cast(HasKernelTerm[Any], self.leaf.family)
        columns = values[:, self.column : self.column + self.width]
        if self.leaf.missing and np.isnan(own).any():
            there = ~np.isnan(own[:, 0])
            columns[...] = np.nan
            own = own[there]
        columns[there] = family.kernel_values(own) if self.term.transformed else own
        if self.term.base_measure == "own":
            log_base[there] += family.log_base_measure(own)


class Terms(NamedTuple):
    """Factors with a term, and factors without one.

    Terms are of the rows as they are if `plain`; if not, their values follow one another.
    """

    terms: list[TermLeaf]
    others: list[Leaf]
    plain: bool

    @property
    def n_values(self) -> int:
        """The number of columns of values."""
        return sum(one.width for one in self.terms)


def terms_of(leaves: Sequence[Leaf]) -> Terms:
    """The terms of all factors that have any."""
    pairs = [(leaf, leaf.term) for leaf in leaves]
    found = [TermLeaf(leaf, term, leaf.places[0]) for leaf, term in pairs if term is not None]
    others = [leaf for leaf, term in pairs if term is None]
    if all(_is_plain(one) for one in found):
        return Terms(found, others, plain=True)
    ends = np.cumsum([0, *(one.width for one in found)])
    moved = [one._replace(column=int(end)) for one, end in zip(found, ends, strict=False)]
    return Terms(moved, others, plain=False)


def _is_plain(one: TermLeaf) -> bool:
    """Whether a term is of columns of the rows that are side by side."""
    first = one.leaf.places[0]
    return not one.term.transformed and one.leaf.places == [*range(first, first + one.width)]


def positions(terms: Sequence[TermLeaf]) -> Iterator[int]:
    """Where the sums of the compiled kernel are in the table of all sums."""
    yield 0
    for one in terms:
        yield from one.leaf.positions
