"""Options for CSV files."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.sources.location import Location
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.remote_files import RemoteFiles


@dataclass(frozen=True, kw_only=True)
class CsvOptions:
    """Options under the names that pyarrow's `ParseOptions`, `ReadOptions`, `ConvertOptions` have.

    `header` says whether the first line has names; None expects them, and refuses a first line of
    numbers. `null_values` are texts for missing values in addition to those of pyarrow.
    """

    delimiter: str | None = None
    quote_char: str | None = '"'
    decimal_point: str = "."
    header: bool | None = None
    column_names: Sequence[str] | None = None
    skip_rows: int = 0
    null_values: Sequence[str] = ()
    column_types: Mapping[str, Any] | None = None
    encoding: str = "utf8"

    def __post_init__(self) -> None:
        for name in ("delimiter", "quote_char", "decimal_point"):
            char = getattr(self, name)
            optional = char is None and name != "decimal_point"
            if not optional and not (isinstance(char, str) and len(char) == 1 and char.isascii()):
                raise InvalidInputError(f"{name} is {char!r}: one ASCII character is needed")
        if self.delimiter == self.decimal_point:
            raise InvalidInputError(f"delimiter and decimal_point are both {self.delimiter!r}")
        if self.header not in (None, True, False):
            raise InvalidInputError(f"header is {self.header!r}: True, False or None is needed")
        if not isinstance(self.skip_rows, int) or self.skip_rows < 0:
            raise InvalidInputError(f"skip_rows is {self.skip_rows!r}: a number >= 0 is needed")
        for name in ("column_names", "null_values"):
            texts = getattr(self, name)
            if texts is None and name == "column_names":
                continue
            if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
                raise InvalidInputError(f"{name} is {texts!r}: a list of texts is needed")
        try:
            codecs.lookup(self.encoding)
        except (LookupError, TypeError):
            raise InvalidInputError(
                f"encoding is {self.encoding!r}: one that Python knows is needed, such as 'latin-1'"
            ) from None
        self.types()

    def types(self) -> dict[str, Any]:
        """The Arrow types of columns for which they are given."""
        if not self.column_types:
            return {}
        pa = arrow()
        found = {}
        for name, given in self.column_types.items():
            try:
                found[name] = given if isinstance(given, pa.DataType) else pa.type_for_alias(given)
            except (TypeError, ValueError):
                raise InvalidInputError(
                    f"column_types has {given!r} for {name!r}: an Arrow type or the name of one, "
                    "such as 'float64' or 'string', is needed"
                ) from None
        return found

    def missing(self) -> list[str]:
        """All texts for missing values."""
        import pyarrow.csv

        return [*pyarrow.csv.ConvertOptions().null_values, *self.null_values]

    def parsing(self, delimiter: str) -> Any:
        """The options of pyarrow's parser."""
        import pyarrow.csv

        quote = self.quote_char if self.quote_char is not None else False
        return pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char=quote)

    def conversion(self, **more: Any) -> Any:
        """The options of pyarrow's conversion of cells."""
        import pyarrow.csv

        return pyarrow.csv.ConvertOptions(
            decimal_point=self.decimal_point, null_values=self.missing(), **more
        )

    def given(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        options = {field.name: getattr(self, field.name) for field in fields(CsvOptions)}
        return {name: item for name, item in options.items() if item != getattr(PLAIN, name)}


@dataclass(frozen=True)
class CsvFiles(CsvOptions):
    """CSV files that need options to be read; give it to any call instead of the path.

    Options have the names and meanings of pyarrow's `ParseOptions`, `ReadOptions` and
    `ConvertOptions`.

    Parameters
    ----------
    paths : path, list of paths, folder, glob or RemoteFiles
        Files of any name are read as CSV, folders for their .csv and .tsv files.
    delimiter : str, default=None
        The character between cells; None is a tab in .tsv files, otherwise a comma.
    quote_char : str, default='"'
        The character around cells that contain delimiters; None for no quoting.
    decimal_point : str, default="."
        "," where numbers are written as 1,5.
    header : bool, default=None
        Whether the first line has the names of the columns. None expects names, and refuses a
        first line of nothing but numbers, which may be a row.
    column_names : list of str, default=None
        Names for files without a header; with `header=True`, names in place of the header's.
        Without either, columns are called f0, f1 and so on.
    skip_rows : int, default=0
        Lines to leave out before the header.
    null_values : list of str, default=()
        Texts for missing values, besides the usual ones: nothing, NA, NaN, null and others.
    column_types : dict of str to type, default=None
        Arrow types, or their names, of columns whose first values mislead: {"zip": "string"}.
    encoding : str, default="utf8"
        For example "latin-1".

    Examples
    --------
    >>> import os, tempfile
    >>> from mixfold import CsvFiles, Mixture
    >>> path = os.path.join(tempfile.mkdtemp(), "rides.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("fare;distance\\n7,5;1,2\\n9,0;1,9\\n12,5;3,1\\n")
    >>> rides = CsvFiles(path, delimiter=";", decimal_point=",")
    >>> Mixture(n_components=1).fit(rides).means_.round(3)
    array([[9.667, 2.067]])
    """

    paths: str | Location | RemoteFiles | Sequence[str | Location]


PLAIN = CsvOptions()


def delimiter_of(name: str, options: CsvOptions) -> str:
    """The delimiter of a file: as given, or by the file's name."""
    tabs = name.lower().endswith((".tsv", ".tsv.gz"))
    return options.delimiter or ("\t" if tabs else ",")
