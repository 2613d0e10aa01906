"""Batches: their sizes, as a number or a fraction of rows, and updates after each batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from mixfold.core.backend import Backend
from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info
from mixfold.core.rows import Rows
from mixfold.learners._gathering import Gathered


class Batching(Protocol):
    """A state that holds the current batch."""

    @property
    def gathered(self) -> Gathered:
        """The rows of the current batch."""


State = TypeVar("State", bound=Batching)


def check_batch_size(batch_size: float) -> None:
    """Raise an error unless the size is a whole number of rows or a fraction below 1."""
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


def learn_in_batches(
    backend: Backend,
    state: State,
    rows: Rows,
    size: Callable[[State], int],
    gathering: Callable[[Backend, State, Rows], State],
    update: Callable[[Backend, State], tuple[State, list[Info]]],
) -> tuple[State, list[Info]]:
    """Add rows to the current batch, and update whenever it has `size` rows."""
    infos: list[Info] = []
    while len(rows):
        wanted = size(state)
        some = rows.cut(0, max(1, wanted - state.gathered.n))
        rows = rows.cut(len(some), len(rows))
        state = gathering(backend, state, some)
        if state.gathered.n >= wanted:
            state, info = update(backend, state)
            infos += info
    return state, infos
