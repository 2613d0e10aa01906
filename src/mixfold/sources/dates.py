"""Dates and times as numbers of days, and back."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.sources.optional_arrow import arrow

TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}  # in a second
SECONDS = 86400.0
KINDS = re.compile(
    r"(date32)\[day\]|(date64)\[ms\]|(time32)\[(s|ms)\]|(time64)\[(us|ns)\]"
    r"|(duration)\[(s|ms|us|ns)\]|(timestamp)\[(s|ms|us|ns)(?:, tz=([\w+:/-]+))?\]"
)
# days since 1970 of the dates that Python has
FIRST, LAST = ((day - date(1970, 1, 1)).days for day in (date.min, date.max))
LARGEST = 2.0**63 - 1024.0  # the largest number that is a float and a 64-bit integer


def is_temporal(kind: Any) -> bool:
    """Whether an Arrow type is one of dates or times."""
    return bool(arrow().types.is_temporal(kind))


def days_of(found: Any) -> float:
    """A date or time as a number of days, like those in columns."""
    if isinstance(found, np.datetime64):
        found = found.astype("datetime64[us]").item()
    if isinstance(found, np.timedelta64):
        found = found.astype("timedelta64[us]").item()
    return float(days(arrow().array([found]))[0])


def days(array: Any) -> np.ndarray:
    """Dates and times as days since 1970; times of day as days since midnight."""
    pa = arrow()
    if pa.types.is_time(array.type) or pa.types.is_duration(array.type):
        ticks, unit = array.cast(_integers(array.type)), array.type.unit
    else:
        ticks, unit = array.cast(pa.timestamp("us"), safe=False).cast(pa.int64()), "us"
    each = TICKS[unit] * SECONDS
    found: np.ndarray = ticks.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False) / each
    return found


def type_parts(text: str) -> list[str]:
    """The parts of the name of an Arrow type of dates or times: the kind, its unit, its zone."""
    match = KINDS.fullmatch(text)
    if match is None:
        raise InvalidInputError(f"{text!r:.80} is no type of dates or times")
    return [part for part in match.groups() if part is not None]


def temporal_type(text: str) -> Any:
    """The Arrow type of dates or times with this name."""
    kind, *rest = type_parts(text)
    return getattr(arrow(), kind)(*rest)


def from_days(found: np.ndarray, kind: Any) -> Any:
    """An Arrow array of dates or times, rounded to the unit of the type; NaN are nulls.

    Dates are within the years 1 to 9999, and times of day within a day. Times of day in nanoseconds
    are rounded to microseconds, which Python's have.
    """
    pa, missing = arrow(), np.isnan(found)
    if kind == pa.time64("ns"):
        return from_days(found, pa.time64("us")).cast(kind)
    whole = pa.types.is_date(kind)
    each = 1.0 if whole else TICKS[kind.unit] * SECONDS
    low, high = (0.0, 1.0 - 1.0 / each) if pa.types.is_time(kind) else (FIRST, LAST)
    most = LARGEST / each
    ticks = np.rint(np.where(missing, 0.0, found).clip(max(low, -most), min(high, most)) * each)
    integers = pa.array(ticks.astype(np.int64), mask=missing)
    if whole:
        return integers.cast(pa.int32()).cast(pa.date32()).cast(kind)
    return integers.cast(_integers(kind)).cast(kind)


def _integers(kind: Any) -> Any:
    """The type of integers that a type of times can be cast to and from."""
    return arrow().int32() if kind.bit_width == 32 else arrow().int64()
