"""Conversion of errors of libraries to errors with the name of the file and a remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mixfold.core.errors import MixfoldError, SourceError
from mixfold.sources._retries import remedy
from mixfold.sources.location import Location, RemoteFile


@contextmanager
def reading(path: Location | str) -> Iterator[None]:
    """Turns errors of the system and of Arrow into a `SourceError` that names the file."""
    try:
        yield
    except MixfoldError:
        raise
    except MemoryError as error:
        raise SourceError(
            f"cannot read {path}: there is not enough memory for a block of its rows; choose fewer "
            "columns, write the file with smaller row groups or record batches, or use a machine "
            "with more memory"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    except Exception as error:
        arrow = sys.modules.get("pyarrow")
        from_arrow = arrow is not None and isinstance(error, arrow.ArrowException)
        # libraries for remote files can raise any error
        if not from_arrow and not isinstance(path, RemoteFile):
            raise
        raise _unreadable(path, error) from error


def _unreadable(path: Location | str, error: Exception) -> SourceError:
    lines = str(error).strip().splitlines()
    known = remedy(error) if isinstance(path, RemoteFile) else ""
    return SourceError(f"cannot read {path}: {lines[0] if lines else type(error).__name__}{known}")
