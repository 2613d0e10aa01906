"""Where learning has come from: what makes states mergeable."""

from __future__ import annotations

from typing import Any

from mixfold.core.checks import check_count
from mixfold.core.learner import Learner
from mixfold.core.problem import Model
from mixfold.core.value import value

MOST = 8


@value
class Ancestor:
    """A state from which learning went on, perhaps in several places, and the rows behind it.

    `n_seen` counts passes, `n_rows` does not.
    """

    state: Any
    n_seen: int
    n_rows: int

    def check(self, learner: Learner, model: Model) -> None:
        """Refuse what no rows of the model can have led to."""
        learner.check_state(model, self.state)
        check_count("n_seen", self.n_seen)
        check_count("n_rows", self.n_rows)


def descended(ancestors: list[Ancestor], one_more: Ancestor) -> list[Ancestor]:
    """With one more ancestor; beyond a limit the first and the latest are kept."""
    found = [*ancestors, one_more]
    return found if len(found) <= MOST else [found[0], *found[-(MOST - 1) :]]
