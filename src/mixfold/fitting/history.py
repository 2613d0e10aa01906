"""The history of a fit, in bounded memory."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from mixfold.core.checks import check_array
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info
from mixfold.core.rows import Array
from mixfold.core.value import value

COLUMNS = 5
LIMIT = 4096  # entries of a fit
STREAM_LIMIT = 512  # entries of a stream, which every copy and file of a model has


@value
class History:
    """Columns of equal length: rows read, log-likelihood per row, step size, seconds, bound."""

    table: Array

    def check(self) -> None:
        """Raise an error for another number of columns, and for invalid rows, steps or times."""
        n = min(len(self.table), LIMIT) if self.table.ndim else 0
        if self.table.shape != (n, COLUMNS):
            raise InvalidInputError(
                f"history has shape {self.table.shape}: {COLUMNS} columns are needed, and at most "
                f"{LIMIT} entries"
            )
        for name, numbers in (
            ("rows", self.rows),
            ("step_size", self.step_size),
            ("time", self.time),
        ):
            check_array(f"{name} of the history", numbers, (n,), 0.0)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def rows(self) -> Array:
        """Rows read when the entry was made, in all passes together."""
        return self.table[:, 0]

    @property
    def log_likelihood(self) -> Array:
        """Mean log-likelihood of the entry's rows under the parameters at that time."""
        return self.table[:, 1]

    @property
    def step_size(self) -> Array:
        """Step size gamma."""
        return self.table[:, 2]

    @property
    def time(self) -> Array:
        """Seconds since learning began, interruptions not counted."""
        return self.table[:, 3]

    @property
    def bound(self) -> Array:
        """Mean of the lower bound; NaN if the learner maximises the log-likelihood itself."""
        return self.table[:, 4]

    def __repr__(self) -> str:
        if not len(self):
            return "History(empty)"
        return f"History({len(self)} entries, log-likelihood {self.log_likelihood[-1]:.6g})"

    def extended(self, infos: list[Info], seconds: float, limit: int = LIMIT) -> History:
        """The history with new entries; beyond a limit every second old one is dropped.

        The first and the last remain.
        """
        if not infos:
            return self
        seen = float(self.table[-1, 0]) if len(self) else 0.0
        rows = accumulate(info.rows for info in infos)
        new = [
            (seen + r, info.log_likelihood, info.step_size, seconds, _number(info.bound))
            for r, info in zip(rows, infos, strict=True)
        ]
        table = np.concatenate([self.table, np.array(new, dtype=np.float64)])
        while len(table) > limit:
            table = np.vstack([table[:-1:2], table[-1:]])
        return History(table)


def no_history() -> History:
    """The empty history."""
    return History(np.empty((0, COLUMNS)))


def _number(bound: float | None) -> float:
    return float("nan") if bound is None else bound
