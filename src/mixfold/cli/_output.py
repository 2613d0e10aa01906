"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.sources._table import arrow

Columns = dict[str, np.ndarray]


def check_writable(path: Path) -> None:
    """Refuse an output that cannot be written, before any work is done for it."""
    if path.is_dir():
        raise InvalidInputError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise InvalidInputError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `path` when all has gone well."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class Writer(Protocol):
    """Takes blocks of columns."""

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


def check_table(path: Path) -> None:
    """Refuse a table that cannot be written, or of a kind we do not know."""
    if path.suffix.lower() not in KINDS:
        raise InvalidInputError(
            f"cannot write {path}: the name must end in one of {', '.join(KINDS)}"
        )
    check_writable(path)


def write_table(path: Path, blocks: Iterator[Columns]) -> int:
    """Write blocks one by one, by the suffix of `path`; returns the number of rows."""
    n = 0
    with replacing(path) as file:
        writer = KINDS[path.suffix.lower()](file)
        for block in blocks:
            writer.write(block)
            n += len(next(iter(block.values())))
        writer.close()
    return n


def column_names(model: Any) -> Sequence[str]:
    """The columns a model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{i}" for i in range(model.n_features_in_)]
    return [str(name) for name in names]
