"""The terms of products as functions of values of the rows, as kernels for devices compute them.

A value is a column of the rows, or one where a row has a level of a category, or one where its cell
is observed. All terms are linear in values but those of normal distributions, which have columns of
their own. So log densities and sums of all other terms are products of two matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mixfold.core.rows import Array
from mixfold.kernels._factors import Divided, Factor

COLUMN, LEVEL, OBSERVED = range(3)


class Values(NamedTuple):
    """Values of one kind: their columns, levels, positions in the table of sums, coefficients."""

    kind: int
    columns: list[int]
    levels: list[int]
    positions: list[int]
    coefficients: Array


class Normal(NamedTuple):
    """A column with a normal term: c, m and s (K, 3), the positions of its total and two sums."""

    column: int
    parameters: Array
    total: int
    positions: list[int]


class TermValues(NamedTuple):
    """All terms of a product: values of all kinds in order, and normal terms.

    `offset` (K,) are log weights and the constants of terms whose cells are never missing, `counts`
    the columns with x! in the base measure, `order` where the entries of the table of sums are in
    the list of: total responsibilities, sums of values, first and second moments of normal terms.
    """

    values: list[Values]
    normal: list[Normal]
    offset: Array
    counts: list[int]
    order: list[int]

    @property
    def coefficients(self) -> Array:
        """The offset and the coefficients of all values, (K, 1 + p)."""
        return np.hstack([self.offset[:, None], *(part.coefficients for part in self.values)])

    def columns(self, kind: int) -> list[int]:
        """The columns of the values of one kind."""
        return [j for part in self.values if part.kind == kind for j in part.columns]

    @property
    def levels(self) -> list[int]:
        """The levels of all values, 0 where they have none."""
        return [level for part in self.values for level in part.levels]

    def of_normal(self, number: int) -> Array:
        """A parameter of all normal terms, (K, c)."""
        nothing = np.empty((len(self.offset), 0))
        return np.hstack([nothing, *(one.parameters[:, [number]] for one in self.normal)])


def term_values(divided: Divided, log_weights: Array) -> TermValues:
    """The terms of factors, all of which have one."""
    assert not divided.others, f"{divided.others[0].group.family!r} has no term"
    found = TermValues([], [], log_weights.copy(), [], [0] * len(divided.layout.sources))
    first = 0
    for factor in divided.layout.factors:
        last = first + factor.n_parameters
        _add(found, factor, divided.parameters[:, first:last])
        first = last
    found.values.sort(key=lambda part: part.kind)
    places = [place for part in found.values for place in part.positions]
    places += [one.positions[moment] for moment in range(2) for one in found.normal]
    for number, place in enumerate(places):
        found.order[place] = number + 1
    return found


def _add(found: TermValues, factor: Factor, coefficients: Array) -> None:
    total, positions = 0, factor.positions.tolist()
    if factor.missing:
        total, *positions = positions
    constant = np.zeros(len(coefficients))
    if factor.kind == "levels":
        levels = list(range(len(positions)))
        columns = factor.places * len(positions)
        found.values.append(Values(LEVEL, columns, levels, positions, coefficients))
    elif factor.kind == "linear":
        constant, coefficients = coefficients[:, 0], coefficients[:, 1:]
        none = [0] * len(positions)
        found.values.append(Values(COLUMN, factor.places, none, positions, coefficients))
        found.counts.extend(factor.places if factor.base_measure == "factorial" else [])
    else:
        constant = coefficients[:, 0]
        found.normal.append(Normal(factor.places[0], coefficients, total, positions))
    if factor.missing:
        found.values.append(Values(OBSERVED, factor.places, [0], [total], constant[:, None]))
    else:
        found.offset[:] += constant
