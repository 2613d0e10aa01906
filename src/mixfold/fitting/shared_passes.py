"""Several fits that share the reads of one source: every block is read once for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from mixfold.core.rows import Rows
from mixfold.core.source import Source
from mixfold.fitting.fit import Fit
from mixfold.fitting.loop import Loop
from mixfold.fitting.pass_runner import LocalPass
from mixfold.fitting.plan import FitPlan
from mixfold.fitting.prefetch import prefetched


class SharedBlocks(Source):
    """A source whose latest block is kept, so that several readers in step read it once.

    Blocks have the lengths that the source prefers. `n_passes` is how often it was read.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.columns, self.n_passes = source, source.columns, 0
        self._reading: Iterator[Rows] = iter(())
        self._number, self._rows = -1, None

    _rows: Rows | None

    @property
    def d(self) -> int:
        return self.source.d

    @property
    def length(self) -> int | None:
        return self.source.length

    def blocks(self, start: int = 0, length: int | None = None) -> Iterator[Rows]:
        """The blocks of a whole pass; readers must not be more than one block apart."""
        assert start == 0, "fits that share reads begin with the first row"
        number = 0
        while (rows := self._block(number)) is not None:
            yield rows
            number += 1

    def _block(self, number: int) -> Rows | None:
        """A block by its number; None after the last."""
        if number == 0 and self._number != 0:
            self.close()
            self._reading = prefetched(self.source.blocks())
            self.n_passes += 1
            self._number = -1
        if number != self._number:
            assert number == self._number + 1, "readers of shared blocks are out of step"
            self._number, self._rows = number, next(self._reading, None)
        return self._rows

    def close(self) -> None:
        """End the present pass."""
        close = getattr(self._reading, "close", None)
        if close is not None:
            close()


class SharedPass(LocalPass):
    """A pass over shared blocks, which are read ahead for all fits together."""

    def _ahead(self, blocks: Iterator[Rows]) -> Iterator[Rows]:
        return blocks


@dataclass
class Member:
    """One of several fits: its loop, the seconds it has taken, and why it ended, if early."""

    plan: FitPlan
    loop: Loop = field(init=False)
    seconds: float = 0.0
    error: Exception | None = None

    def __post_init__(self) -> None:
        self.loop = Loop(self.plan)

    @property
    def fit(self) -> Fit:
        """The present state."""
        return self.loop.fit


Leaving = Callable[[Sequence[int]], Sequence[int]]
"""Given the numbers of the fits that go on after a pass, those that end there."""


def run_together(
    members: Sequence[Member], leaving: Leaving, expected: tuple[type[Exception], ...]
) -> None:
    """Run fits in step, block by block, until all are done or have left.

    A fit that raises one of the `expected` errors ends, and has the error; others are raised.
    """
    with ExitStack() as stack:
        steps = {
            number: stack.enter_context(closing(member.loop.iter_fits()))
            for number, member in enumerate(members)
        }
        while steps:
            for number in list(steps):
                if _ended(members[number], steps[number], expected):
                    steps.pop(number).close()
            if steps and all(members[number].fit.row == 0 for number in steps):
                for number in leaving(list(steps)):
                    steps.pop(number).close()


def _ended(member: Member, steps: Iterator[Fit], expected: tuple[type[Exception], ...]) -> bool:
    """Make the next step of a fit; whether there was none."""
    began = time.perf_counter()
    try:
        return next(steps, None) is None
    except expected as error:
        member.error = error
        return True
    finally:
        member.seconds += time.perf_counter() - began
