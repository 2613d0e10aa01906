"""CSV files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar

from mixfold.core.errors import SourceError
from mixfold.core.fingerprint import FULL_BYTES, Fingerprint, digest
from mixfold.sources._csv_lines import FirstLines, check_delimiter, check_header, hint
from mixfold.sources._file import TableFile, skip_rows
from mixfold.sources.csv_files import PLAIN, CsvOptions, delimiter_of
from mixfold.sources.location import Location, RemoteFile
from mixfold.sources.table import Codes, Selection

BLOCK, LONGEST = 2**22, 2**28
ROWS_PER_BLOCK = 4
WIDE = 1000
MOST_EMPTY = 100
IN_COLUMN = re.compile(r"^In CSV column #(\d+): (.*)$", re.DOTALL)


class Csv(TableFile):
    """Comma- or tab-separated files, plain or gzipped.

    They have a header line, unless `options` say otherwise. A first column without a name is the
    index that `to_csv` has written: it is left out unless it is asked for, and `left_out` is true.
    """

    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

    def __init__(
        self,
        path: Location,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        codes: Codes | None = None,
        options: CsvOptions = PLAIN,
    ) -> None:
        self.options = options
        self._columns = columns
        self.left_out = False
        super().__init__(path, columns, weight, codes)

    def __reduce__(self) -> Any:
        kind, settings = super().__reduce__()
        return kind, (*settings, self.options)

    def fingerprint(self, limit: int = FULL_BYTES) -> Fingerprint:
        given = self.options.given()
        words = [[f"CSV options {given}", digest(sorted(given.items()))]] if given else []
        return [*super().fingerprint(limit), *words]

    def select(
        self, schema: Any, columns: Sequence[str] | None, weight: str | None, codes: Codes | None
    ) -> Selection:
        names = [name for name in schema.names if name != weight]
        if columns is None and len(names) > 1 and schema.names[0] == "":
            self.left_out, columns = True, names[1:]
        try:
            return super().select(schema, columns, weight, codes)
        except SourceError as error:
            raise SourceError(f"{error}{hint(self._lines, self.options)}") from None

    def open(self) -> Any:
        import pyarrow.csv

        lines = self._lines = self._first_lines()
        check_delimiter(self.path, lines, self.options)
        check_header(self.path, lines, self.options, self._columns)
        self._block = min(LONGEST, max(BLOCK, ROWS_PER_BLOCK * max(map(len, lines.texts))))
        names, types = self.options.column_names or lines.cells(0), self.options.types()
        if len(names) >= WIDE:  # type detection takes much longer than reading
            numbers = dict.fromkeys(names, pyarrow.float64()) | types
            with (
                suppress(pyarrow.ArrowInvalid, StopIteration),
                self._reader(column_types=numbers) as reader,
            ):
                first = reader.read_next_batch()
                if not any(column.null_count for column in first.columns):
                    return reader.schema
        with self._reader(column_types=types) as reader:
            return reader.schema

    @property
    def _delimiter(self) -> str:
        return delimiter_of(self.path.name, self.options)

    def _stream(self) -> Any:
        import pyarrow

        if isinstance(self.path, RemoteFile):
            return self.path.stream()
        return pyarrow.input_stream(str(self.path))

    def _first_lines(self) -> FirstLines:
        """The header and the first row, without empty lines, within a limited number of bytes."""
        found, texts, more = b"", [""], b"-"
        with self._stream() as file:
            # the last line may be incomplete
            while len(texts) <= 2 and more and len(found) < LONGEST:
                more = file.read(BLOCK)
                found += more
                text = found.decode(self.options.encoding, errors="replace").removeprefix("\ufeff")
                lines = text.split("\n", self.options.skip_rows + MOST_EMPTY)
                texts = [line for line in lines[self.options.skip_rows :] if line.strip("\r")]
        texts = [line.rstrip("\r") for line in texts]
        return FirstLines([*texts, "", ""][:2], self._delimiter, self.options.quote_char)

    def _reader(self, **convert: Any) -> Any:
        import pyarrow.csv

        options = self.options
        names = options.column_names
        nameless = options.header is False or (options.header is None and names is not None)
        return pyarrow.csv.open_csv(
            self._stream(),
            read_options=pyarrow.csv.ReadOptions(
                block_size=self._block,
                skip_rows=options.skip_rows + int(bool(options.header) and names is not None),
                column_names=names,
                autogenerate_column_names=nameless and names is None,
                encoding=options.encoding,
            ),
            parse_options=options.parsing(self._delimiter),
            convert_options=options.conversion(**convert),
        )

    def batches(self, start: int, length: int) -> Iterator[tuple[int, Any]]:
        import pyarrow

        chosen = self.selection
        types = {n: chosen.type_read(n) for n, t in chosen.types.items() if t != pyarrow.bool_()}
        given = {n: t for n, t in self.options.types().items() if n in types}
        try:
            with self._reader(
                include_columns=self.selection.wanted,
                column_types=types | given,
                strings_can_be_null=chosen.text_may_be_missing,
                quoted_strings_can_be_null=False,
            ) as reader:
                yield from skip_rows(reader, start)
        except pyarrow.ArrowInvalid as error:
            raise self._named(error) from error

    def _named(self, error: Exception) -> Exception:
        """Replace the number of a column in an error by its name, and add a remedy."""
        found = IN_COLUMN.match(str(error))
        if found is None:
            return error
        number, what = int(found[1]), found[2].splitlines()[0]
        names = self.options.column_names or self._lines.cells(0)
        name = repr(names[number]) if number < len(names) else str(number)
        return SourceError(
            f"cannot read {self.path}: column {name}: {what}; if that is a missing value, name it "
            "with null_values=[...] (--null-value), else leave the column out"
        )
