"""Opening of the user's data as a source."""

from __future__ import annotations

from collections.abc import Iterable as Many
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.arrays import as_array, is_array
from mixfold.core.errors import InvalidInputError, SourceError, warn
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.sources._reading import reading
from mixfold.sources.array_source import ArraySource, as_floats
from mixfold.sources.block_source import BlockSource
from mixfold.sources.concatenated import Concatenated
from mixfold.sources.csv import Csv
from mixfold.sources.csv_files import CsvFiles
from mixfold.sources.location import Location, RemoteFile, size_of
from mixfold.sources.object_source import source_for
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.paths import Paths, expand, kind_of_file
from mixfold.sources.remote_files import RemoteFiles
from mixfold.sources.table import Codes, Selection
from mixfold.sources.unusual_columns import fields_of, with_plain_columns


def open_source(
    data: Any,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    codes: Codes | None = None,
) -> Source:
    """A source over files, tables, arrays, objects that a source reads, or iterables of blocks."""
    if isinstance(data, Source):
        return data
    if is_paths(data):
        return open_files(data, columns, weight, codes)
    kind = source_for(data)
    if kind is not None:
        return kind.over(data, columns, weight, codes)
    if is_table(data):
        return open_table(data, columns, weight, codes)
    if isinstance(data, np.ndarray):
        return ArraySource(check_array(data))
    if isinstance(data, Many):
        return BlockSource(
            data, lambda block, names: block_rows(block, names or columns, weight, codes)
        )
    raise InvalidInputError(f"cannot read rows from a {type(data).__name__}")


def as_plain(data: Any) -> Any:
    """An array with named fields as a table, and frames without sparse columns and the like."""
    if isinstance(data, np.ndarray) and data.dtype.names is not None:
        return dict_as_table(fields_of(data))
    return with_plain_columns(data)


def dict_as_table(data: Any) -> Any:
    """A dict of columns as a table; anything else as it is."""
    if not isinstance(data, dict):
        return data
    columns = {name: np.asarray(column) for name, column in data.items()}
    for name, column in columns.items():
        first = next(iter(columns.values())).shape
        if column.ndim != 1 or column.shape != first:
            raise InvalidInputError(
                f"column {name!r} has shape {column.shape}: columns of one length are needed, and "
                f"the first has shape {first}"
            )
    try:
        return arrow().table(columns)
    except arrow().ArrowException as error:
        raise InvalidInputError(f"the columns do not form a table: {error}") from None


def is_paths(data: Any) -> bool:
    """Whether `data` is a path, a list of nothing but paths, or files with options."""
    if isinstance(data, str | Path | RemoteFile | RemoteFiles | CsvFiles):
        return True
    is_list = isinstance(data, list | tuple) and len(data) > 0
    return is_list and all(isinstance(item, str | Path | RemoteFile) for item in data)


def is_table(data: Any) -> bool:
    """Whether `data` is an Arrow, polars or pandas table."""
    return hasattr(data, "__arrow_c_stream__") and not isinstance(data, np.ndarray)


def is_blocks(data: Any) -> bool:
    """Whether `data` is an iterable of blocks rather than of numbers."""
    if hasattr(data, "__array__") or is_table(data) or hasattr(data, "__len__"):
        return isinstance(data, list | tuple) and len(data) > 0 and all(map(_is_block, data))
    return isinstance(data, Many)


def _is_block(item: Any) -> bool:
    return is_table(item) or (is_array(item) and item.ndim == 2)


def open_table(
    table: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None = None
) -> ArraySource:
    """A table in memory."""
    rows, names = table_rows(table, columns, weight, codes)
    return ArraySource(rows.x, rows.weight, names)


def table_rows(
    table: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None = None
) -> tuple[Rows, list[str]]:
    """Rows and column names of a table of any library with an Arrow interface."""
    converted = as_table(table)
    selection = Selection(converted.schema, columns, weight, "the table", codes)
    return selection.rows(converted, 0), selection.columns


