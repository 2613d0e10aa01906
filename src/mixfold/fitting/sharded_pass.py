"""One pass over the data, distributed over workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mixfold.backends.threads import Threads
from mixfold.core.backend import Model
from mixfold.core.engine import Engine
from mixfold.core.errors import InvalidInputError, in_partition
from mixfold.core.learner import Info, Learner
from mixfold.core.learner_capabilities import Mergeable
from mixfold.core.source import Check, Source, no_check
from mixfold.core.value import value
from mixfold.fitting.fit import Fit
from mixfold.fitting.pass_runner import Moved

SHARDS = 8


@value
class Folded:
    """A state without buffered rows, the number of rows read, and the results of updates."""

    state: Any
    rows: int
    shown: Info | None


class Folding:
    """The work of a worker on a partition; with one thread, since there are many workers."""

    def __init__(self, model: Model, learner: Learner, check: Check, shards: int) -> None:
        self.model, self.learner, self.check, self.shards = model, learner, check, shards

    def begin(self, before: Any, shard: int) -> Folded:
        """The initial state of a shard."""
        return Folded(self.learner.branch(self.model, before, shard, self.shards), 0, None)

    def fold(self, folded: Folded, partition: int, opened: Any, *where: Any) -> Folded:
        """Update the state with the rows of a partition, and flush buffered rows."""
        backend = Threads(self.model, 1)
        state, infos, n = folded.state, [folded.shown], 0
        with in_partition(partition):
            for rows in opened(*where).blocks():
                self.check(rows, range(n, n + len(rows)))
                state, more = self.learner.step(backend, state, rows)
                infos += more
                n += len(rows)
        state, more = self.learner.flush(backend, state)
        return Folded(state, folded.rows + n, together([*infos, *more]))

    def merge(self, before: Any, folded: Sequence[Folded]) -> Folded:
        """Merge several results into one."""
        states = [one.state for one in folded]
        assert isinstance(self.learner, Mergeable)
        state = self.learner.merge(Threads(self.model, 1), before, states)
        rows = sum(one.rows for one in folded)
        return Folded(state, rows, together([one.shown for one in folded]))


def together(infos: Sequence[Info | None]) -> Info | None:
    """The mean log-likelihood, weighted by rows, and the last step size."""
    given = [info for info in infos if info is not None]
    if not given:
        return None
    rows = sum(info.rows for info in given)
    total = sum(info.rows * info.log_likelihood for info in given)
    return Info(rows, total / rows, given[-1].step_size)


class ShardedPass:
    """Processes partitions with an engine, and merges the results.

    If a pass only sums statistics, every partition is a shard. Otherwise a shard is a sequence of
    neighbouring partitions, which is learned in order, or a single one where workers cannot read
    several. The number of shards depends on the data alone, so the result does not depend on the
    number of workers.
    """

    def __init__(
        self, engine: Engine, model: Model, learner: Learner, source: Source, check: Check
    ) -> None:
        if not isinstance(learner, Mergeable):
            raise InvalidInputError(
                f"learner is {learner!r}, which cannot be shared out among workers: use 'em', "
                "'online-em', 'mini-batch-em' or 'auto'"
            )
        if learner.order(False) != "stream":
            raise InvalidInputError(
                f"sampling={learner.order(False)!r} draws rows from all of the data, which a "
                "cluster does not hold in one place: use sampling='stream'"
            )
        self.engine, self.model, self.learner, self.check = engine, model, learner, check
        self.partitions = source.partitions()
        self.joins = source.can_join_partitions

    def states(self, fit: Fit) -> Iterator[Moved]:
        """The state after all rows."""
        unseen = fit.passes == 0 and fit.start == 0
        shards = self._shards(fit.state)
        work = Folding(self.model, self.learner, self.check if unseen else no_check, len(shards))
        folded = self.engine.reduce(work, fit.state, shards)
        # merging also resets the settings of a branch, even if there is only one
        merged = work.merge(fit.state, [folded])
        yield merged.state, [merged.shown] if merged.shown else [], merged.rows

    def run_passes(self, fit: Fit, most: int | None) -> Moved | None:
        """None: passes are made one by one."""
        return None

    def _shards(self, state: Any) -> list[Sequence[Source]]:
        parts = self.partitions
        alone = not self.joins or self.learner.is_reduction(state)
        n = len(parts) if alone else min(SHARDS, len(parts))
        return [parts[len(parts) * i // n : len(parts) * (i + 1) // n] for i in range(n)]
