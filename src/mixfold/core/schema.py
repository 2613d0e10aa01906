"""Checks of values in files against the declared types of their fields."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from mixfold.core.arrays import is_array, on_host
from mixfold.core.errors import InvalidInputError


@cache
def field_types(cls: type) -> dict[str, object]:
    """The declared type of every field of a value."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def check_fields(cls: type, given: Mapping[str, object]) -> None:
    """Raise an error for fields that are missing, unknown or not of their declared types."""
    hints = field_types(cls)
    if given.keys() != hints.keys():
        names = ", ".join(hints) or "none"
        raise InvalidInputError(f"{cls.__name__} has the fields {[*given]}: {names} are needed")
    for name, hint in hints.items():
        if not fits(given[name], hint):
            found = description(given[name])
            raise InvalidInputError(f"{name} of {cls.__name__} is {found}: {hint} is needed")


def with_tuples(cls: type, given: Mapping[str, object]) -> dict[str, object]:
    """Convert lists to tuples where the fields of a value are declared as tuples."""
    hints = field_types(cls)
    return {
        name: tuple(part) if isinstance(part, list) and _may_be_tuple(hints.get(name)) else part
        for name, part in given.items()
    }


def _may_be_tuple(hint: object) -> bool:
    """Whether a field is declared as a tuple, or as a union with one."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(map(_may_be_tuple, get_args(hint)))
    return origin is tuple


def check_types(thing: object) -> None:
    """Check the types of the fields of a value, and of all nested values."""
    if isinstance(thing, list | tuple):
        for item in thing:
            check_types(item)
    elif is_dataclass(thing) and not isinstance(thing, type):
        cls: type = type(thing)
        given = {name: getattr(thing, name) for name in field_types(cls)}
        check_fields(cls, given)
        check_types([*given.values()])


def fits(thing: object, hint: object) -> bool:
    """Whether `thing` matches a type annotation."""
    if hint in (Any, object) or isinstance(hint, TypeVar):
        return _is_plain(thing)
    hint = _without_alias(hint)
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(thing, one) for one in inside)
    if origin is Literal:
        return any(type(thing) is type(one) and thing == one for one in inside)
    if origin is np.ndarray:
        return is_array(thing) and _has_type(thing, get_args(inside[1])[0])
    if origin in (list, Sequence, tuple):
        kinds = tuple if origin is tuple else list | tuple
        return isinstance(thing, kinds) and all(fits(item, inside[0]) for item in thing)
    return _is_instance(thing, hint)


def _without_alias(hint: object) -> object:
    """What an alias made by a `type` statement stands for; NumPy's `NDArray` is one since 2.5."""
    alias, inside = get_origin(hint) or hint, get_args(hint)
    meant = getattr(alias, "__value__", None)
    if meant is None:
        return hint
    return meant[inside] if inside else meant


def _is_instance(thing: object, cls: object) -> bool:
    if cls is float:
        return _is_number(thing)
    if cls is str:
        return _is_text(thing)
    if cls in (bool, int):
        return type(thing) is cls or (isinstance(thing, np.generic) and type(thing.item()) is cls)
    return isinstance(cls, type) and isinstance(thing, cls)


def _is_text(thing: object) -> bool:
    """Whether `thing` is text that can be encoded as UTF-8."""
    return isinstance(thing, str) and not any("\ud800" <= letter <= "\udfff" for letter in thing)


def _is_number(thing: object) -> bool:
    """Whether `thing` is a float, or an integer that can be one."""
    if isinstance(thing, bool | np.bool_):
        return False
    if isinstance(thing, int):
        return abs(thing) < 2**1023
    return isinstance(thing, float | np.floating | np.integer)


def _has_type(array: NDArray[np.generic], element: object) -> bool:
    """Whether the numbers of an array are of a type; of `Any` type are all real floats."""
    here = isinstance(array, np.ndarray)
    kind = array.dtype if here else on_host(array[:0] if array.ndim else array).dtype
    if element in (Any, np.floating):
        return kind in (np.dtype(np.float32), np.dtype(np.float64))
    return bool(kind == element)


def _is_plain(thing: object) -> bool:
    """Whether `thing` may be in a field of undeclared type."""
    if isinstance(thing, list | tuple):
        return all(_is_plain(item) for item in thing)
    return (
        thing is None
        or isinstance(thing, bool | int | float | np.generic)
        or _is_text(thing)
        or is_array(thing)
        or is_dataclass(thing)
    )


def description(thing: object) -> str:
    """A short description of an object, for messages."""
    if is_array(thing):
        return f"an array of shape {tuple(thing.shape)} and type {thing.dtype}"
    if is_dataclass(thing):
        return f"a {type(thing).__name__}"
    text = repr(thing)
    return text if len(text) <= 80 else f"{text[:80]}..."
