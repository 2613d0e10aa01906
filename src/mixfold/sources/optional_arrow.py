"""pyarrow, which is optional."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import MissingExtraError


def arrow() -> Any:
    """pyarrow, or an error that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError:
        raise MissingExtraError("pyarrow", "files", "reading files and Arrow tables") from None
    return pyarrow
