"""Snapshots of states from which learning continued, which are needed for merging."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mixfold.core.backend import Model
from mixfold.core.checks import check_count
from mixfold.core.learner import Learner
from mixfold.core.value import value

MOST = 8


@value
class Snapshot:
    """A state from which learning continued, perhaps in several copies, and its rows.

    `n_seen` counts passes, `n_rows` does not.
    """

    state: Any
    n_seen: int
    n_rows: int

    def check(self, learner: Learner, model: Model) -> None:
        """Raise an error for an invalid snapshot."""
        learner.check_state(model, self.state)
        check_count("n_seen", self.n_seen)
        check_count("n_rows", self.n_rows)


def joined(snapshots: list[Snapshot], more: Iterable[Snapshot]) -> list[Snapshot]:
    """Add snapshots, each once, in the order of their rows.

    Beyond a limit the first and the latest are kept.
    """
    found = {a.n_seen: a for a in snapshots}
    for one in more:
        if one.n_seen > snapshots[0].n_seen:
            found.setdefault(one.n_seen, one)
    in_order = [found[n] for n in sorted(found)]
    return in_order if len(in_order) <= MOST else [in_order[0], *in_order[-(MOST - 1) :]]
