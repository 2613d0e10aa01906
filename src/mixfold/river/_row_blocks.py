"""Mixtures that learn the rows of a stream in blocks, which takes less time per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mixfold.core.checks import check_whole
from mixfold.core.learner import Learner
from mixfold.estimators.mixture import Mixture
from mixfold.river._columns import Cells, Columns, checked

LEAST_BLOCK, LARGEST_BLOCK = 8, 512
FRACTION = 8  # a block is an eighth of the rows before it
FRACTION_AT_FIRST = 4  # while every block gives initial parameters anew, which takes longer


class Member(Protocol):
    """What learns the rows."""

    mixture: Mixture

    def score_one(self, row: Any) -> float:
        """Log-density of a row."""

    def score_samples(self, block: Any) -> Any:
        """Log-densities of a block of rows."""

    def learn(self, columns: Columns, block: Any) -> None:
        """Learn a block of rows."""


class AllRows:
    """A mixture that learns all rows."""

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture

    def score_one(self, row: Any) -> float:
        return self.mixture.score_one(row)

    def score_samples(self, block: Any) -> Any:
        return self.mixture.score_samples(block)

    def learn(self, columns: Columns, block: Any) -> None:
        columns.learn(self.mixture, block)


class FittedRows(AllRows):
    """A mixture that is fitted to the first rows, and then learns more by a learner for streams."""

    def __init__(self, mixture: Mixture, learner: Learner) -> None:
        super().__init__(mixture)
        self._next: Learner | None = learner

    def learn(self, columns: Columns, block: Any) -> None:
        if self._next is None:
            super().learn(columns, block)
            return
        self.mixture.fit(block)
        self.mixture.set_params(learner=self._next)
        self._next = None


class RowBlocks:
    """Members that learn the same rows, given as dicts.

    The first `grace_period` rows are collected; they fix the columns and give initial parameters.
    Later rows are learned in blocks that grow with the number of rows.
    """

    def __init__(
        self,
        members: Sequence[Member],
        grace_period: int,
        columns_of: Callable[[Sequence[Cells]], Columns],
    ) -> None:
        check_whole("grace_period", grace_period)
        self.members = tuple(members)
        self.columns: Columns | None = None
        self.n_rows = 0
        self._columns_of = columns_of
        self._rows: list[Any] = []
        self._size = grace_period

    def learn_one(self, x: Cells) -> None:
        """Collect a row, and learn those collected if they are a block."""
        columns = self.columns
        self._rows.append(checked(x) if columns is None else columns.row(x))
        self.n_rows += 1
        if len(self._rows) >= self._size:
            self.learn_collected()

    def learn_many(self, frame: Any) -> None:
        """Learn the rows of a pandas DataFrame."""
        if self.columns is None:
            for row in frame.to_dict("records"):
                self.learn_one(row)
            return
        if self._rows:
            self.learn_collected()
        block = self.columns.table(frame)
        for member in self.members:
            member.learn(self.columns, block)
        self.n_rows += len(frame)

    def row(self, x: Cells) -> Any:
        """A row as members take it; None before they have parameters."""
        return None if self.columns is None else self.columns.row(x)

    def learn_collected(self) -> None:
        """Learn the rows that were collected; those that cannot be learned are dropped."""
        rows, self._rows = self._rows, []
        columns = self.columns
        if columns is None:
            columns = self._columns_of(rows)
            rows = list(map(columns.row, rows))
        block = columns.block(rows)
        for member in self.members:
            member.learn(columns, block)
        self.columns = columns
        waits = any(member.mixture.waits_for_rows for member in self.members)
        fraction = FRACTION_AT_FIRST if waits else FRACTION
        self._size = max(LEAST_BLOCK, min(LARGEST_BLOCK, self.n_rows // fraction))
