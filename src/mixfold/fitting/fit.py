"""The state of a fit, as a value."""

from __future__ import annotations

from math import isnan
from typing import Any

from mixfold.core.backend import Model
from mixfold.core.checks import check_count, check_kind, check_least, check_seed
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.value import value
from mixfold.fitting.history import History


@value
class Fit:
    """The state of a fit: everything that is needed to continue it.

    `state` includes `row` rows of pass number `passes` of initialisation number `start`; it was
    `origin` before the first row. `length` is the number of rows of the last complete pass.
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
        """Raise an error for a state that is not valid for the model and the learner."""
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
        """The latest log-likelihood per row."""
        return float(self.history.log_likelihood[-1]) if len(self.history) else float("nan")

    @property
    def bound(self) -> float:
        """The latest lower bound per row; NaN if the learner maximises the log-likelihood."""
        return float(self.history.bound[-1]) if len(self.history) else float("nan")

    @property
    def objective(self) -> float:
        """What the learner maximises, per row: the bound, or else the log-likelihood."""
        return self.log_likelihood if isnan(self.bound) else self.bound
