"""Parameters of families, learners and initialisers, as parameters of the estimator they are in.

`family__covariance` is the covariance of an estimator's family, `learner__schedule__exponent` the
exponent of its learner's schedule. Families and learners are frozen: setting a parameter puts
another one in their place, also where only a name was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any

from mixfold.core.detector import Detector
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner import Learner
from mixfold.core.registry import find, make, name_of
from mixfold.core.value import equal

PACKAGES: dict[str, tuple[str, type]] = {
    "family": ("families", Family),
    "learner": ("learners", Learner),
    "init": ("initializers", Initializer),
    "schedule": ("schedules", object),
    "detector": ("detectors", Detector),
}


def part_of(name: str, given: Any) -> Any:
    """The object that a parameter's value stands for; None if it has no parameters."""
    if name not in PACKAGES:
        return None
    package, kind = PACKAGES[name]
    try:
        part = make(package, given)
    except InvalidInputError:  # "auto", or an unknown name, which `fit` refuses
        return None
    return part if isinstance(part, kind) and is_dataclass(part) else None


def _settings(part: Any) -> list[Field[Any]]:
    """The fields that a user sets; those without representation are taken from the data."""
    return [field for field in fields(part) if field.repr]


def nested_params(name: str, part: Any) -> dict[str, Any]:
    """All parameters of a nested object, by their names in the estimator."""
    found: dict[str, Any] = {}
    for field in _settings(part):
        inside, inner = f"{name}__{field.name}", getattr(part, field.name)
        found[inside] = inner
        deeper = part_of(field.name, inner)
        if deeper is not None:
            found |= nested_params(inside, deeper)
    return found


def with_params(name: str, part: Any, params: Mapping[str, Any]) -> Any:
    """A copy of a nested object with some parameters changed."""
    now = {field.name: getattr(part, field.name) for field in _settings(part)}
    plain, nested = split_params(params)
    for key in (*plain, *nested):
        if key not in now:
            raise unknown_name(f"parameter of {type(part).__name__},", key, now)
    now |= plain
    for key, inner in nested.items():
        path, given = f"{name}__{key}", now[key]
        now[key] = _changed(path, given, part_of(key, given), inner)
    return _class_of(name.rpartition("__")[2], part)(**now)


def _changed(path: str, given: Any, part: Any, params: Mapping[str, Any]) -> Any:
    """The new value of a parameter whose nested object changes; `given` if nothing changes."""
    if part is None:
        raise InvalidInputError(
            f"{path}={given!r} has no parameters of its own: {path}__{next(iter(params))} cannot "
            "be set"
        )
    after = with_params(path, part, params)
    return given if equal(after, part) else after


def set_nested(
    owner: str,
    now: Mapping[str, Any],
    params: Mapping[str, Any],
    part: Callable[[str, Any], Any],
) -> dict[str, Any]:
    """New values of the estimator's parameters, from its own and nested parameters.

    `part` finds what a parameter's value stands for.
    """
    plain, nested = split_params(params)
    for name in (*plain, *nested):
        if name not in now:
            raise unknown_name(f"parameter of {owner},", name, now)
    changed = dict(plain)
    for name, inner in nested.items():
        given = {**now, **plain}[name]
        changed[name] = _changed(name, given, part(name, given), inner)
    return changed


def split_params(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Split parameters into those of an object and those of its nested objects by name."""
    plain: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, given in params.items():
        name, inside, rest = key.partition("__")
        if inside:
            nested.setdefault(name, {})[rest] = given
        else:
            plain[name] = given
    return plain, nested


def _class_of(name: str, part: Any) -> type:
    """The registered class: a Gaussian with factors is made by `Gaussian`, like any other."""
    package, _ = PACKAGES[name]
    if type(part).__module__.startswith(f"mixfold.{package}."):
        found: type = find(package, name_of(part))
        return found
    return type(part)
