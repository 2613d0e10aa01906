"""Opening of data of which some rows have known labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mixfold.core.engine import engine_holding
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.estimators._cells import Cells
from mixfold.estimators._edge import is_source, remember_columns
from mixfold.estimators._known_labels import (
    KnownLabels,
    check_some_known,
    known_in,
    label_array,
    named_labels,
)
from mixfold.sources.array_source import ArraySource
from mixfold.sources.labelled import Labelled, LabelledArray
from mixfold.sources.opening import is_blocks, is_table, open_source
from mixfold.sources.table import Codes, check_names

LABEL = "label"  # the name of the column in error messages


@dataclass(frozen=True)
class Labelling:
    """The labels that the user gives: of every row, or the name of a column of files; or none."""

    given: Any = None

    @property
    def column(self) -> str | None:
        """The column of files that holds the labels."""
        return self.given if isinstance(self.given, str) else None

    def known(self, classes: Sequence[Any] | None, k: int, data: Any) -> KnownLabels | None:
        """The labels that the data and the user name; None if there are none."""
        if self.given is None:
            return None if classes is None else named_labels(classes, [], k)
        if self.column is not None:
            return self._known_in_files(classes, k, data)
        array = label_array(self.given)
        found = set(array[known_in(array)].tolist()) if array.ndim == 1 else set[Any]()
        known = named_labels(classes, [*found], k)
        if array.ndim == 1:
            check_some_known(known.codes(array, len(array)))
        return known

    def _known_in_files(self, classes: Sequence[Any] | None, k: int, data: Any) -> KnownLabels:
        name, codes = self.column, Codes(missing=True)
        if _once(data):
            return named_labels(classes, [], k)
        source = open_source(data, [str(name)], None, codes)
        blocks = [np.unique(rows.x[:, 0]) for rows in source.blocks()]
        column = np.unique(np.concatenate(blocks)) if blocks else np.empty(0)
        text = codes.values.get(str(name))
        known = named_labels(classes, text or [], k)
        if text is not None:
            column = known.codes(np.array(text, dtype=object), len(text))
        check_some_known(known.codes_of_numbers(column) if text is None else column)
        return known

    def features(self, data: Any, sample_weight: Any) -> list[str] | None:
        """The columns of files that are neither labels nor weights; None for other data."""
        if self.column is None:
            return None
        if _once(data):
            raise InvalidInputError(
                f"labels={self.column!r} of blocks that can be read only once: name the other "
                "columns in columns=[...]"
            )
        names = open_source(data, None, None, Codes(missing=True)).columns or ()
        return [name for name in names if name not in (self.column, sample_weight)]

    def cells(self, cells: Cells, known: KnownLabels | None) -> Cells:
        """How cells are read, with those of the column of labels."""
        if self.column is None or known is None:
            return cells
        text = {self.column: tuple(known.names)} if known.has_text else {}
        return replace(cells, missing=True, levels={**cells.levels, **text})

    def open_files(
        self,
        estimator: Any,
        data: Any,
        sample_weight: Any,
        columns: Sequence[str] | None,
        cells: Cells,
        known: KnownLabels,
        reset: bool,
    ) -> Source:
        """The rows of files with a column of labels."""
        name = str(self.column)
        if columns is None and not reset:
            columns = getattr(estimator, "feature_names_in_", None)
        wanted = None if columns is None else [*(one for one in columns if one != name), name]
        source = open_source(data, wanted, sample_weight, cells.codes)
        if source.columns is None:
            raise InvalidInputError(
                f"labels={name!r} needs a table or file with column names: blocks that are arrays "
                "have none"
            )
        check_names(source.columns, [name], "the data")
        if source.d < 2:
            raise InvalidInputError(f"labels={name!r} is the only column of the data")
        labelled = Labelled(source, name, known.codes_in_table)
        names = list(labelled.columns or ())[:-1]
        remember_columns(estimator, names, len(names), reset)
        return labelled

    def attached(self, source: Source, known: KnownLabels) -> LabelledArray:
        """Rows in memory with their labels."""
        if not isinstance(source, ArraySource):
            raise InvalidInputError(
                "labels of files, streams and tensors are not an array: give rows in memory on the "
                "CPU, or for files the name of a column"
            )
        return with_codes(source, self._codes(known, source.length))

    def _codes(self, known: KnownLabels, n: int) -> Array:
        return np.full(n, -1.0) if self.given is None else known.codes(self.given, n)


def divided(data: Any, labels: Any) -> tuple[Any, Labelling]:
    """The data without a column of labels, if they are a table in memory, and the labels."""
    if not isinstance(labels, str):
        return data, Labelling(labels)
    if engine_holding(data) is not None:
        raise InvalidInputError(
            f"labels={labels!r} of a {type(data).__name__}, whose rows are with workers: give files"
        )
    if not is_table(data) or not (hasattr(data, "columns") and hasattr(data, "__getitem__")):
        if is_source(data):
            return data, Labelling(labels)
        raise InvalidInputError(
            f"labels={labels!r} needs a table or file with column names: "
            f"a {type(data).__name__} has none"
        )
    arrow = hasattr(data, "column_names")
    names = list(data.column_names if arrow else data.columns)
    check_names(names, [labels], "the table")
    rest = [name for name in names if name != labels]
    return (data.select(rest) if arrow else data[rest]), Labelling(data[labels])


def with_codes(source: ArraySource, codes: Array) -> LabelledArray:
    """Rows in memory with a column of codes."""
    rows = source.whole().x
    x = np.empty((source.length, source.d + 1), rows.dtype, "C" if rows.flags.c_contiguous else "F")
    x[:, :-1], x[:, -1] = rows, codes
    columns = None if source.columns is None else [*source.columns, LABEL]
    return LabelledArray(x, source.weight, columns)


def _once(data: Any) -> bool:
    """Whether data can be read only once."""
    if isinstance(data, Source):
        return not data.rereadable
    return is_blocks(data) and iter(data) is data
