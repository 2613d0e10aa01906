"""The factors of a product of families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.core.registry import make
from mixfold.core.value import replace, value
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.gaussian import Gaussian

Name = str | int
Level = str | int | float | bool

SAME_ALONE = ("full", "spherical")  # structures that are diagonal ones of a single column


@value
class Factor:
    """Columns, by name or number, and the family of their joint distribution.

    `positions` are the numbers of the columns in the rows; None until the product is bound to them.
    `levels` are the values of a column whose cells are codes, in the order of the codes; with
    `other`, the code after the last stands for all other values.
    """

    columns: tuple[Name, ...]
    family: Family
    positions: tuple[int, ...] | None = None
    levels: tuple[Level, ...] | None = None
    other: bool = False

    def __post_init__(self) -> None:
        if self.levels is None:
            return
        family = self.family.for_complete_rows()
        most = family.levels if isinstance(family, Categorical) else 2
        coded = isinstance(family, Categorical | Bernoulli) and len(self.columns) == 1
        number = len(self.levels) + self.other
        if not coded or number > most or len(set(self.levels)) < len(self.levels):
            raise InvalidInputError(
                f"column {self.label!r} has {number} levels, such as {self.levels[:3]}, which "
                f"{self.family!r} cannot have: levels must differ, and be no more than its own"
            )

    @property
    def label(self) -> Any:
        """The column, or the columns if there are several."""
        return self.columns[0] if len(self.columns) == 1 else self.columns


class Placed(NamedTuple):
    """A factor's family, its columns and its parameters."""

    family: Family
    places: list[int]
    params: Any

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.places)


def factors_of(columns: Any, given: Any) -> Iterator[Factor]:
    """The factors of one entry of the mapping: one for each column that is independent."""
    names = tuple(columns) if isinstance(columns, tuple | list) else (columns,)
    family = make("families", given)
    if not isinstance(family, Family) or family.n_columns is not None:
        raise InvalidInputError(
            f"the family of column {columns!r} is {given!r}: give a name or a family object"
        )
    if not names or not all(isinstance(name, str | int) for name in names):
        raise InvalidInputError(f"{columns!r} is no column: give a name or number, or a tuple")
    if len(names) == 1 and isinstance(family, Gaussian) and family.structure_name in SAME_ALONE:
        family = replace(family, covariance="diag")  # the same in one column
    apart = separable(family)
    if apart is None:
        yield Factor(names, family)
    else:
        for i, name in enumerate(names):
            yield Factor((name,), apart.of_columns([i]))


def columns_in_order(factors: Sequence[Factor]) -> list[Name]:
    """The columns of all factors, in the order of the rows if it is known."""
    columns = [name for factor in factors for name in factor.columns]
    places = [place for factor in factors for place in factor.positions or ()]
    return [columns[i] for i in np.argsort(places)] if places else columns
