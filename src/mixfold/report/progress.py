"""How the reading of rows is reported."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int | None], None]
"""Takes the number of rows read, and the number of all rows or None."""
