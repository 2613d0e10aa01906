"""Opening of sources that grow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mixfold.core.errors import SourceError
from mixfold.core.growing_source import GrowingSource
from mixfold.sources.csv_files import PLAIN, CsvOptions
from mixfold.sources.growing_folder import TEXT, GrowingFolder
from mixfold.sources.growing_stream import GrowingStream
from mixfold.sources.growing_text import GrowingText

STANDARD_INPUT = "-"


def follow(
    place: str | Path,
    columns: Sequence[str] | None = None,
    numbers: bool = True,
    options: CsvOptions = PLAIN,
) -> GrowingSource:
    """The rows that arrive in a text file, a folder, or on standard input (`-`).

    With `numbers` all columns are numbers; otherwise their types come from the first rows.
    """
    if str(place) == STANDARD_INPUT:
        return GrowingStream(0, columns, numbers, options)
    path = Path(place)
    if path.is_dir():
        return GrowingFolder(path, columns, numbers, options)
    if not path.is_file():
        raise SourceError(
            f"there is no file or folder {str(place)!r}: make it first, if only an empty one"
        )
    if options is PLAIN and not path.name.lower().endswith(TEXT):
        raise SourceError(
            f"{place} cannot be followed: give a file that ends in {', '.join(TEXT)}, a folder of "
            "such files or of Parquet files, or - for standard input"
        )
    return GrowingText(path, columns, numbers, options)
