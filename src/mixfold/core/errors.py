"""Errors and warnings; messages give the name, the value and a remedy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class MixfoldError(Exception):
    """Base of every error that mixfold raises on purpose."""


class InvalidInputError(MixfoldError, ValueError):
    """Data or a parameter that cannot be used as given."""


class MissingValueError(InvalidInputError):
    """A missing value where none is allowed."""


class SourceError(MixfoldError, ValueError):
    """A file or stream that cannot be read as rows."""


class ModelFileError(MixfoldError, ValueError):
    """A model file or checkpoint that is damaged, not from mixfold, or of another version."""


class OutputError(MixfoldError, OSError):
    """A file that cannot be written."""


class ClusterError(MixfoldError, OSError):
    """A cluster that does not answer, or cannot do its work."""


class MissingExtraError(MixfoldError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str, instead: str = "") -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'mixfold[{extra}]'{instead}")
        self.given = package, extra, purpose, instead

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str, str]]:
        return MissingExtraError, self.given


class LearningWarning(UserWarning):
    """Base of warnings about fits that may be worse than necessary."""


class DegenerateComponentsWarning(LearningWarning):
    """Components whose variances are at their floor; the message names the columns."""


class CollinearColumnsWarning(LearningWarning):
    """Columns that are linear combinations of those before them, and are left out."""


def warn(message: str, category: type[LearningWarning] = LearningWarning) -> None:
    """Issue a `LearningWarning` that points at the calling line outside mixfold."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _inside(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]


@contextmanager
def in_partition(number: int) -> Iterator[None]:
    """Add the number of the partition to errors."""
    try:
        yield
    except (InvalidInputError, SourceError) as error:
        raise type(error)(f"partition {number}: {error}") from None


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InvalidInputError:
    """An error with the unknown name, the most similar known name, and all known names."""
    known = sorted(one.replace("-plus-plus", "++") for one in known)
    nearest = get_close_matches(str(name).lower().replace("_", "-"), known, n=1, cutoff=0.4)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return InvalidInputError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(known)}.")
