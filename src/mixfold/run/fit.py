"""A fit under way, as a value."""

from __future__ import annotations

from typing import Any

from mixfold.core.value import value
from mixfold.run.history import History


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
    best: Any = None
    seed: int = 0
    origin: Any = None
    length: int = 0

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood per row when last seen."""
        return float(self.history.log_likelihood[-1]) if len(self.history) else float("nan")

    @property
    def bound(self) -> float:
        """What the rule raises, per row, when last seen; NaN where it is the log-likelihood."""
        return float(self.history.bound[-1]) if len(self.history) else float("nan")
