"""Arrow tables and batches as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from mixfold.core.errors import SourceError
from mixfold.core.places import row_place
from mixfold.core.rows import Rows
from mixfold.sources.dates import days, is_temporal
from mixfold.sources.optional_arrow import arrow
from mixfold.sources.unusual_columns import decoded_field, decoded_runs

LISTED = 20
NUMERIC_COLUMNS = (
    "leave it out, or choose numeric columns with columns=[...] (--columns on the command line)"
)


def listed(names: Sequence[Any]) -> str:
    """Names for a message: all of them, or the first and how many more there are."""
    more = f" and {len(names) - LISTED:,} more" if len(names) > LISTED else ""
    return ", ".join(map(str, names[:LISTED])) + more


def check_names(known: Sequence[Any], wanted: Sequence[str], place: str) -> None:
    """Refuse names that `known` does not have, and names that are not each of one column."""
    counts = Counter(known)
    for name, times in Counter(wanted).items():
        if not counts[name]:
            text = all(isinstance(one, str) for one in known)
            remedy = "" if text else "; their names are not text: use df.columns.astype(str)"
            raise SourceError(
                f"{place} has no column {name!r}; its columns are {listed(known)}{remedy}"
            )
        if times > 1 or counts[name] > 1:
            raise SourceError(f"{place}: column {name!r} appears twice; name each one once")


class Codes:
    """Integer codes, from 0 on, for the values of columns that are not numeric.

    Codes are assigned in the order in which values first appear. All files of a source share one
    object, so that a value has the same code in each. Columns in `always` are coded even if they
    are numeric. Columns in `known` may have these values only; of the others, only those in `free`
    may have values that are not numeric. With `missing`, cells may be missing, which are NaN. With
    `other`, values that are not known get the code after the last, and with `grows` codes of their
    own. With `dates`, which may be names of columns, dates and times are numbers of days since
    1970. `declared` are the values that the types of columns name, as those of categories do,
    whether rows have them or not. `remedy` is what to do about other values than the known ones.
    """

    def __init__(
        self,
        always: Collection[str] = (),
        known: Mapping[str, Sequence[Any]] | None = None,
        free: Collection[str] = (),
        missing: bool = False,
        other: bool = False,
        dates: bool | Collection[str] = False,
        grows: bool = False,
        remedy: str = "leave out rows with other values",
    ) -> None:
        self.known, self.missing, self.other, self.dates = known, missing, other, dates
        self.grows, self.remedy = grows, remedy
        self.always = frozenset([*always, *(known or {})])
        self.free = frozenset(free)
        self.values = {name: list(values) for name, values in (known or {}).items()}
        self.types: dict[str, Any] = {}
        self.declared: dict[str, dict[Any, None]] = {}
        self._numbers = {name: dict(_counted(values)) for name, values in self.values.items()}

    def is_coded(self, field: Any, place: str) -> bool:
        """Whether a column's values are to be replaced by numbers: the same in every file."""
        name, kind = field.name, field.type
        if arrow().types.is_nested(kind):
            raise SourceError(
                f"{place}: column {name!r} is {kind}: one value a row is needed; leave it out, or "
                "make columns of its parts"
            )
        if isinstance(kind, arrow().BaseExtensionType) or arrow().types.is_interval(kind):
            raise SourceError(
                f"{place}: column {name!r} is {kind}: make numbers, text or dates of its values"
            )
        empty = self.missing and arrow().types.is_null(kind)
        dates = may_have_dates(self.dates, name) and is_temporal(kind)
        number = is_numeric(kind) or empty or dates
        coded = name in self.always or not number
        if coded and self.known is not None and name not in self.always | self.free:
            _check_numeric(field, place)
        before = self.types.setdefault(name, kind)
        if _manner(before) != _manner(kind):
            raise SourceError(
                f"{place}: column {name!r} is {kind}, unlike in the files or blocks before, where "
                f"it is {before}: store it the same way in all"
            )
        if coded:
            self.values.setdefault(name, [])
        return coded

    def codes(self, name: str, array: Any) -> np.ndarray:
        """The numbers of an Arrow array of values of column `name`."""
        pa = arrow()
        declares = pa.types.is_dictionary(array.type)
        if not declares:
            array = _text(array).dictionary_encode()
        size = len(array.dictionary)
        indices = array.indices.cast(pa.int64()).fill_null(size).to_numpy(zero_copy_only=False)
        used = np.flatnonzero(np.bincount(indices, minlength=size + 1)[:size])
        if declares:
            self._declare(name, array.dictionary)
            used = used[np.argsort(first_places(indices, size)[used])]
        numbers = np.full(size + 1, np.nan)
        found = (array.dictionary[i].as_py() for i in used.tolist())
        numbers[used] = [self._number(name, level) for level in found]
        return np.asarray(numbers[indices])

    def _declare(self, name: str, levels: Any) -> None:
        if self.known is not None:
            return
        found = (level for level in levels.to_pylist() if not is_missing(level))
        self.declared.setdefault(name, {}).update((_level(name, level), None) for level in found)

    def _number(self, name: str, found: Any) -> float:
        """The number of a value, which is a new one if it was not known."""
        if self.missing and is_missing(found):
            return np.nan
        level, known = _level(name, found), self._numbers.setdefault(name, {})
        if level not in known:
            if self.other and name in (self.known or {}):
                return float(len(self.values[name]))
            self._check_new(name, level)
            known[level] = len(self.values[name])
            self.values[name].append(level)
        return float(known[level])

    def _check_new(self, name: str, level: Any) -> None:
        if self.known is not None and name in self.known and not self.grows:
            raise SourceError(unseen_message(name, level, self.known[name], self.remedy))


