"""Conversion of tables, files and arrays to rows of (group, variables ...)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mixfold.core.engine import refuse_partitions
from mixfold.core.errors import InvalidInputError
from mixfold.core.places import row_place
from mixfold.core.rows import Array as Floats
from mixfold.core.schema import description
from mixfold.core.source import Source
from mixfold.estimators._arrays import Features, column_names
from mixfold.estimators._effects import ArrayDesign
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._formula_learning import learn_constants
from mixfold.estimators._formula_levels import FormulaLevelTable
from mixfold.estimators._formula_parser import parse_formulas
from mixfold.estimators._formula_tree import FormulaTree
from mixfold.sources.array_source import ArraySource
from mixfold.sources.dates import is_temporal
from mixfold.sources.grouped import in_memory
from mixfold.sources.opening import dict_as_table, open_source
from mixfold.sources.table import Codes, is_missing, is_number, is_numeric

ARRAYS_NEEDED = {
    "y": "y is needed, or a formula: the model requires y to be passed, but the target y is None",
    "groups": "groups is needed: fit(X, y, groups); or use group=0 if the first column of X tells "
    "groups apart, or a formula",
}


class Observations(NamedTuple):
    """Rows whose first column is the group's number, and what their columns mean.

    `groups` are the names of groups by number, or None where the number is the name.
    """

    source: Source
    design: FormulaDesign | ArrayDesign
    groups: list[Any] | np.ndarray | None

    def labels(self, keys: Floats) -> np.ndarray:
        """The names of groups."""
        if self.groups is not None:
            return np.asarray(self.groups)[keys.astype(np.intp)]
        return keys.astype(np.int64) if (keys == np.floor(keys)).all() else keys

    def label(self, key: float) -> Any:
        """The name of one group."""
        return self.labels(np.array([key]))[0]


def open_formula(
    data: Any, formula: str, random: str, group: Any, group_weight: Any
) -> Observations:
    """Rows of a table or file with the columns that formulas need."""
    if not isinstance(group, str):
        raise InvalidInputError(f"group is {group!r}: the name of the column of groups is needed")
    if group_weight is not None and not isinstance(group_weight, str):
        raise InvalidInputError(
            "group_weight for tables and files is the name of a column, "
            f"not a {type(group_weight).__name__}"
        )
    tree = parse_formulas(formula, random)
    names = tree.all_columns
    _check_roles(formula, names, group, group_weight)
    codes = Codes(tree.level_columns, free={group})
    source = _open(data, [group, *names], group_weight, codes)
    if source.rereadable and not in_memory(source) and needs_codes(source):
        for _ in source.blocks():  # all levels must be known before the first matrix is made
            pass
    _check_types(tree, codes)
    design = FormulaDesign(tree, group, names, [_levels(name, codes) for name in names])
    return Observations(source, learn_constants(design, source), codes.values.get(group))


def _check_roles(formula: str, names: list[str], group: str, weight: str | None) -> None:
    for role, name, other, taken in (
        ("group", group, repr(formula), names),
        ("group_weight", weight, repr(formula), names),
        ("group_weight", weight, "group", [group]),
    ):
        if name in taken:
            raise InvalidInputError(
                f"{role} is {name!r}, which is also used in {other}: give a copy of the column "
                "under another name"
            )


def _levels(name: str, codes: Codes) -> FormulaLevelTable | None:
    if name not in codes.values:
        return None
    return FormulaLevelTable(list(codes.values[name]), is_number(codes.types[name]))


def _check_types(tree: FormulaTree, codes: Codes) -> None:
    for name in tree.columns("response"):
        if not is_numeric(codes.types[name]):
            raise InvalidInputError(
                f"the response has column {name!r}, which is {codes.types[name]}, not numeric"
            )
    for name in tree.all_columns:
        if is_temporal(codes.types[name]) and name not in codes.always:
            raise InvalidInputError(
                f"column {name!r} is {codes.types[name]}: write C({name}) if its values are "
                "levels, or make it a number"
            )


def _open(data: Any, columns: list[str], weight: str | None, codes: Codes) -> Source:
    refuse_partitions(data)
    source = open_source(dict_as_table(data), columns, weight, codes)
    if source.columns is None or list(source.columns) != columns:
        raise InvalidInputError(
            f"a formula needs a table or file with column names, not a {type(data).__name__}"
        )
    return source


def needs_codes(source: Source) -> bool:
    """Whether values of a source that are not numeric are replaced by codes."""
    parts = getattr(source, "parts", [source])
    return any(getattr(getattr(part, "selection", None), "coded", True) for part in parts)


def open_known(data: Any, design: FormulaDesign, response: bool) -> Observations:
    """Rows of a table or file with the levels that `design` knows, with or without response."""
    wanted = design.columns if response else design.tree.effect_columns
    tables = zip(design.columns, design.levels, strict=True)
    known = {name: table.values for name, table in tables if table and name in wanted}
    codes = Codes(known=known, free={design.group})
    source = _open(data, [design.group, *wanted], None, codes)
    return Observations(source, design, codes.values.get(design.group))


def open_arrays(
    features: Features, y: Any, z: Any, design: ArrayDesign, weight: Any
) -> Observations:
    """Rows of arrays; `design` says where groups stand, and whether there is an intercept."""
    x, names, groups = features
    for name, given in (("y", y), ("groups", groups)):
        if given is None:
            raise InvalidInputError(ARRAYS_NEEDED[name])
    keys, numbers = np.unique(_keys(groups, len(x)), return_inverse=True)
    parts = [numbers.astype(np.float64)[:, None], _numbers("y", y, len(x))[:, None], x]
    random_names: list[str] = []
    if z is not None:
        z, random_names = _table("Z", z)
        if len(z) != len(x):
            raise InvalidInputError(f"Z has {len(z)} rows, X has {len(x)}")
        parts.append(z)
    if weight is not None:
        weight = _numbers("group_weight", weight, len(x))
    design = replace(design, features=names, random_features=random_names)
    columns = ["groups", "y", *names, *(f"Z:{name}" for name in random_names)]
    return Observations(ArraySource(np.hstack(parts), weight, columns), design, keys)


def _table(name: str, given: Any) -> tuple[Floats, list[str]]:
    try:
        x = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"{name} is not numeric; for categorical columns give a formula and a table"
        ) from None
    if x.ndim != 2:
        raise InvalidInputError(f"{name} has shape {x.shape}: rows and columns are needed")
    return x, column_names(given, x.shape[1], "z")


def _keys(given: Any, n: int) -> np.ndarray:
    """The groups as numbers or text."""
    column = _column("groups", given, n)
    objects = column.dtype.kind == "O"
    missing = np.array([*map(is_missing, column)]) if objects else np.not_equal(column, column)
    if missing.any():
        i = int(missing.argmax())
        raise InvalidInputError(
            f"groups has {column[i]} in {row_place(i)}: every row needs a group"
        )
    column = _plain(column)
    return column if column.dtype.kind in "iufb" else column.astype(str)


def _plain(column: np.ndarray) -> np.ndarray:
    """Convert an array of objects to the dtype of its values."""
    return np.asarray(column.tolist()) if column.dtype.kind == "O" else column


def _column(name: str, given: Any, n: int) -> np.ndarray:
    column = np.asarray(given)
    if column.shape != (n,):
        raise InvalidInputError(f"{name} has shape {column.shape}: ({n},) is needed, as X has rows")
    return column


def _numbers(name: str, given: Any, n: int) -> Floats:
    column = _plain(_column(name, given, n))
    if column.dtype.kind not in "iufb":
        raise InvalidInputError(f"{name} is {column.dtype}: numbers are needed")
    return column.astype(np.float64)


def positions(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The position of each name among the known ones, -1 for unknown names."""
    if (known.dtype.kind in "iufb") != (wanted.dtype.kind in "iufb"):
        return np.full(len(wanted), -1)
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)
    return np.where(known[order[place]] == wanted, order[place], -1)


def check_labels(groups: Any, n: int) -> None:
    """Raise an error unless there are n names of groups."""
    names = isinstance(groups, list) and all(isinstance(name, str) for name in groups)
    numbers = isinstance(groups, np.ndarray) and groups.dtype.kind in "iufb"
    if not (names or numbers) or np.shape(groups) != (n,):
        raise InvalidInputError(f"groups are {description(groups)}: {n} names are needed")


def storable(groups: np.ndarray) -> Any:
    """Names of groups as a model file can hold them."""
    return groups if groups.dtype.kind in "iufb" else [str(name) for name in groups]
