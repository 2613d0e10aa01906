"""The identity of a fit in its checkpoint: named parts, so that errors can name a difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mixfold.core.errors import InvalidInputError, ModelFileError, warn
from mixfold.core.fingerprint import difference
from mixfold.core.value import equal

Identity = Mapping[str, Any]

DATA, MODEL, LEARNER = "data", "the model", "learner"
LONGEST = 160


def is_forced(resume: Any) -> bool:
    """Whether `resume` allows other data."""
    if not isinstance(resume, bool) and resume != "force":
        raise InvalidInputError(f"resume is {resume!r}: True, False or 'force' is needed")
    return bool(resume == "force")


def stored(identity: Identity) -> list[Any]:
    """Convert the identity to a form that a file can hold."""
    return [[name, value] for name, value in identity.items()]


def check_same(path: Path, found: Any, wanted: Identity, force: bool) -> None:
    """Refuse to resume another fit; with `force`, other data only give a warning."""
    before = _read(path, found)
    other = difference(before[DATA], wanted[DATA])
    for name, now in wanted.items():
        if name == DATA:
            if other is not None and not force:
                raise ModelFileError(
                    f"{path} is the checkpoint of another fit: {other}; resume with the same data, "
                    "remove the file to start again, or continue anyway with resume='force' "
                    "(--force-resume)"
                )
        elif name not in before or not equal(_plain(before[name]), _plain(now)):
            raise ModelFileError(
                f"{path} is the checkpoint of another fit: "
                f"{_described(name, before.get(name), now)}; "
                "resume with the same settings, or remove the file to start again"
            )
    if other is not None:
        warn(f"{path} is resumed with other data: {other}; the model will depend on both")


def model_in(path: Path, found: Any) -> Any:
    """The model of a fit, from the identity in its checkpoint; None if it names none."""
    return _read(path, found).get(MODEL)


def _read(path: Path, found: Any) -> dict[str, Any]:
    try:
        before = {str(name): value for name, value in found}
        before[DATA] = [[str(words), str(digest)] for words, digest in before[DATA]]
    except (TypeError, ValueError, KeyError):
        raise ModelFileError(f"{path} is damaged: it does not say what it is a fit of") from None
    return before


def _described(name: str, before: Any, now: Any) -> str:
    """Describe a difference, with both values."""
    if _are_lists(before, now) and len(before) == len(now):
        i = next(i for i, (a, b) in enumerate(zip(before, now, strict=True)) if a != b)
        name, before, now = f"number {i} of {name}", before[i], now[i]
    was, found = _shown(before), _shown(now)
    if was == found:
        return f"{name} had other values"
    return f"{name} was {was} and is {found} now"


def _are_lists(before: Any, now: Any) -> bool:
    return isinstance(before, Sequence) and isinstance(now, list) and not isinstance(before, str)


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _plain(thing: Any) -> Any:
    return [_plain(item) for item in thing] if isinstance(thing, list | tuple) else thing