def may_have_dates(dates: bool | Collection[str], name: str) -> bool:
    """Whether a column may have dates and times, which become numbers."""
    return dates if isinstance(dates, bool) else name in dates


def unseen_message(name: str, level: Any, known: Sequence[Any], remedy: str) -> str:
    """The message about a value that is none of the known ones."""
    return (
        f"column {name!r} has {level!r}, which was not in the data of fit; known are "
        f"{listed(known)}: {remedy}"
    )


def first_places(numbers: np.ndarray, most: int) -> np.ndarray:
    """Where each of the whole numbers from 0 to `most` appears first, if it does."""
    first = np.full(most + 1, len(numbers))
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of equal numbers the last one counts
    return first


def _counted(values: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    return ((value, i) for i, value in enumerate(values))


def is_missing(found: Any) -> bool:
    """Whether a value is missing."""
    try:
        return found is None or bool(found != found)  # noqa: PLR0124 - NaN and NaT alone differ
    except TypeError:  # pandas' NA does not compare
        return True


def _level(name: str, found: Any) -> Any:
    """A value as a model file can hold it."""
    if is_missing(found):
        raise SourceError(f"column {name!r} has a missing value; fill or drop missing values first")
    if isinstance(found, Decimal):
        return float(found)
    return found if isinstance(found, str | int | float) else str(found)


def _text(array: Any) -> Any:
    """The array; views of text, for which pyarrow has few functions, as text."""
    pa = arrow()
    return array.cast(pa.large_string()) if array.type == pa.string_view() else array


def _manner(kind: Any) -> tuple[bool, bool]:
    """The type of a column that must be the same in all files: numeric, or coded."""
    if not arrow().types.is_dictionary(kind):
        return is_numeric(kind), is_numeric(kind)
    return False, is_numeric(kind.value_type)


class Selection:
    """Which columns of a schema are data and which one, if any, is the weight.

    Data columns must be numeric, unless `codes` are given.
    """

    text_may_be_missing = True  # whether NA and the like are no text in text files

    def __init__(
        self,
        schema: Any,
        columns: Sequence[str] | None,
        weight: str | None,
        place: str,
        codes: Codes | None = None,
    ) -> None:
        if columns is None:
            columns = [name for name in schema.names if name != weight]
        wanted = [*columns, *([weight] if weight else [])]
        check_names(schema.names, wanted, place)
        if not columns:
            raise SourceError(f"{place} has no columns")
        fields = {field.name: decoded_field(field) for field in schema}
        self.types = {name: fields[name].type for name in wanted}
        numeric: set[Any] = set()  # numeric types, cached
        for name in wanted if codes is None else wanted[len(columns) :]:
            if self.types[name] not in numeric:
                _check_numeric(fields[name], place)
                numeric.add(self.types[name])
        if all(arrow().types.is_null(self.types[name]) for name in columns):
            _check_numeric(fields[columns[0]], place)
        self.columns, self.weight, self.place, self.wanted = list(columns), weight, place, wanted
        self.codes = codes
        self.coded = {name for name in columns if codes and codes.is_coded(fields[name], place)}
        narrow = {arrow().float32(), arrow().float16()}
        kinds = {self.types[name] for name in self.columns}
        self.dtype = np.float32 if kinds <= narrow else np.float64

    def type_read(self, name: str) -> Any:
        """The type in which a column of text files is read: numbers, dates, or else text."""
        kind = self.types[name]
        if is_numeric(kind):  # one that begins with integers may have other numbers later
            return arrow().float64()
        return kind if is_temporal(kind) else arrow().string()

    def rows(self, batch: Any, first_row: int) -> Rows:
        """Rows of a batch or table, stored in column-major order, which kernels support."""
        x = np.empty((len(self.columns), batch.num_rows), dtype=self.dtype)
        weight = None if self.weight is None else np.empty(batch.num_rows)
        places = {name: i for i, name in enumerate(batch.schema.names)}
        targets = [*zip(self.columns, x, strict=True)]
        if weight is not None:
            targets.append((str(self.weight), weight))
        done = 0
        for part in batch.to_batches() if isinstance(batch, arrow().Table) else [batch]:
            span = slice(done, done + part.num_rows)
            for name, target in targets:
                self._copy(part.column(places[name]), name, first_row + done, target[span])
            done = span.stop
        return Rows(x.T, weight)

    def _copy(self, array: Any, name: str, first_row: int, target: np.ndarray) -> None:
        array = decoded_runs(array)
        coded, missing = name in self.coded, self.codes is not None and self.codes.missing
        if (array.null_count or coded) and (not missing or name == self.weight):
            self._check_whole(array, name, first_row)
        if coded:
            assert self.codes is not None
            target[:] = self.codes.codes(name, array)
        elif array.null_count or is_temporal(array.type):
            target[:] = _values_with_gaps(array)
        else:
            target[:] = _values(array)

    def _check_whole(self, array: Any, name: str, first_row: int) -> None:
        nulls = arrow().compute.indices_nonzero(array.is_null(nan_is_null=True))
        if len(nulls):
            raise SourceError(
                f"{self.place}: column {name!r} has a missing value in "
                f"{row_place(first_row + nulls[0].as_py())}; fill or drop missing values first"
            )


class StoredColumns(Selection):
    """Columns of any types, which are not made numbers."""

    text_may_be_missing = False

    def __init__(self, schema: Any, columns: Sequence[str], place: str) -> None:
        check_names(schema.names, columns, place)
        self.columns, self.weight, self.place = list(columns), None, place
        self.wanted, self.codes = self.columns, None
        self.types = {name: schema.field(name).type for name in columns}

    def type_read(self, name: str) -> Any:
        kind = self.types[name]
        return arrow().string() if arrow().types.is_null(kind) else kind


def _values(array: Any) -> np.ndarray:
    """An Arrow array without nulls, as it lies in memory."""
    pa = arrow()
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.float64())
    return np.from_dlpack(array)


def _values_with_gaps(array: Any) -> np.ndarray:
    """An Arrow array of numbers or dates, with NaN for nulls."""
    if is_temporal(array.type):
        return days(array)
    found: np.ndarray = array.cast(arrow().float64()).to_numpy(zero_copy_only=False)
    return found


def is_number(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers."""
    types = arrow().types
    return any(test(kind) for test in (types.is_integer, types.is_floating, types.is_decimal))


def is_numeric(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers, or yes and no."""
    return is_number(kind) or bool(arrow().types.is_boolean(kind))


def _check_numeric(field: Any, place: str) -> None:
    types = arrow().types
    if types.is_null(field.type):
        raise SourceError(f"{place}: column {field.name!r} has no values; at least one is needed")
    if not is_numeric(field.type):
        raise SourceError(
            f"{place}: column {field.name!r} is {field.type}, not numeric; {NUMERIC_COLUMNS}"
        )
