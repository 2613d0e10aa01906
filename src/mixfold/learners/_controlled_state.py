"""The state of EM with a control variate."""

from __future__ import annotations

from typing import Literal

from mixfold.core.backend import Model
from mixfold.core.checks import HIGHEST, check_count, check_least
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LIGHTEST
from mixfold.core.params import Params
from mixfold.core.statistics import Additive
from mixfold.core.value import value
from mixfold.learners._gathering import Gathered
from mixfold.learners._memory import Memory

Phase = Literal["fill", "update"]
FILL: Phase = "fill"
UPDATE: Phase = "update"


@value
class ControlledState:
    """Statistics s, the mean S of the control variates, and their memory or anchor.

    A "fill" pass computes the reference S under its initial parameters, the anchor; an "update"
    pass uses it, and may compute the next one at the same time. `filling` holds the sums of the
    next reference, `gathered` those of the current batch. `row` counts the rows of the pass,
    `length` and `weight` are those of the whole data.
    """

    params: Params
    statistics: Additive
    reference: Additive
    anchor: Params
    initialization: Params
    memory: Memory | None
    filling: Gathered
    gathered: Gathered
    phase: Phase
    row: int
    length: int
    weight: float
    passes: int
    n_degenerate: int
    log_likelihood: float
    before: float
    gains: list[float]
    converged: bool

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        for params in (self.params, self.anchor, self.initialization):
            model.check_params(params)
        for statistics in (self.statistics, self.reference):
            model.check_statistics(statistics)
        self.filling.check(model, self.initialization, 1)
        self.gathered.check(model, None, 1)
        for name in ("row", "length", "passes", "n_degenerate"):
            check_count(name, getattr(self, name))
        if self.weight != 0.0:
            check_least("weight", self.weight, LIGHTEST, HIGHEST)
        if self.phase == UPDATE and not (self.weight > 0.0 and self.length > 0):
            raise InvalidInputError(
                f"weight is {self.weight} and length {self.length}: updates need rows"
            )

    @property
    def on_file(self) -> bool:
        """Whether a checkpoint must be written at the end of every pass."""
        return self.memory is not None and self.memory.on_file
