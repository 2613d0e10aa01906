"""Batch sizes, as a number of rows or a share of them."""

from __future__ import annotations

from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError


def check_batch_size(batch_size: float) -> None:
    """Refuse what is neither a whole number of rows nor a fraction below 1."""
    check_above("batch_size", batch_size, 0.0)
    if batch_size > 1 and batch_size != int(batch_size):
        raise InvalidInputError(
            f"batch_size is {batch_size!r}: a number of rows, or a fraction below 1, is needed"
        )


def rows_per_batch(batch_size: float, n: int | None) -> int:
    """The number of rows that a batch size stands for in data of `n` rows."""
    if batch_size >= 1:
        return int(batch_size)
    if n is None:
        raise InvalidInputError(
            f"batch_size={batch_size!r} is a fraction of a length this source does not know: "
            "give a number of rows"
        )
    return max(1, round(batch_size * n))


def step_of(gamma: float, count: float, batch_size: float) -> float:
    """The step of a batch that weighs `count`: as if its rows had been parts of whole ones."""
    return gamma if count == batch_size else float(1.0 - (1.0 - gamma) ** (count / batch_size))
