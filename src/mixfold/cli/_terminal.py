"""Text that is safe to print in a terminal, and streams that can encode it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any
from unicodedata import category

UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # control, format and half characters; ends of lines


def shown(text: object) -> str:
    """Text from files and users with control characters escaped."""
    given = str(text)
    if given.isprintable():
        return given
    return "".join(_spelt(c) if category(c) in UNSEEN else c for c in given)


def _spelt(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def one_line(message: object) -> str:
    """A message without line ends and control characters."""
    if isinstance(message, OSError) and message.strerror and message.filename is not None:
        return shown(f"{message.filename}: {message.strerror}")
    if isinstance(message, MemoryError):
        return shown(f"there is not enough memory: {str(message) or 'an allocation failed'}")
    return shown(" ".join(str(message).split())) or type(message).__name__


def say(message: object) -> None:
    """Print one line on stderr; errors of the stream are ignored."""
    try:
        print(f"mixfold: {one_line(message)}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        abandon(sys.stderr)


def can_show(text: str, encoding: str) -> bool:
    """Whether an encoding has all characters of a text."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def usable_streams() -> Iterator[None]:
    """Make stdout and stderr open and able to encode any text; print warnings on one line."""
    _open_closed()
    given = sys.stdout, sys.stderr
    for stream in given:
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *rest: say(f"warning: {message}")
            yield
    finally:
        sys.stdout, sys.stderr = given


def _open_closed() -> None:
    """Replace closed streams by the null device, so that no data file gets their descriptor."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False, encoding="utf-8")  # noqa: SIM115


def abandon(stream: Any) -> None:
    """Redirect the rest of the output to the null device when the stream cannot be written."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), stream.fileno())
