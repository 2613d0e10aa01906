"""Checks of hyper-parameters: a name, the value, what is needed."""

from __future__ import annotations

from math import inf
from numbers import Integral, Real
from typing import Any

from mixfold.core.errors import InvalidInputError


def check_whole(name: str, number: Any, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if not isinstance(number, Integral) or isinstance(number, bool) or int(number) < least:
        raise InvalidInputError(f"{name} is {number!r}: a whole number >= {least} is needed")


def check_above(name: str, number: Any, low: float, high: float = inf) -> None:
    """Refuse what is not a number above `low` and, where it is given, up to `high`."""
    if not isinstance(number, Real) or not low < float(number) <= high or float(number) == inf:
        limit = "" if high == inf else f" and at most {high:g}"
        raise InvalidInputError(f"{name} is {number!r}: a number above {low:g}{limit} is needed")


def check_least(name: str, number: Any, low: float) -> None:
    """Refuse what is not a finite number of at least `low`."""
    if not isinstance(number, Real) or not low <= float(number) < inf:
        raise InvalidInputError(f"{name} is {number!r}: a number >= {low:g} is needed")
