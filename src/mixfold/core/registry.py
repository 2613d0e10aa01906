"""Discovery: one public class per snake_case file of the same name."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from mixfold.core.errors import unknown_name

# scikit-learn's names of what has another name here
SCIKIT_LEARN_NAMES = {
    "initializers": {"random": "random-labels", "random-from-data": "random-rows"},
}


@cache
def names(package: str) -> tuple[str, ...]:
    """Names of everything a package of mixfold offers, e.g. `names("families")`.

    Files whose names begin with `_`, and those that the package lists as its `HELPER_MODULES`, have
    no class that is found by name.
    """
    offering = import_module(f"mixfold.{package}")
    helpers = getattr(offering, "HELPER_MODULES", ())
    modules = (m.name for m in pkgutil.iter_modules(offering.__path__))
    found = (m for m in modules if not m.startswith("_") and m not in helpers)
    return tuple(sorted(map(_name_of_file, found)))


def _name_of_file(file: str) -> str:
    return file.lower().replace("_", "-").replace("-plus-plus", "++")


def _letters(name: str) -> str:
    """What all spellings of a name share: "OnlineEM", "online-em" and "online_em" are one."""
    return name.lower().replace("++", "plusplus").replace("-", "").replace("_", "")


@cache
def _by_letters(package: str) -> dict[str, str]:
    """The names that `names` lists, by what all their spellings share."""
    known = {_letters(one): one for one in names(package)}
    for other, one in SCIKIT_LEARN_NAMES.get(package, {}).items():
        known[_letters(other)] = one
    return known


def canonical(package: str, name: str) -> str:
    """The name of a package's class, however it is spelt, as `names` lists it."""
    found = _by_letters(package).get(_letters(name)) if isinstance(name, str) else None
    if found is None:
        kind = package.removesuffix("s").replace("familie", "family")
        also = SCIKIT_LEARN_NAMES.get(package, {})
        raise unknown_name(kind, name, [*names(package), *also])
    return found


def find(package: str, name: str) -> Any:
    """The class called `name` in a package; "OnlineEM", "online-em" and "online_em" are one."""
    return _class_called(package, canonical(package, name))


@cache
def _class_called(package: str, name: str) -> Any:
    file = name.replace("++", "-plus-plus").replace("-", "_")
    module = import_module(f"mixfold.{package}.{file}")
    for attribute in vars(module):
        if attribute.lower() == _letters(file) and isinstance(getattr(module, attribute), type):
            return getattr(module, attribute)
    raise AttributeError(f"{module.__name__} has no class called like its file")


def clear_caches() -> None:
    """Look at the files of packages anew, as after one was added."""
    for cached in (names, _by_letters, _class_called, find_all):
        cached.cache_clear()


def make(package: str, given: object) -> Any:
    """An object of a package: `given` itself, or where that is a name, the class with defaults."""
    return find(package, given)() if isinstance(given, str) else given


def make_fields(thing: object, *fields: str) -> None:
    """Put objects in the place of names in fields of a frozen value: a schedule for "power"."""
    for field in fields:
        object.__setattr__(thing, field, make(f"{field}s", getattr(thing, field)))


def is_called(given: object, name: str) -> bool:
    """Whether `given` is the name, however it is spelt."""
    return isinstance(given, str) and _letters(given) == _letters(name)


@cache
def find_all(package: str) -> dict[str, Any]:
    """Every class a package offers, by name."""
    return {name: find(package, name) for name in names(package)}


def name_of(thing: object) -> str:
    """The registered name of an instance: its file's name, unless its class gives another."""
    given: str | None = getattr(type(thing), "registered_as", None)
    if given is not None:
        return given
    return _name_of_file(type(thing).__module__.rsplit(".", 1)[-1])
