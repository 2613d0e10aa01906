"""The state of EM on a sample of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from mixfold.core.backend import Model
from mixfold.core.checks import check_count, check_seed
from mixfold.core.family import Family
from mixfold.core.params import Params
from mixfold.core.statistics import Statistics
from mixfold.core.value import replace, value
from mixfold.learners._gathering import Gathered
from mixfold.learners._kept_estimates import KeptFit, check_family
from mixfold.learners._kept_rows import KeptRows, nothing_kept, same_rows
from mixfold.models.mixture_model import MixtureParams

LEAST_KEPT = 512  # rows, whatever the memory
BYTES_PER_ROW = 24  # of keys, numbers and weights


@value
class ReservoirState:
    """Parameters of the last refit, statistics of all rows under them, and the kept rows.

    `statistics` are those of the rows before the last refit, `gathered` those of the rows since,
    and `before` those of a fit after which learning continued, whose rows are not kept; None is no
    rows. `fit` is what the last read computed while all rows were kept, from which later reads
    continue. `family` has the limits computed from the kept rows. `rows` and `seed` determine the
    next random keys.
    """

    params: Params
    statistics: Statistics | None
    before: Statistics | None
    gathered: Gathered
    kept: KeptRows
    family: Family
    rows: int
    passes: int
    n_degenerate: int
    seed: int
    fit: KeptFit | None = None

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        model.check_params(self.params)
        for statistics in (self.statistics, self.before):
            if statistics is not None:
                model.check_statistics(statistics)
        self.gathered.check(model, self.params)
        self.kept.check(model)
        if self.fit is not None:
            self.fit.check(model)
        check_family(self.family, model)
        for name in ("rows", "passes", "n_degenerate"):
            check_count(name, getattr(self, name))
        check_seed("seed", self.seed)

    def after(self, first: int) -> ReservoirState:
        """The state with the rows from number `first` on, which are numbered from 0."""
        latest = [block.renumbered(-first) for block in self.kept.since(first)]
        kept = nothing_kept(self.kept.below).joined(latest)
        return replace(self, kept=kept, rows=self.rows - first, fit=None)

    def same_rows(self, states: Sequence[ReservoirState]) -> bool:
        """Whether all states have kept the same rows of those that this one had learned."""
        below = min(state.kept.below for state in states)
        first, *others = (state.kept.among(self.rows, below) for state in states)
        return all(same_rows(first, other) for other in others)

    @property
    def weight(self) -> float:
        """The weight of all rows before the last refit."""
        known = (self.statistics, self.before)
        return float(sum(one.count for one in known if one is not None))

    @property
    def mixture(self) -> MixtureParams:
        """The parameters of the last refit."""
        assert isinstance(self.params, MixtureParams)
        return self.params


def united(before: ReservoirState, states: Sequence[ReservoirState]) -> tuple[KeptRows, int]:
    """The kept rows of all states, numbered one after another, and the number of all rows."""
    kept, rows = nothing_kept().joined(states[0].kept.until(before.rows)), before.rows
    for state in states:
        shift = rows - before.rows
        kept = kept.joined([b.renumbered(shift) for b in state.kept.since(before.rows)])
        rows += state.rows - before.rows
    return kept, rows


def common_rows(before: ReservoirState, states: Sequence[ReservoirState]) -> KeptRows:
    """The rows that all states have learned as one, as far as one of them has kept them."""
    most = max(states, key=lambda state: state.kept.below)
    return nothing_kept(most.kept.below).joined(most.kept.until(before.rows))


def rows_that_fit(memory_budget: int, d: int) -> int:
    """The number of rows of d columns that fit into so many bytes."""
    return max(memory_budget // (8 * d + BYTES_PER_ROW), LEAST_KEPT)
