"""A fit under way, as a value."""

from __future__ import annotations

from typing import Any

from mixfold.core.backend import Model
from mixfold.core.checks import check_count, check_kind, check_least, check_seed
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.value import value
from mixfold.fitting.history import History


@value
class Fit:
    """A fit under way: all that is needed to go on from here.

    `row` rows of pass number `passes` of start number `start` are folded into `state`, which was
    `origin` before the first; `length` is that of the last whole pass.
    """

    state: Any
    history: History
    start: int = 0
    passes: int = 0
    row: int = 0
    rows_seen: int = 0
    seconds: float = 0.0
    done: bool = False
    best: Fit | None = None
    seed: int = 0
    origin: Any = None
    length: int = 0

    def check(self, learner: Learner, model: Model) -> None:
        """Refuse what no fit of the model by the learner can have led to."""
        self.history.check()
        for name in ("start", "passes", "row", "rows_seen", "length"):
            check_count(name, getattr(self, name))
        check_seed("seed", self.seed)
        check_least("seconds", self.seconds, 0.0)
        learner.check_state(model, self.state)
        row = getattr(self.state, "row", self.row)
        if row != self.row:
            raise InvalidInputError(f"row is {self.row}, but {row} in the state")
        if self.origin is not None:
            learner.check_state(model, self.origin)
        if self.best is not None:
            check_kind("best of the best fit", self.best.best, type(None))
            self.best.check(learner, model)

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood per row when last seen."""
        return float(self.history.log_likelihood[-1]) if len(self.history) else float("nan")

    @property
    def bound(self) -> float:
        """What the learner maximises, per row, at last; NaN where it is the log-likelihood."""
        return float(self.history.bound[-1]) if len(self.history) else float("nan")
