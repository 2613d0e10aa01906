"""Tables as files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.fitting.atomic_files import check_output, is_special, replacing
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.table import is_numeric

Columns = dict[str, np.ndarray]


class Writer(Protocol):
    """Writes blocks of columns."""

    def write(self, block: Columns) -> None: ...
    def close(self) -> None: ...


class ArrowWriter:
    """Blocks as Arrow tables, to a writer that needs the first one's schema."""

    def __init__(self, file: IO[bytes], make: Callable[[IO[bytes], Any], Any]) -> None:
        self.file, self.make = file, make
        self.writer: Any = None

    def write(self, block: Columns) -> None:
        table = arrow().table(block)
        if self.writer is None:
            self.writer = self.make(self.file, table.schema)
        self.writer.write_table(table)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


class NpyWriter:
    """Blocks as rows of one float64 array; the header is written again when n is known."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.n, self.d = file, 0, 0

    def write(self, block: Columns) -> None:
        for name, column in block.items():
            _check_numbers(name, column)
        rows = np.stack(list(block.values()), axis=1).astype(np.float64)
        if self.n == 0:
            self.d = rows.shape[1]
            self._header()
        self.file.write(rows.tobytes())
        self.n += len(rows)

    def _header(self) -> None:
        # NumPy leaves room in headers for n to grow
        shape = {"descr": "<f8", "fortran_order": False, "shape": (self.n, self.d)}
        np.lib.format.write_array_header_1_0(self.file, shape)

    def close(self) -> None:
        self.file.seek(0)
        self._header()


def _check_numbers(name: str, column: Any) -> None:
    """Refuse columns of text or dates."""
    kind = getattr(column, "type", None)
    if kind is not None and not is_numeric(kind):
        raise InvalidInputError(
            f"column {name!r} is {kind}, and .npy files hold numbers only: write to a .csv or "
            ".parquet file"
        )


def _parquet(file: IO[bytes]) -> Writer:
    arrow()
    import pyarrow.parquet

    return ArrowWriter(file, pyarrow.parquet.ParquetWriter)


def _csv(file: IO[bytes]) -> Writer:
    arrow()
    import pyarrow.csv

    return ArrowWriter(file, pyarrow.csv.CSVWriter)


KINDS: dict[str, Callable[[IO[bytes]], Writer]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".npy": NpyWriter,
}

CELLS_PER_BYTE = {".parquet": 16, ".csv": 1, ".npy": 1}  # no table is compressed more than this


def check_table(path: Path, force: bool) -> None:
    """Refuse a table that cannot be written, has an unknown suffix, or exists already."""
    _suffix(path)
    check_new(path, force)


def check_new(path: Path, force: bool) -> None:
    """Refuse a file that cannot be written, or exists already."""
    check_output(path)
    if path.is_file() and not is_special(path) and not force:
        raise InvalidInputError(f"{path} exists: choose another -o, or replace it with --force")


def check_room(path: Path, rows: int, columns: int) -> None:
    """Refuse a table that is certainly larger than the free disk space."""
    folder = tempfile.gettempdir() if is_special(path) else Path(os.path.realpath(path)).parent
    needed, free = rows * columns // CELLS_PER_BYTE[_suffix(path)], shutil.disk_usage(folder).free
    if needed > free:
        raise InvalidInputError(
            f"{rows:,} rows of {columns} columns need at least {needed // 10**9:,} GB, and "
            f"{free // 10**9:,} GB are free in {folder}: write fewer rows, or elsewhere"
        )


def write_table(path: Path, blocks: Iterator[Columns]) -> int:
    """Write blocks one by one, by the suffix of `path`; returns the number of rows."""
    n = 0
    with replacing(path) as file:
        writer = KINDS[_suffix(path)](file)
        for block in blocks:
            writer.write(block)
            n += len(next(iter(block.values())))
        writer.close()
    return n


def _suffix(path: Path) -> str:
    """The suffix that gives the kind of table; streams without one are written as CSV."""
    suffix = path.suffix.lower()
    if suffix in KINDS:
        return suffix
    if is_special(path):
        return ".csv"
    raise InvalidInputError(f"cannot write {path}: the name must end in one of {', '.join(KINDS)}")


def table_columns(model: Any, rows: Any) -> Columns:
    """Columns of rows that a model has made: an array, or a table with its names."""
    names = column_names(model)
    if isinstance(rows, np.ndarray):
        return dict(zip(names, rows.T, strict=True))
    table = arrow().table(rows) if hasattr(rows, "schema") else arrow().Table.from_pandas(rows)
    return {name: table.column(name) for name in names}


def column_names(model: Any) -> Sequence[str]:
    """The columns a model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{i}" for i in range(model.n_features_in_)]
    return [str(name) for name in names]
