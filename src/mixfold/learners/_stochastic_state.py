"""The state of stochastic approximation of EM."""

from __future__ import annotations

from typing import Literal

from mixfold.core.backend import Model
from mixfold.core.checks import check_count, check_least, check_seed
from mixfold.core.params import Params
from mixfold.core.statistics import Additive
from mixfold.core.value import replace, value
from mixfold.learners._gathering import Gathered
from mixfold.learners._steps import RowCounts
from mixfold.models.penalized_mixture import of_rows

Assign = Literal["expected", "mode", "draw", "lookahead"]
"""How a row is assigned to components; see `core.backend.Assignment`, and `_lookahead.py`."""


@value
class StochasticState:
    """Statistics s, parameters theta(s), and the current batch.

    `average` is the Polyak mean of `averaged` iterates; `region` is the truncation level, and
    `start` are the parameters after truncation. `rows` and `seed` determine the next random
    numbers. `learned` holds the counts that step sizes depend on; its rows include buffered ones,
    its weight does not.
    """

    params: Params
    statistics: Additive
    gathered: Gathered
    learned: RowCounts
    rows: int
    updates: int
    passes: int
    n_degenerate: int
    average: Params | None
    averaged: int
    start: Params
    region: float
    truncations: int
    seed: int

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        averages = [] if self.average is None else [self.average]
        for params in (self.params, self.start, *averages):
            model.check_params(params)
        model.check_statistics(self.statistics)
        self.gathered.check(model, self.params)
        self.learned.check()
        for name in ("rows", "updates", "passes", "n_degenerate", "averaged", "truncations"):
            check_count(name, getattr(self, name))
        check_least("averaged", self.averaged, len(averages))
        check_least("region", self.region, 0.0)
        check_seed("seed", self.seed)


def rows_once(state: StochasticState) -> float:
    """The weight of the rows that were learned, passes not counted."""
    return state.learned.behind[1] / (state.passes + 1)


def maximized(model: Model, state: StochasticState, statistics: Additive) -> tuple[Params, int]:
    """The M-step; a prior counts once among the rows."""
    found: tuple[Params, int] = model.maximize(of_rows(model, statistics, rows_once(state)))
    return found


def averaged(model: Model, state: StochasticState, first: int | None) -> StochasticState:
    """Polyak averaging: the running mean of the iterates from number `first` on."""
    if first is None or state.updates < first:
        return state
    n = state.averaged + 1
    if n == 1:
        return replace(state, average=state.params, averaged=1)
    average = model.blend(state.average, state.params, 1.0 / n)
    return replace(state, average=average, averaged=n)


def truncation_excess(model: Model, params: Params, bound: float) -> float:
    """How far parameters are outside the region of this bound for weights, means and variances."""
    return model.truncation_excess(params, (bound, bound, bound))


def truncated(model: Model, state: StochasticState, bound: float | None) -> StochasticState:
    """If theta has left the truncation region, reset it and enlarge the region."""
    if bound is None or truncation_excess(model, state.params, bound) <= state.region:
        return state
    return replace(
        state,
        params=state.start,
        statistics=model.expected(state.start),
        region=state.region + 1,
        truncations=state.truncations + 1,
    )
