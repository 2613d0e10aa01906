"""Detection of the options that a CSV file needs from its first lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from mixfold.core.errors import SourceError
from mixfold.sources.csv_files import CsvOptions
from mixfold.sources.location import Location
from mixfold.sources.table import listed

OTHERS = {";": "';'", "\t": "'\\t'", "|": "'|'", " ": "' '", ",": "','"}
DECIMAL_COMMA = re.compile(r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$")


class FirstLines(NamedTuple):
    """The first two lines, the delimiter and the quote character."""

    texts: list[str]
    delimiter: str
    quote: str | None

    def cells(self, line: int, delimiter: str | None = None) -> list[str]:
        """The cells of a line; differences from Arrow's parser do no harm here."""
        quoting = {"quotechar": self.quote} if self.quote else {"quoting": csv.QUOTE_NONE}
        between: Any = {"delimiter": delimiter or self.delimiter, **quoting}
        try:
            return next(csv.reader([self.texts[line]], **between), [])
        except csv.Error:
            return []


def other_delimiter(lines: FirstLines) -> str | None:
    """Another delimiter that splits both lines into the same number of cells, two or more."""
    for other in OTHERS:
        first, second = (len(lines.cells(i, other)) for i in (0, 1))
        if other != lines.delimiter and first == second > 1:
            return other
    return None


def check_delimiter(path: Location, lines: FirstLines, options: CsvOptions) -> None:
    """Refuse lines of one cell, or that do not agree, where another delimiter fits both."""
    first, second = (len(lines.cells(i)) for i in (0, 1))
    if options.delimiter is None and not first == second > 1 and other_delimiter(lines):
        raise SourceError(
            f"{path}: {lines.delimiter!r} does not split its lines into columns"
            f"{hint(lines, options)}"
        )


def hint(lines: FirstLines, options: CsvOptions) -> str:
    """The options that lines seem to need, for the end of a message."""
    other = other_delimiter(lines) if options.delimiter is None else None
    cells = [cell for i in (0, 1) for cell in lines.cells(i, other)]
    comma = other != "," and any(map(DECIMAL_COMMA.match, cells))
    python, flags = [], []
    if other is not None:
        python.append(f"delimiter={OTHERS[other]}")
        flags.append(f"--delimiter {OTHERS[other]}")
    if comma and options.decimal_point != ",":
        python.append("decimal_point=','")
        flags.append("--decimal ','")
    if not python:
        return ""
    return f"; is it CsvFiles(..., {', '.join(python)}), or {' '.join(flags)} on the command line?"


def check_header(
    path: Location, lines: FirstLines, options: CsvOptions, columns: Sequence[str] | None
) -> None:
    """Refuse a first line of numbers, which may be a row, unless it has the wanted columns."""
    if options.header is not None or options.column_names is not None:
        return
    cells = lines.cells(0)
    if columns and set(columns) <= set(cells):
        return
    missing = set(options.missing())
    present = [cell for cell in cells if cell not in missing]
    if present and all(_is_number(cell, options.decimal_point) for cell in present):
        raise SourceError(
            f"{path}: the first line is numbers ({listed(cells)}), not names: if it is a row, read "
            "it with CsvFiles(..., header=False) (--no-header on the command line); if these are "
            "names, with header=True (--header)"
        )


def _is_number(cell: str, decimal_point: str) -> bool:
    try:
        float(cell.replace(decimal_point, "."))
    except ValueError:
        return False
    return True
