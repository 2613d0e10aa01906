"""Tables as files."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.fitting.atomic_files import STDOUT, check_output, is_special, replacing
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


def _arrow(file: IO[bytes]) -> Writer:
    return ArrowWriter(file, arrow().ipc.new_file)


def _arrow_stream(file: IO[bytes]) -> Writer:
    return ArrowWriter(file, arrow().ipc.new_stream)


KINDS: dict[str, Callable[[IO[bytes]], Writer]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".arrow": _arrow,
    ".arrows": _arrow_stream,
    ".npy": NpyWriter,
}

FORMATS = {"csv": ".csv", "arrow": ".arrows"}  # on standard output
IN_ORDER = (".csv", ".arrows")  # nothing that is written is changed later
# no table is compressed more than this
CELLS_PER_BYTE = {".parquet": 16, ".csv": 1, ".arrow": 1, ".arrows": 1, ".npy": 1}


def check_table(path: Path, kind: str | None, force: bool) -> None:
    """Refuse a table that cannot be written, is of an unknown kind, or exists already.

    `kind` is that of a table on standard output, "csv" or "arrow"; None is CSV.
    """
    if kind is not None and not is_special(path):
        raise InvalidInputError(
            f"--format {kind} is for standard output, and the output is {path}: use -o -, or let "
            "the name of the file tell its kind"
        )
    suffix = _suffix(path, kind)
    if path == STDOUT and suffix != ".csv" and sys.stdout.isatty():
        raise InvalidInputError(f"--format {kind} is no text: redirect it to a file or a program")
    check_new(path, force)


def check_new(path: Path, force: bool) -> None:
    """Refuse a file that cannot be written, or exists already."""
    check_output(path)
    if path.is_file() and not is_special(path) and not force:
        raise InvalidInputError(f"{path} exists: choose another -o, or replace it with --force")


def check_room(path: Path, kind: str | None, rows: int, columns: int) -> None:
    """Refuse a table that is certainly larger than the free disk space."""
    folder = tempfile.gettempdir() if is_special(path) else Path(os.path.realpath(path)).parent
    needed, free = (
        rows * columns // CELLS_PER_BYTE[_suffix(path, kind)],
        shutil.disk_usage(folder).free,
    )
    if needed > free:
        raise InvalidInputError(
            f"{rows:,} rows of {columns} columns need at least {needed // 10**9:,} GB, and "
            f"{free // 10**9:,} GB are free in {folder}: write fewer rows, or elsewhere"
        )


def write_table(path: Path, kind: str | None, blocks: Iterator[Columns]) -> int:
    """Write blocks one by one, by the suffix of `path`; returns the number of rows.

    To standard output they are written as they come.
    """
    n, suffix = 0, _suffix(path, kind)
    sending = path == STDOUT and suffix in IN_ORDER
    with _standard_output() if sending else replacing(path) as file:
        writer = KINDS[suffix](file)
        for block in blocks:
            writer.write(block)
            n += len(next(iter(block.values())))
        writer.close()
    return n


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    with os.fdopen(os.dup(1), "wb") as file:
        yield file


def _suffix(path: Path, kind: str | None) -> str:
    """The suffix that gives the kind of table; streams without one are written as CSV."""
    if kind is not None:
        if kind not in FORMATS:
            raise unknown_name("--format", kind, FORMATS)
        return FORMATS[kind]
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
