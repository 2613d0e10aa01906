"""`-`, which stands for standard input where a file is read, and for standard output elsewhere."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from mixfold.core.errors import InvalidInputError, SourceError

DASH = "-"
STDIN = Path("/dev/stdin")
SAFETENSORS = slice(6, 9), b"\x00\x00{"  # the end of the length of a header, and its beginning
MAGIC = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrows",
    b"\x93NUMPY": ".npy",
    b"\x1f\x8b": ".csv.gz",
}

_copies: ContextVar[ExitStack] = ContextVar("temporary copies of standard input")


@contextmanager
def temporary_copies() -> Iterator[None]:
    """Remove copies of standard input when a command ends."""
    with ExitStack() as stack:
        before = _copies.set(stack)
        try:
            yield
        finally:
            _copies.reset(before)


def input_path(text: str) -> Path:
    """The path of a file to read; - is standard input."""
    return STDIN if text == DASH else Path(text)


def output_path(text: str) -> Path:
    """The path of a file to write; - is standard output."""
    from mixfold.fitting.atomic_files import STDOUT

    return STDOUT if text == DASH else Path(text)


def check_dashes(files: Sequence[str]) -> None:
    """Refuse to read standard input twice."""
    if sum(file in (DASH, str(STDIN)) for file in files) > 1:
        raise InvalidInputError(
            "- is given twice, and standard input can be read once: name a file in place of one"
        )


def with_stdin(files: Sequence[str]) -> list[str]:
    """The files, with a temporary copy of standard input in place of -."""
    check_dashes(files)
    return [str(read_stdin()) if file in (DASH, str(STDIN)) else file for file in files]


def read_stdin() -> Path:
    """Copy standard input to a temporary file.

    Fits read rows several times, and need a sample before the first one. The name of the file tells
    what its first bytes are: Parquet, Arrow, a NumPy array, a model, or else CSV.
    """
    stack = _copies.get()
    if sys.stdin is None or sys.stdin.closed:
        raise SourceError("- is standard input, which is closed: redirect a file to it")
    if sys.stdin.isatty():
        raise SourceError(
            "- is standard input, which is a terminal: send rows to it, as in "
            "'mixfold fit - -k 2 < rows.csv'"
        )
    path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mixfold-")), "stdin")
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    with path.open("rb") as file:
        first = file.read(9)
    if not first:
        raise SourceError("standard input is empty: a file with at least one row is needed")
    return path.rename(path.with_suffix(_suffix(first)))


def _suffix(first: bytes) -> str:
    place, model = SAFETENSORS
    if first[place] == model:
        return ".mixfold"
    return next((suffix for magic, suffix in MAGIC.items() if first.startswith(magic)), ".csv")
