"""Products of families over different columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from mixfold.core.arrays import all_false
from mixfold.core.capabilities import conjugate_of, has_coordinates
from mixfold.core.checks import check_kind
from mixfold.core.conjugate import Conjugate
from mixfold.core.data_limits import CanDegenerate, limits_of
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family, n_components_of
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Blocks, BlockShape, reciprocal
from mixfold.core.support import Support
from mixfold.core.value import replace, value
from mixfold.families._group_coordinates import GroupCoordinates
from mixfold.families._group_priors import GroupPriors
from mixfold.families._product_posteriors import ConjugateFactor, ProductConjugate
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.column_groups import (
    Group,
    ProductParams,
    divided_blocks,
    groups_of,
    weight_columns,
)
from mixfold.families.factor import Factor, Name, Placed, columns_in_order, factors_of
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson

__all__ = ["Product", "ProductParams"]


@value
class Product(GroupPriors, Family[ProductParams]):
    """Every column, or group of columns, has a family of its own, independent given the component.

    log p(x|k) is the sum of the log densities of the factors, and every factor is maximised by
    itself. A family of independent columns that is given for several of them is a factor for each.

    Parameters
    ----------
    factors : mapping
        Families by the column that they are of, or by a tuple of columns; columns are names, or
        numbers from 0 on. A family is an object or a name.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> from mixfold.families.product import Product
    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(2, size=1000)
    >>> x = np.column_stack([rng.normal(4.0 * z), rng.poisson(2.0 + 8.0 * z)])
    >>> model = Mixture(Product({0: "gaussian", 1: "poisson"}), 2, random_state=0).fit(x)
    >>> model.means_[:, 1].round(0)
    array([ 2., 10.])

    References
    ----------
    Hunt and Jorgensen (2011), Clustering mixed data, WIREs Data Mining and Knowledge Discovery 1.
    """

    factors: tuple[Factor, ...] = ()

    if TYPE_CHECKING:  # a mapping is accepted, and becomes a tuple

        def __init__(self, factors: Mapping[Any, Any] | Sequence[Factor] = ()) -> None: ...

    def __post_init__(self) -> None:
        given: Any = self.factors
        if isinstance(given, Mapping):
            given = tuple(part for item in given.items() for part in factors_of(*item))
        if not isinstance(given, tuple) or not all(isinstance(one, Factor) for one in given):
            raise InvalidInputError(f"factors is {given!r}: give a dict of columns and families")
        object.__setattr__(self, "factors", given)
        if not self.factors:
            raise InvalidInputError("factors is empty: a product needs a family of some column")
        names = [name for factor in self.factors for name in factor.columns]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InvalidInputError(f"column {twice[0]!r} has two families: give it one")

    def __repr__(self) -> str:
        parts = ", ".join(f"{factor.label!r}: {factor.family!r}" for factor in self.factors)
        return f"Product({{{parts}}})"

    @classmethod
    def variants(cls) -> list[Self]:
        five: Any = {0: Gaussian(), (1, 2): Gaussian(), 3: Poisson(), 4: Categorical(3)}
        three: Any = {0: Bernoulli(), (1, 2): Gaussian()}
        two: Any = {0: Gaussian(), 1: Categorical(4)}
        one: Any = {0: Poisson()}
        return [cls(factors) for factors in (one, two, three, five)]

    # binding to columns

    @property
    def n_columns(self) -> int:
        """The number of columns of all factors."""
        return sum(len(factor.columns) for factor in self.factors)

    @property
    def names(self) -> list[str] | None:
        """The names of the columns, in the order of the rows if it is known; None without names."""
        found = columns_in_order(self.factors)
        return None if any(isinstance(name, int) for name in found) else list(map(str, found))

    def bound(self, names: Sequence[Any] | None) -> Product:
        """The product of the columns with these names, in the order of its factors."""
        if all(factor.positions is not None for factor in self.factors):
            return self
        numbers: dict[Any, int] = {i: i for i in range(self.n_columns)}
        if names is not None:
            numbers = {name: i for i, name in enumerate(names)}
        found = [
            replace(f, positions=tuple(self._place(n, numbers) for n in f.columns))
            for f in self.factors
        ]
        taken = {place for factor in found for place in factor.positions or ()}
        left = [name for name, number in numbers.items() if number not in taken]
        if left:
            raise InvalidInputError(
                f"column {left[0]!r} has no family in the product: give it one, or choose columns "
                "with columns=[...]"
            )
        return replace(self, factors=tuple(found))

    def _place(self, name: Name, numbers: Mapping[Any, int]) -> int:
        if name in numbers:
            return numbers[name]
        if isinstance(name, int) and 0 <= name < len(numbers):
            return name
        raise InvalidInputError(
            f"the product has a family of column {name!r}, which the data do not have: their "
            f"columns are {', '.join(map(repr, numbers))}"
        )

    def _parts(self) -> Iterator[tuple[Family, list[int]]]:
        """Families and their columns; columns that are numbers need not be bound."""
        for factor in self.factors:
            places = factor.columns if factor.positions is None else factor.positions
            if not all(isinstance(place, int) for place in places):
                raise InvalidInputError(f"{self!r} has names of columns: the data have none")
            yield factor.family, list(places)  # type: ignore[arg-type]

    def placed(self, params: ProductParams) -> Iterator[Placed]:
        """Every factor with its columns and its parameters."""
        for (family, places), part in zip(self._parts(), params.parts, strict=True):
            yield Placed(family, places, part)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """Factors of the same family together, so that an M-step is made for all at once."""
        return groups_of(self._parts())

    def grouped(self, params: ProductParams) -> list[tuple[Group, Any]]:
        """Every group with its parameters."""
        return list(zip(self.groups, params.joined(self.groups), strict=True))

    def _divided(self, blocks: Blocks) -> list[Blocks]:
        """The blocks of every factor."""
        return divided_blocks(self.groups, blocks)

    @cached_property
    def _weight_columns(self) -> NDArray[np.intp]:
        """Where the table of sums has the weight of every sum."""
        return weight_columns(self.groups)

    # the mathematics

    def log_density(self, params: ProductParams, x: Array) -> Array:
        parts = (p.family.log_density(p.params, x[:, p.places]) for p in self.placed(params))
        return np.asarray(sum(parts))

    def scipy_log_density(self, params: ProductParams, x: Array) -> Array:
        parts: list[Any] = list(self.placed(params))
        return np.asarray(sum(p.family.scipy_log_density(p.params, x[:, p.places]) for p in parts))

    def maximize(self, blocks: Blocks) -> tuple[ProductParams, int]:
        found = [group.family.maximize(blocks[group.blocks]) for group in self.groups]
        most = min(sum(n for _, n in found), len(blocks[0].weight))
        joined = [params for params, _ in found]
        return ProductParams.of_groups(self.groups, joined), most

    def sample(self, params: ProductParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        rows = np.empty((len(labels), self.n_columns))
        for part in self.placed(params):
            rows[:, part.places] = part.family.sample(part.params, labels, rng)
        return rows

    def example(self, k: int, d: int, rng: np.random.Generator) -> ProductParams:
        return ProductParams(tuple(f.example(k, len(places), rng) for f, places in self._parts()))

    def n_parameters(self, k: int, d: int) -> int:
        return sum(family.n_parameters(k, len(places)) for family, places in self._parts())

    # support and checks

    @property
    def accepts_missing(self) -> bool:
        return any(factor.family.accepts_missing for factor in self.factors)

    @property
    def statistics_depend_on_params(self) -> bool:
        return any(factor.family.statistics_depend_on_params for factor in self.factors)

    def supports(self, d: int) -> tuple[Support, ...]:
        found = [Support()] * d
        for family, places in self._parts():
            for place, support in zip(places, family.supports(len(places)), strict=True):
                found[place] = support
        return tuple(found)

    def at_column(self, column: int) -> Family:
        return next(family for family, places in self._parts() if column in places).at_column(0)

    def support_message_of(self, column: int) -> str:
        family, places = next(part for part in self._parts() if column in part[1])
        return family.support_message_of(places.index(column))

    def out_of_support(self, x: Array) -> np.ndarray | None:
        outside = all_false(x)
        for family, places in self._parts():
            found = family.out_of_support(x[:, places])
            if found is not None:
                outside[:, places] = found
        return outside

    def check_columns(self, d: int) -> None:
        if d != self.n_columns:
            raise InvalidInputError(
                f"the product has families of {self.n_columns} columns, and the data have {d}"
            )
        for family, places in self._parts():
            family.check_columns(len(places))

    def check_params(self, params: ProductParams, k: int, d: int) -> None:
        check_kind("components", params, ProductParams)
        if len(params.parts) != len(self.factors):
            raise InvalidInputError(
                f"there are parameters of {len(params.parts)} factors: {len(self.factors)} needed"
            )
        if params.is_joined(self.groups):  # they have the shapes of the groups then
            for group, own in self.grouped(params):
                group.family.check_params(own, k, len(group.places))
            return
        for part in self.placed(params):
            part.family.check_params(part.params, k, part.width)

    # blocks are those of all groups; their tables of sums follow that of the responsibilities

    def n_sums(self, d: int) -> int:
        return self.groups[-1].sums.stop  # type: ignore[no-any-return]

    def sums(self, params: ProductParams, x: Array, responsibilities: Array) -> Array:
        parts = [
            g.family.sums(own, x[:, g.places], responsibilities) for g, own in self.grouped(params)
        ]
        return np.hstack([responsibilities.sum(axis=0)[:, None], *parts])

    def block_shapes(self, d: int) -> tuple[BlockShape, ...]:
        parts = (group.family.block_shapes(len(group.places)) for group in self.groups)
        return tuple(shape for part in parts for shape in part)

    def to_blocks(self, params: ProductParams, table: Array) -> Blocks:
        weights = np.maximum(table.take(self._weight_columns, axis=1), 0.0)  # as in `of_sums`
        means, found = table * reciprocal(weights), list[Block]()
        for group, own in self.grouped(params):
            found += group.to_blocks(own, table, weights, means)
        return tuple(found)

    def to_sums(self, params: ProductParams, blocks: Blocks) -> Array:
        tables = [g.family.to_sums(own, blocks[g.blocks]) for g, own in self.grouped(params)]
        weight = np.max([table[:, 0] for table in tables], axis=0)
        return np.hstack([weight[:, None], *tables])

    def blocks_of(self, x: Array, responsibilities: Array) -> Blocks:
        parts = (g.family.blocks_of(x[:, g.places], responsibilities) for g in self.groups)
        return tuple(block for part in parts for block in part)

    def expected(self, params: ProductParams, weights: Array) -> Blocks:
        parts = (g.family.expected(own, weights) for g, own in self.grouped(params))
        return tuple(block for part in parts for block in part)

    def for_complete_rows(self) -> Product:
        found = [replace(f, family=f.family.for_complete_rows()) for f in self.factors]
        return replace(self, factors=tuple(found))

    # distances

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """The sum over factors, as if all columns were those that row and centre both have."""
        found = sum(f.divergence(x[:, p], centers[:, p], weight) for f, p in self._parts())
        if not self.accepts_missing:
            return np.asarray(found)
        both = (~np.isnan(x)).astype(np.float64) @ (~np.isnan(centers)).T
        return np.asarray(found * (x.shape[1] / np.maximum(both, 1.0)))

    def symmetric_kl(self, a: ProductParams, b: ProductParams) -> Array:
        pairs = zip(self.placed(a), b.parts, strict=True)
        return np.asarray(sum(p.family.symmetric_kl(p.params, other) for p, other in pairs))

    def attributes(self, params: ProductParams) -> dict[str, Any]:
        """Means of the columns, NaN where they have none, and all parameters by column."""
        shown = [p.family.attributes(p.params) for p in self.placed(params)]
        k = n_components_of(params)
        means = np.full((k, self.n_columns), np.nan)
        for part, own in zip(self.placed(params), shown, strict=True):
            if part.family.has_categories:
                own.pop("means", None)  # of codes
            elif "means" in own:
                means[:, part.places] = own["means"]
        labels = [factor.label for factor in self.factors]
        return {"means": means, "parameters": dict(zip(labels, shown, strict=True))}

    # capabilities, which a product has if all of its factors do

    @cached_property
    def _coordinates(self) -> GroupCoordinates:
        return GroupCoordinates.of(self.groups)

    @property
    def has_coordinates(self) -> bool:
        """Whether parameters of all factors have unconstrained coordinates."""
        return all(has_coordinates(factor.family) for factor in self.factors)

    @property
    def conjugate(self) -> Conjugate | None:
        """The conjugate priors of all factors; None if some factor has none."""
        known = [(factor, conjugate_of(factor.family)) for factor in self.factors]
        found = [ConjugateFactor(factor, one) for factor, one in known if one is not None]
        return ProductConjugate(found, self._divided) if len(found) == len(known) else None

    def unconstrained(self, params: ProductParams) -> Array:
        return self._in_order(params, "unconstrained")

    def coordinate_scales(self, params: ProductParams) -> Array:
        return self._in_order(params, "coordinate_scales")

    def _in_order(self, params: ProductParams, method: str) -> Array:
        parts = [getattr(g.family, method)(own) for g, own in self.grouped(params)]
        return self._coordinates.join(parts)

    def constrained(self, coordinates: Array, like: ProductParams) -> ProductParams:
        parts = zip(self.grouped(like), self._coordinates.split(coordinates), strict=True)
        joined = [cast(Any, group.family).constrained(flat, own) for (group, own), flat in parts]
        return ProductParams.of_groups(self.groups, joined)

    def degenerate(self, params: ProductParams, weights: Array) -> NDArray[np.bool_]:
        """Where a factor is at a limit; a level that does not occur in a component is none."""
        found = np.zeros((len(weights), self.n_columns), dtype=bool)
        for part in self.placed(params):
            finite = all(s.whole and s.high < np.inf for s in part.family.supports(part.width))
            if isinstance(part.family, CanDegenerate) and not finite:
                found[:, part.places] = part.family.degenerate(part.params, weights)
        return found

    # limits from data are those of the factors

    @property
    def takes_limits(self) -> bool:
        """Whether limits of some factor come from the data."""
        return any(limits_of(factor.family) is not None for factor in self.factors)

    def limited_columns(self, d: int) -> list[int]:
        parts = (places for family, places in self._parts() if limits_of(family) is not None)
        return [place for places in parts for place in places]

    def with_limits(self, x: NDArray[np.floating]) -> Product:
        return self._limited(lambda known, i, places: known.with_limits(x[:, places]))

    def with_limits_of(self, params: ProductParams, weights: Array) -> Product:
        return self._limited(lambda known, i, _: known.with_limits_of(params.parts[i], weights))

    def without_limits(self) -> Product:
        return self._limited(lambda known, i, places: known.without_limits())

    def common_limits(self, others: list[Self]) -> Product:
        def common(known: Any, i: int, places: list[int]) -> Family:
            return known.common_limits([other.factors[i].family for other in others])  # type: ignore[no-any-return]

        return self._limited(common)

    def _limited(self, change: Callable[[Any, int, list[int]], Family]) -> Product:
        """The product whose factors have other limits, where they take any."""
        found = list(self.factors)
        for i, (family, places) in enumerate(self._parts()):
            known = limits_of(family)
            if known is not None:
                found[i] = replace(found[i], family=change(known, i, places))
        return replace(self, factors=tuple(found))
