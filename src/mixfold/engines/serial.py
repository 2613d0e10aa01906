"""The engine that runs in this process, to which every cluster must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from mixfold.core.engine import Engine, Folded, Work, tree
from mixfold.core.source import Source, same


class Serial(Engine):
    """Processes one partition after the other in this process."""

    served = "'serial'"
    remote = False

    @classmethod
    def connect(cls, cluster: object) -> AbstractContextManager[Engine]:
        return nullcontext(cls())

    def reduce(
        self, work: Work[Folded], before: object, shards: Sequence[Sequence[Source]]
    ) -> Folded:
        """The merged result of all shards."""
        leaves, number = [], 0
        for i, shard in enumerate(shards):
            folded = work.begin(before, i)
            for partition in shard:
                folded = work.fold(folded, number, same, partition)
                number += 1
            leaves.append(folded)
        return tree(leaves, lambda parts: work.merge(before, parts))
