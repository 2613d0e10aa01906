"""Rows of tables with several grouping factors, all in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixfold.core.rows import Array
from mixfold.estimators._edge import check_finite
from mixfold.estimators._effects import Observed, Scaling, sum_columns, warn_of_collinear
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._formula_bars import Bar
from mixfold.estimators._matrices import finite_matrices
from mixfold.estimators._observations import Observations, open_formula, open_known, storable
from mixfold.estimators.learned_crossed import LearnedFactor
from mixfold.fitting.loop import check_some
from mixfold.models.crossed_moments import FactorRows
from mixfold.sources.grouped import check_rereadable


class Matrices(NamedTuple):
    """y, A and B of all rows, and the names of their groups in one column."""

    y: Array
    a: Array
    b: Array
    labels: np.ndarray


class CrossedRows(NamedTuple):
    """The rows of one grouping factor, in scaled coordinates."""

    design: FormulaDesign
    scaling: Scaling
    labels: list[Any]
    rows: FactorRows
    a: Array
    y: Array


def read_bars(data: Any, fixed: str, bars: list[Bar]) -> list[CrossedRows]:
    """The rows of all grouping factors; `data` are read once for each of their columns."""
    found = [_read_bar(data, fixed, bar) for bar in bars]
    warn_of_collinear(found[0].design.names, found[0].scaling)
    return found


def _read_bar(data: Any, fixed: str, bar: Bar) -> CrossedRows:
    opened = [open_formula(data, fixed, bar.random, column, None) for column in bar.columns]
    design = opened[0].design
    assert isinstance(design, FormulaDesign)
    read = [_matrices(each, response=True) for each in opened]
    observed = Observed(design)
    y, a, b, _ = read[0]
    observed.take(y, a, b)
    check_some(observed.n, 1.0)
    scaling = observed.scaling
    labels, number = _combined([each.labels for each in read])
    return CrossedRows(
        design,
        scaling,
        [storable(label) for label in labels],
        FactorRows(number, len(labels[0]), b / scaling.spread),
        np.column_stack([sum_columns(a, turn) for turn in scaling.turn.T]),
        (y - sum_columns(a, scaling.offset)) / scaling.scale,
    )


def _matrices(data: Observations, response: bool) -> Matrices:
    check_rereadable(data.source)
    parts, keys, first = [], [], 0
    for rows in data.source.blocks():
        numbers = range(first, first + len(rows))
        check_finite(data.source.columns, rows, numbers)
        parts.append(finite_matrices(data.design, rows, numbers, response=response))
        keys.append(np.array(rows.x[:, 0], dtype=np.float64))
        first += len(rows)
    check_some(first, 1.0)
    y, a, b = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Matrices(y, a, b, data.labels(np.concatenate(keys)))


def _combined(columns: list[np.ndarray]) -> tuple[list[np.ndarray], NDArray[np.intp]]:
    """The labels of all groups, column by column, and the number of the group of every row."""
    levels, codes = zip(*(np.unique(each, return_inverse=True) for each in columns), strict=True)
    groups, number = np.unique(np.column_stack(codes), axis=0, return_inverse=True)
    chosen = [level[code] for level, code in zip(levels, groups.T, strict=True)]
    return chosen, number.ravel()


def predicted(data: Any, part: LearnedFactor) -> tuple[Array, Array]:
    """A of all rows, and B z, which is zero for groups that were not in the data of `fit`."""
    designs = [replace(part.design, group=column) for column in part.columns]
    read = [_matrices(open_known(data, each, response=False), response=False) for each in designs]
    known = [np.asarray(label).tolist() for label in part.labels]
    numbers = {group: i for i, group in enumerate(zip(*known, strict=True))}
    rows = zip(*(np.asarray(storable(each.labels)).tolist() for each in read), strict=True)
    number = np.array([numbers.get(group, -1) for group in rows])
    effects = np.where(number[:, None] >= 0, part.effects[number], 0.0)
    return read[0].a, np.asarray((read[0].b * effects).sum(axis=1))
