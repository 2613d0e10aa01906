"""Whether things are what their declared types say: the schema of values in files."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from mixfold.core.arrays import is_array, is_tensor, on_host
from mixfold.core.errors import InvalidInputError


@cache
def field_types(cls: Any) -> dict[str, Any]:
    """The declared type of every field of a value."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def check_fields(cls: type, given: Mapping[str, Any]) -> None:
    """Refuse fields for a value that are missing, unknown or not of their declared types."""
    hints = field_types(cls)
    if given.keys() != hints.keys():
        names = ", ".join(hints) or "none"
        raise InvalidInputError(f"{cls.__name__} has the fields {[*given]}: {names} are needed")
    for name, hint in hints.items():
        if not fits(given[name], hint):
            found = described(given[name])
            raise InvalidInputError(f"{name} of {cls.__name__} is {found}: {hint} is needed")


def with_tuples(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields for a value, of which files hold tuples as lists."""
    hints = field_types(cls)
    return {
        name: tuple(part)
        if get_origin(hints.get(name)) is tuple and isinstance(part, list)
        else part
        for name, part in given.items()
    }


def check_types(thing: Any) -> None:
    """Check the fields of a value, and of all values in it."""
    if isinstance(thing, list | tuple):
        for item in thing:
            check_types(item)
    elif is_dataclass(thing):
        cls: Any = type(thing)
        given = {name: getattr(thing, name) for name in field_types(cls)}
        check_fields(cls, given)
        check_types([*given.values()])


def fits(thing: Any, hint: Any) -> bool:
    """Whether `thing` is of a type, as an annotation gives it."""
    if hint is Any:
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


def _without_alias(hint: Any) -> Any:
    """What an alias made by a `type` statement stands for; NumPy's `NDArray` is one since 2.5."""
    alias, inside = get_origin(hint) or hint, get_args(hint)
    if not hasattr(alias, "__value__"):
        return hint
    return alias.__value__[inside] if inside else alias.__value__


def _is_instance(thing: Any, cls: type) -> bool:
    if cls is float:
        return _is_number(thing)
    if cls is str:
        return _is_text(thing)
    if cls in (bool, int):
        return type(thing) is cls or (isinstance(thing, np.generic) and type(thing.item()) is cls)
    return isinstance(thing, cls)


def _is_text(thing: Any) -> bool:
    """Whether `thing` is text that can be written: it has no halves of characters."""
    return isinstance(thing, str) and not any("\ud800" <= letter <= "\udfff" for letter in thing)


def _is_number(thing: Any) -> bool:
    """Whether `thing` is a float, or an integer that can be one."""
    if isinstance(thing, bool | np.bool_):
        return False
    if isinstance(thing, int):
        return abs(thing) < 2**1023
    return isinstance(thing, float | np.floating | np.integer)


def _has_type(array: Any, element: Any) -> bool:
    """Whether the numbers of an array are of a type; of `Any` type are all real floats."""
    kind = on_host(array[:0] if array.ndim else array).dtype if is_tensor(array) else array.dtype
    if element in (Any, np.floating):
        return kind in (np.dtype(np.float32), np.dtype(np.float64))
    return bool(kind == np.dtype(element))


def _is_plain(thing: Any) -> bool:
    """Whether `thing` is what files may hold where nothing is said of its type."""
    if isinstance(thing, list | tuple):
        return all(_is_plain(item) for item in thing)
    return (
        thing is None
        or isinstance(thing, bool | int | float | np.generic)
        or _is_text(thing)
        or is_array(thing)
        or is_dataclass(thing)
    )


def described(thing: Any) -> str:
    """A thing in few words, for messages."""
    if is_array(thing):
        return f"an array of shape {tuple(thing.shape)} and type {thing.dtype}"
    if is_dataclass(thing):
        return f"a {type(thing).__name__}"
    text = repr(thing)
    return text if len(text) <= 80 else f"{text[:80]}..."
