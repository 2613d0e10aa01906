"""Discovery: one public class per snake_case file of the same name."""

from __future__ import annotations

import pkgutil
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from typing import Any

from mixfold.core.errors import unknown_name

# scikit-learn's names of initializers
SCIKIT_LEARN_NAMES = {
    "initializers": {"random": "random-labels", "random-from-data": "random-rows"},
}


@cache
def names(package: str) -> tuple[str, ...]:
    """The names of all classes that a package registers, e.g. `names("families")`.

    Files whose names begin with `_`, and the `HELPER_MODULES` of the package, register none.
    """
    offering = import_module(f"mixfold.{package}")
    helpers = getattr(offering, "HELPER_MODULES", ())
    modules = (m.name for m in pkgutil.iter_modules(offering.__path__))
    found = (m for m in modules if not m.startswith("_") and m not in helpers)
    return tuple(sorted(map(_name_of_file, found)))


def _name_of_file(file: str) -> str:
    return file.lower().replace("_", "-").replace("-plus-plus", "++")


def _letters(name: str) -> str:
    """A key that is the same for all spellings: "OnlineEM", "online-em" and "online_em"."""
    return name.lower().replace("++", "plusplus").replace("-", "").replace("_", "")


@cache
def _by_letters(package: str) -> dict[str, str]:
    """The registered names by their spelling-independent keys."""
    known = {_letters(one): one for one in names(package)}
    for other, one in SCIKIT_LEARN_NAMES.get(package, {}).items():
        known[_letters(other)] = one
    return known


def canonical(package: str, name: str) -> str:
    """The registered name of a class, given in any spelling."""
    found = _by_letters(package).get(_letters(name)) if isinstance(name, str) else None
    if found is None:
        kind = package.removesuffix("s").replace("familie", "family")
        also = SCIKIT_LEARN_NAMES.get(package, {})
        raise unknown_name(kind, name, [*names(package), *also])
    return found


def find(package: str, name: str) -> Any:
    """The class with a name in a package, given in any spelling, such as "OnlineEM"."""
    return _class_called(package, canonical(package, name))


@cache
def _class_called(package: str, name: str) -> Any:
    file = name.replace("++", "-plus-plus").replace("-", "_")
    module = import_module(f"mixfold.{package}.{file}")
    for attribute in vars(module):
        if attribute.lower() == _letters(file) and isinstance(getattr(module, attribute), type):
            return getattr(module, attribute)
    raise AttributeError(f"{module.__name__} has no class named after its file")


def clear_caches() -> None:
    """Forget the files found in packages, for example after one was added."""
    for cached in (names, _by_letters, _class_called, find_all):
        cached.cache_clear()


def make(package: str, given: object) -> Any:
    """`given` itself or, if it is a name, an instance of that class with its defaults."""
    return find(package, given)() if isinstance(given, str) else given


def make_fields(thing: object, *fields: str) -> None:
    """Replace names in fields of a frozen value by objects, such as "power" by a schedule."""
    for field in fields:
        object.__setattr__(thing, field, make(f"{field}s", getattr(thing, field)))


def is_called(given: object, name: str) -> bool:
    """Whether `given` is a spelling of the name."""
    return isinstance(given, str) and _letters(given) == _letters(name)


@cache
def find_all(package: str) -> dict[str, Any]:
    """All registered classes of a package, by name."""
    return {name: find(package, name) for name in names(package)}


def name_of(thing: object) -> str:
    """The registered name of an instance: its file's name, unless its class gives another."""
    given: str | None = getattr(type(thing), "registered_as", None)
    if given is not None:
        return given
    return _name_of_file(type(thing).__module__.rsplit(".", 1)[-1])


def described(thing: Any) -> str:
    """The registered name, and the fields that are not at their defaults."""
    changed = []
    for f in fields(thing):
        now = getattr(thing, f.name)
        if f.default is MISSING or repr(now) != repr(f.default):
            changed.append(f"{f.name}={now}")
    shape = getattr(thing, "covariance", None)
    if shape is not None and f"covariance={shape}" not in changed:
        changed.insert(0, f"covariance={shape}")
    return " ".join([name_of(thing), *([f"({', '.join(changed)})"] if changed else [])])
