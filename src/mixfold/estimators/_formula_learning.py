"""The constants of center, scale and poly, computed from all rows before the fit.

Rows are added in chunks of a fixed length, so that results do not depend on the blocks. Weights are
ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import fsum, sqrt
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.core.value import field_names, is_value
from mixfold.estimators._edge import check_finite
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._formula_text import formula_text
from mixfold.estimators._formula_values import polynomials
from mixfold.estimators._matrices import check_usable
from mixfold.estimators.formula_nodes import (
    HIGHEST_DEGREE,
    STANDARDIZING,
    FormulaPolynomial,
    FormulaStandardized,
    nodes_of,
)
from mixfold.fitting.loop import check_some
from mixfold.sources.grouped import check_rereadable

CHUNK = 4096
LEAST_SCALE = 1e-12  # smallest scale of a polynomial, relative to that of the first

Learned = FormulaStandardized | FormulaPolynomial


def learn_constants(design: FormulaDesign, source: Source) -> FormulaDesign:
    """The same design with the constants of its functions learned from all rows."""
    nodes = [node for factor in design.tree.factors for node in nodes_of(factor)]
    found = {formula_text(node): Constants(node) for node in nodes if isinstance(node, Learned)}
    if not found:
        return design
    check_rereadable(source)
    for number in range(1 + max(each.degree for each in found.values())):
        active = [each for each in found.values() if number <= each.degree]
        _read(design, source, active)
        for each in active:
            each.end_pass()
    return replace(design, tree=_replaced(design.tree, found))


def _read(design: FormulaDesign, source: Source, active: list[Constants]) -> None:
    first = 0
    for x in _chunks(source):
        for each in active:
            values = design.values(each.node.argument, x)
            check_usable([each.argument], values[:, None], range(first, first + len(x)))
            each.see(values)
        first += len(x)
    check_some(first, 1.0)


def _replaced(thing: Any, found: dict[str, Constants]) -> Any:
    """The tree with the computed constants in its functions."""
    if isinstance(thing, list):
        return [_replaced(item, found) for item in thing]
    if isinstance(thing, Learned):
        return found[formula_text(thing)].learned
    if is_value(thing):
        parts = {name: _replaced(getattr(thing, name), found) for name in field_names(thing)}
        return type(thing)(**parts)
    return thing


def _chunks(source: Source) -> Iterator[Array]:
    """The variables of all rows (group, variables ...), CHUNK rows at a time."""
    waiting, first = np.zeros((0, source.d - 1)), 0
    for rows in source.blocks():
        check_finite(source.columns, rows, range(first, first + len(rows)))
        first += len(rows)
        table = np.vstack([waiting, rows.x[:, 1:].astype(np.float64, copy=False)])
        whole = len(table) - len(table) % CHUNK
        for start in range(0, whole, CHUNK):
            yield table[start : start + CHUNK]
        waiting = table[whole:]
    if len(waiting):
        yield waiting


class Constants:
    """Centers and scales of orthonormal polynomials, one of each in a pass (Stieltjes)."""

    def __init__(self, node: Learned) -> None:
        self.node, self.argument = node, formula_text(node.argument)
        if isinstance(node, FormulaPolynomial):
            self.degree = node.degree
        else:
            self.degree = STANDARDIZING.index(node.function)
        self._distinct = np.zeros(0)  # as many as matter
        self._centers: list[float] = []
        self._scales: list[float] = []
        self._sums: list[tuple[float, float]] = []

    def see(self, x: Array) -> None:
        """Add rows."""
        if not self._centers:
            if len(self._distinct) <= HIGHEST_DEGREE:
                several = np.unique(np.concatenate([self._distinct, x]))
                self._distinct = several[: HIGHEST_DEGREE + 1]
            self._sums.append((float(len(x)), float(x.sum())))
            return
        squares = np.square(polynomials(x, self._centers, [*self._scales, 1.0])[-1])
        self._sums.append((float(squares.sum()), float(((x - self._centers[0]) * squares).sum())))

    def end_pass(self) -> None:
        """Compute the next center and scale from sums over all rows."""
        squares, products = (fsum(sums) for sums in zip(*self._sums, strict=True))
        self._sums = []
        self._check_distinct()
        self._check_scale(sqrt(squares))
        self._centers.append((self._centers or [0.0])[0] + products / squares)
        self._scales.append(sqrt(squares))

    def _check_distinct(self) -> None:
        number, name = len(self._distinct), formula_text(self.node)
        if number == 1:
            raise InvalidInputError(
                f"{name}: {self.argument} is {self._distinct[0]:g} in every row; leave it out"
            )
        if number <= self.degree:
            raise InvalidInputError(
                f"{name}: {self.argument} has {number} different values, and degree {self.degree} "
                f"needs {self.degree + 1}: use degree {number - 1}"
            )

    def _check_scale(self, scale: float) -> None:
        if not scale > (LEAST_SCALE * self._scales[1] if len(self._scales) > 1 else 0.0):
            raise InvalidInputError(
                f"{formula_text(self.node)}: the values of {self.argument} are too close to each "
                f"other for degree {len(self._scales)}, whose scale is {scale:g}; use another "
                "unit, or a lower degree"
            )

    @property
    def learned(self) -> Learned:
        """The function with its constants."""
        if isinstance(self.node, FormulaPolynomial):
            centers = self._centers[: self.degree]
            return replace(self.node, centers=centers, scales=self._scales)
        deviation = 1.0
        if self.degree:
            n = self._scales[0] ** 2
            deviation = self._scales[1] * sqrt(n / (n - 1.0))
        return replace(self.node, mean=self._centers[0], deviation=deviation)
