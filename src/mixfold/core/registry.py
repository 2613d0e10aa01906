"""Discovery: one public class per snake_case file of the same name."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from mixfold.core.errors import unknown_name


@cache
def names(package: str) -> tuple[str, ...]:
    """Names of everything a package of mixfold offers, e.g. `names("families")`."""
    path = import_module(f"mixfold.{package}").__path__
    modules = (m.name for m in pkgutil.iter_modules(path))
    return tuple(sorted(_spelt(m) for m in modules if not m.startswith("_")))


def _spelt(name: str) -> str:
    return name.lower().replace("_", "-").replace("-plus-plus", "++")


def find(package: str, name: str) -> Any:
    """The class called `name` in a package; spelling with - or _ is the same."""
    key = _spelt(name)
    if key not in names(package):
        raise unknown_name(
            package.removesuffix("s").replace("familie", "family"), name, names(package)
        )
    file = key.replace("++", "-plus-plus").replace("-", "_")
    module = import_module(f"mixfold.{package}.{file}")
    squeezed = file.replace("_", "")
    for attribute in vars(module):
        if attribute.lower() == squeezed and isinstance(getattr(module, attribute), type):
            return getattr(module, attribute)
    raise AttributeError(f"{module.__name__} has no class called like its file")


@cache
def find_all(package: str) -> dict[str, Any]:
    """Every class a package offers, by name."""
    return {name: find(package, name) for name in names(package)}


def name_of(thing: object) -> str:
    """The registered name of an instance: its file's name, unless its class gives another."""
    given: str | None = getattr(type(thing), "registered_as", None)
    if given is not None:
        return given
    return _spelt(type(thing).__module__.rsplit(".", 1)[-1])
