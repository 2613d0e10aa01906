"""The factors of products as the compiled kernel sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.capabilities import HasKernelTerm, KernelTerm
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.independent_columns import as_components, separable
from mixfold.core.rows import Array
from mixfold.families.categorical import Categorical
from mixfold.families.column_groups import Group
from mixfold.families.observed_columns import ObservedColumns
from mixfold.families.patterned_rows import PatternedRows
from mixfold.families.product import Product, ProductParams
from mixfold.models.mixture_model import MixtureModel

KINDS = {"normal": 0, "linear": 1, "levels": 2}


def can_divide(family: Family) -> bool:
    """Whether a family is made of factors, or is one that the compiled kernel has."""
    if isinstance(family, Product | ObservedColumns | Categorical):
        return True
    return isinstance(family, ExponentialFamily) and family.has_linear_form


def grouped(family: Family, params: Any, d: int) -> list[tuple[Group, Any]]:
    """The groups of a product with their parameters; any other family is one group."""
    if isinstance(family, Product):
        return family.grouped(cast(ProductParams, params))
    sums, blocks = slice(0, family.n_sums(d)), slice(0, len(family.block_shapes(d)))
    return [(Group(family, list(range(d)), [0], sums, blocks, separable(family)), params)]


def term_of(group: Group, params: Any) -> KernelTerm | None:
    """The group in a form that the compiled kernel has, if there is one.

    Columns that are independent have parameters one after the other.
    """
    known = group.family.complete if isinstance(group.family, ObservedColumns) else group.family
    if not isinstance(known, HasKernelTerm):
        return None
    if group.divisible is None:
        return known.kernel_term(params)
    term = known.kernel_term(as_components(params))
    if term is None:
        return None
    rows = len(term.parameters) // len(group.places)
    return term._replace(parameters=term.parameters.reshape(rows, -1))


class Factor(NamedTuple):
    """A factor of the compiled kernel.

    `places` are its columns in the rows, `column` is the first column of its values, `width` their
    number, and `positions` are where its sums are in the table of all sums. If its cell cannot be
    missing, its first sum, the total responsibility, is not among them.
    """

    family: Family
    places: list[int]
    kind: str
    transformed: bool
    base_measure: str
    size: int
    missing: bool
    positions: NDArray[np.intp]
    column: int = 0

    @property
    def width(self) -> int:
        """The number of columns of its values."""
        return self.size if self.kind == "linear" else 1

    @property
    def is_plain(self) -> bool:
        """Whether its values are columns of the rows that are side by side."""
        first = self.places[0]
        return not self.transformed and self.places == [*range(first, first + self.width)]

    @property
    def is_computed(self) -> bool:
        """Whether its values are not those of the rows, or it has a base measure of its own."""
        return self.transformed or self.base_measure == "own"

    @property
    def description(self) -> list[int]:
        """Kind, column, size, and whether cells can be missing and x! is in the base measure."""
        factorial = self.base_measure == "factorial"
        return [KINDS[self.kind], self.column, self.size, self.missing, factorial]

    @property
    def n_sums(self) -> int:
        """The number of its sums in the compiled kernel."""
        return 3 if self.kind == "normal" else 1 + self.size

    @property
    def n_parameters(self) -> int:
        """The number of its parameters of a component."""
        return {"normal": 3, "linear": 1 + self.size, "levels": self.size}[self.kind]

    def add_values(self, x: NDArray[Any], values: Array, log_base: Array) -> None:
        """Write the values of the term into their columns, and add the base measure."""
        own, there = own_columns(x, self.places), cast(Any, ...)
        family = cast(HasKernelTerm[Any], self.family)
        columns = values[:, self.column : self.column + self.width]
        if self.missing and np.isnan(own).any():
            there = ~np.isnan(own[:, 0])
            columns[...] = np.nan
            own = own[there]
        columns[there] = family.kernel_values(own) if self.transformed else own
        if self.base_measure == "own":
            log_base[there] += family.log_base_measure(own)


def own_columns(x: NDArray[Any], places: list[int]) -> Array:
    """Some columns of the rows, in float64; a copy, of which one column takes less time."""
    if len(places) == 1:
        return np.array(x[:, places[0] : places[0] + 1], dtype=np.float64)
    return x[:, places].astype(np.float64, copy=False)


def factors_of(group: Group, term: KernelTerm) -> list[Factor]:
    """The factors of a group: one for every column if these are independent."""
    first, n = group.sums.start, len(group.places)
    missing = isinstance(group.family, ObservedColumns)
    known = group.family.complete if isinstance(group.family, ObservedColumns) else group.family
    apart = separable(known)
    each = term.parameters.shape[1] if apart is None else term.parameters.shape[1] // n
    size = {"normal": 1, "linear": each - 1, "levels": each}[term.kind]
    if apart is None:
        positions = np.arange(first + 1, group.sums.stop)
        fixed = (term.kind, term.transformed, term.base_measure, size, False)
        return [Factor(known, group.places, *fixed, positions)]
    columns = apart.columns_of_statistics(n)
    if missing:
        columns = np.concatenate([np.arange(n), columns])
    return [
        Factor(
            apart.of_columns([j]),
            [place],
            term.kind,
            term.transformed,
            term.base_measure,
            size,
            missing,
            first + 1 + np.flatnonzero(columns == j),
        )
        for j, place in enumerate(group.places)
    ]


class Layout(NamedTuple):
    """What does not depend on parameters: the factors of all groups that have any.

    Values are the rows as they are if `plain`; if not, those of the factors follow one another.
    `copied` are the columns of the rows that are values as they are, `to` their columns among the
    values, and `computed` the factors with other values or a base measure of their own. `sources`
    are where the columns of the table of sums are among the compiled sums, which begin with the
    total responsibility; `same` says that they are the same.
    """

    factors: list[Factor]
    descriptions: NDArray[np.int64]
    plain: bool
    n_values: int
    copied: NDArray[np.intp]
    to: NDArray[np.intp]
    computed: list[Factor]
    sources: NDArray[np.intp]
    same: bool


def layout_of(groups: Sequence[Group], terms: Sequence[KernelTerm | None], d: int) -> Layout:
    """The layout of groups and their terms, of rows with d columns."""
    pairs = zip(groups, terms, strict=True)
    found = [one for group, term in pairs if term is not None for one in factors_of(group, term)]
    plain, n_values = all(one.is_plain for one in found), 0
    for i, one in enumerate(found):
        found[i] = one._replace(column=one.places[0] if plain else n_values)
        n_values += one.width
    sources, first = np.zeros(groups[-1].sums.stop, dtype=np.intp), 1
    for one in found:
        last = first + one.n_sums
        sources[one.positions] = np.arange(last - len(one.positions), last)
        first = last
    descriptions = np.array([one.description for one in found], dtype=np.int64).reshape(-1, 5)
    same = first == len(sources) and bool((sources == np.arange(first)).all())
    computed = [one for one in found if one.is_computed]
    others = [one for one in found if not one.is_computed]
    copied = np.array([j for one in others for j in one.places], dtype=np.intp)
    to = np.array([one.column + i for one in others for i in range(one.width)], dtype=np.intp)
    n_values = d if plain else n_values
    return Layout(found, descriptions, plain, n_values, copied, to, computed, sources, same)


class Other(NamedTuple):
    """A group that has no term, its parameters and further arguments of the family's methods."""

    group: Group
    params: Any
    more: tuple[Any, ...]

    def log_density(self, x: NDArray[Any]) -> Array:
        """log p(x|k) of the group, (n, K)."""
        own = own_columns(x, self.group.places)
        return self.group.family.log_density(self.params, own, *self.more)

    def sums(self, x: NDArray[Any], responsibilities: Array) -> Array:
        """The group's part of the table of sums."""
        own = own_columns(x, self.group.places)
        return self.group.family.sums(self.params, own, responsibilities, *self.more)


def other_of(group: Group, params: Any) -> Other:
    """The group, with the regressions of patterns, which are computed once for all blocks."""
    known = group.family
    more = (known.regressions(params),) if isinstance(known, PatternedRows) else ()
    return Other(group, params, more)


class Divided(NamedTuple):
    """The layout, the parameters (K, q) of all its factors, and groups that have no term."""

    layout: Layout
    parameters: Array
    others: list[Other]


class Division:
    """Divides parameters of a model among factors; the layout is computed once."""

    def __init__(self, model: MixtureModel) -> None:
        self._model = model
        self._layout: Layout | None = None

    def divide(self, components: Any) -> Divided:
        """The factors of components."""
        model = self._model
        known = grouped(model.family, components, model.d)
        terms = [term_of(group, own) for group, own in known]
        if self._layout is None:
            self._layout = layout_of([group for group, _ in known], terms, model.d)
        pairs = zip(known, terms, strict=True)
        others = [other_of(*one) for one, term in pairs if term is None]
        parameters = [term.parameters for term in terms if term is not None]
        joined = np.concatenate([np.empty((model.k, 0)), *parameters], axis=1)
        return Divided(self._layout, joined, others)
