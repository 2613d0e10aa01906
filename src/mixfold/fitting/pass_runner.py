"""One pass over the data."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from mixfold.core.backend import Backend
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Info, Learner
from mixfold.core.rows import Rows
from mixfold.core.source import Check, Source, block_length
from mixfold.fitting.fit import Fit
from mixfold.fitting.prefetch import prefetched
from mixfold.fitting.resampled import Resampled

BUSY_SECONDS = 0.25

Moved = tuple[Any, list[Info], int]


class PassRunner(Protocol):
    """Runs a pass: yields states, the results of their updates, and the numbers of rows read.

    `run_passes` makes several passes at once, if it can.
    """

    def states(self, fit: Fit) -> Iterator[Moved]: ...
    def run_passes(self, fit: Fit, most: int | None) -> Moved | None: ...


class LocalPass:
    """Reads blocks in this process, in the order that the learner needs.

    Blocks have the length `together`, by default what the backend and the source prefer.
    """

    def __init__(
        self,
        backend: Backend,
        learner: Learner,
        source: Source,
        seed: int,
        check: Check,
        together: int | None = None,
    ) -> None:
        self.backend, self.learner, self.source = backend, learner, source
        self.seed, self.check, self.together = seed, check, together
        length = block_length(source.d)
        self._length = length - length % backend.tile or length
        self.order = learner.order(source.random_access)
        if self.order != "stream" and not source.random_access:
            raise InvalidInputError(
                f"sampling={self.order!r} needs a source that can be indexed, such as an array or "
                "a .npy file: use sampling='stream'"
            )

    def states(self, fit: Fit) -> Iterator[Moved]:
        """The states after each of the remaining blocks."""
        numbers, blocks = self._blocks(fit)
        # a pass with replacement may be the first to read a row
        unseen = self.order == "with-replacement" or (fit.passes == 0 and fit.start == 0)
        state, row = fit.state, fit.row
        del fit  # otherwise the state before the pass would stay in memory
        for rows in blocks:
            if unseen:
                self.check(rows, numbers[row : row + len(rows)])
            state, infos = self.learner.step(self.backend, state, rows)
            row += len(rows)
            yield state, infos, row

    def run_passes(self, fit: Fit, most: int | None) -> Moved | None:
        """The state after several passes; not in the first pass, in which rows are checked."""
        rows = self.source.resident()
        if rows is None or fit.passes == 0 or fit.row > 0 or self.order != "stream":
            return None
        made = self.learner.run_passes(self.backend, fit.state, rows, most)
        return None if made is None else (*made, len(rows))

    def _blocks(self, fit: Fit) -> tuple[Sequence[int], Iterator[Rows]]:
        """The numbers of the rows of this pass, and the remaining blocks."""
        length = self.together or self.backend.block_length(self.source)
        if self.order == "stream":
            return range(sys.maxsize), self._in_order(fit, length)
        drawn = Resampled(self.source, self.order, [self.seed, fit.start, fit.passes])
        blocks = self._ahead(drawn.blocks(fit.row, length))
        return drawn.indices, blocks  # type: ignore[return-value]

    def _in_order(self, fit: Fit, length: int | None) -> Iterator[Rows]:
        if not self.source.in_memory:
            return self._ahead(self.source.blocks(fit.row, length))
        if length is None and self.learner.is_reduction(fit.state):
            return self._growing(fit.row)
        return self.source.blocks(fit.row, length)

    def _growing(self, row: int) -> Iterator[Rows]:
        """Views of memory, whose length doubles until one takes the backend long enough.

        Threads wait for each other at the end of a block. The length of blocks does not change the
        result of a pass that only sums statistics.
        """
        while True:
            began = time.monotonic()
            rows = next(self.source.blocks(row, self._length), None)
            if rows is None:
                return
            row += len(rows)
            yield rows
            if len(rows) == self._length and time.monotonic() - began < BUSY_SECONDS:
                self._length *= 2

    def _ahead(self, blocks: Iterator[Rows]) -> Iterator[Rows]:
        """Blocks that a thread reads ahead; not on a device, where work is ordered by thread."""
        return blocks if self.source.resident() is not None else prefetched(blocks)