def as_table(data: Any) -> Any:
    """Convert a table of any library with an Arrow interface to an Arrow table.

    pandas converts frames slowly, column by column; frames of a single numeric dtype are converted
    here. The index of a frame is no column.
    """
    pa = arrow()
    if not _is_plain_frame(data):
        return _converted(with_plain_columns(data))
    arrays = [pa.array(column, from_pandas=True) for column in data.to_numpy().T]
    return pa.table(arrays, names=[str(name) for name in data.columns])


def _converted(data: Any) -> Any:
    pa = arrow()
    frame = type(data).__module__.partition(".")[0] == "pandas"
    try:
        return pa.Table.from_pandas(data, preserve_index=False) if frame else pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        why = "; ".join(str(part) for part in reversed(error.args))
        raise InvalidInputError(
            f"the table cannot be read: {why}: columns with names of their own are needed, each "
            "with values of one type"
        ) from None


def _is_plain_frame(data: Any) -> bool:
    """Whether `data` is a pandas frame of numbers of one type, whose index is no column."""
    index = type(getattr(data, "index", None)).__name__
    if index != "RangeIndex" or not len(data.columns) or not hasattr(data, "to_numpy"):
        return False
    kinds = set(data.dtypes)
    return all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in kinds) and (
        len(kinds) == 1 and all(isinstance(name, str | int) for name in data.columns)
    )


def block_rows(
    block: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None = None
) -> tuple[Rows, Sequence[str] | None]:
    """Rows of one block of an iterable, and their column names if it is a table."""
    if is_table(block):
        return table_rows(block, columns, weight, codes)
    return Rows(as_floats(check_array(np.asarray(as_array(block))))), None


def check_array(x: np.ndarray) -> np.ndarray:
    """Raise an error for arrays that are not two-dimensional or not numeric."""
    if x.ndim != 2:
        raise InvalidInputError(f"a block has shape {x.shape}: rows and columns are needed")
    if x.dtype.kind not in "fiub":
        raise InvalidInputError(f"a block has dtype {x.dtype}: numbers are needed")
    return x


def open_files(
    given: Paths | CsvFiles,
    columns: Sequence[str] | None,
    weight: str | None,
    codes: Codes | None = None,
) -> Source:
    """One source over all files that paths, folders and globs name."""
    if isinstance(given, CsvFiles):
        options, files = given, expand(given.paths, Csv.suffixes)
    else:
        options, files = None, expand(given)

    def opened(file: Location, columns: Sequence[str] | None) -> Source:
        _check_not_empty(file)
        if options is not None:
            _check_text(file)
            return Csv(file, columns, weight, codes, options)
        source: Source = _kind(file)(file, columns, weight, codes)
        return source

    parts = [opened(file, columns) for file in files]
    warn_of_indices(parts)
    first = parts[0].columns
    for i, part in enumerate(parts):
        if part.columns != first and set(part.columns or ()) == set(first or ()):
            parts[i] = opened(files[i], first)
    return parts[0] if len(parts) == 1 else Concatenated(parts, [str(f) for f in files])


def warn_of_indices(parts: Sequence[Source]) -> None:
    """Warn that a first column without a name is not used."""
    found = [part.path for part in parts if isinstance(part, Csv) and part.left_out]
    if found:
        more = f" (and in {len(found) - 1:,} more files)" if len(found) > 1 else ""
        warn(
            f"{found[0]}: the first column has no name, as the index that to_csv writes: it is "
            f"left out{more}; to use it, name it with CsvFiles(..., header=True, column_names=[...]"
            ") (--header --column-names A,B,...), or write the file with index=False"
        )


def _check_not_empty(path: Location) -> None:
    with reading(path):
        if size_of(path) == 0:
            raise SourceError(f"{path} is empty (0 bytes)")


def _check_text(path: Location) -> None:
    kind = kind_of_file(path)
    if kind is not None and kind is not Csv:
        raise SourceError(f"{path} is no CSV file, and CSV options are given: read it without them")


def _kind(path: Location) -> Any:
    kind = kind_of_file(path)
    if kind is None:
        kinds = [s for s in find_all("sources").values() if hasattr(s, "suffixes")]
        known = sorted(suffix for k in kinds for suffix in k.suffixes)
        raise SourceError(
            f"{path}: unknown kind of file; known are {', '.join(known)}; a text table of another "
            "name is read with CsvFiles(path, delimiter=...) (--delimiter)"
        )
    return kind
