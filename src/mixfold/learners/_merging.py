"""Merging of states that were learned from a common one.

A sum of floats depends on its order, so states are first sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.params import LearnerState, Params
from mixfold.core.rows import Array
from mixfold.core.schedule import Schedule
from mixfold.core.statistics import Additive
from mixfold.core.value import digest, replace
from mixfold.learners._steps import RowCounts, retained
from mixfold.models.penalized_mixture import of_rows

ROUNDING = 1e-12


class CountsRows(LearnerState, Protocol):
    """A state that counts its rows."""

    @property
    def rows(self) -> int:
        """The number of rows."""


class InPass(Protocol):
    """A state that counts its passes."""

    @property
    def passes(self) -> int:
        """The number of completed passes."""


T = TypeVar("T")
S = TypeVar("S", bound=CountsRows)
A = TypeVar("A", bound=Additive)


def in_order(states: Sequence[T]) -> list[T]:
    """The states in an order that depends on their contents alone."""
    return sorted(states, key=digest) if len(states) > 1 else list(states)


def learned_more(learner: Learner[S], backend: Backend, before: S, states: Sequence[S]) -> list[S]:
    """The states with rows since `before`, flushed and sorted."""
    check_same_kind(before, states)
    ended = [learner.flushed(backend, state) for state in states]
    return in_order([state for state in ended if state.rows > before.rows])


def more(name: str, before: object, states: Sequence[object]) -> list[float]:
    """The increase of a field in each state since `before`."""
    return [getattr(state, name) - getattr(before, name) for state in states]


def counted(before: object, states: Sequence[object], *names: str) -> dict[str, Any]:
    """Counting fields: the value before, plus the increases in all states."""
    return {name: getattr(before, name) + sum(more(name, before, states)) for name in names}


def weighted(join: Callable[[T, T, float], T], things: Sequence[T], weights: Sequence[float]) -> T:
    """The weighted mean of values by `join(a, b, t)`, which is (1 - t) a + t b."""
    mean, total = things[0], weights[0]
    for thing, weight in zip(things[1:], weights[1:], strict=True):
        total += weight
        mean = join(mean, thing, weight / total)
    return mean


class Averaging(Protocol):
    """A state with a mean of iterates of the parameters."""

    @property
    def average(self) -> Params | None:
        """The mean, once there is an iterate."""

    @property
    def averaged(self) -> int:
        """The number of iterates."""


def mean_average(model: Model, before: Averaging, states: Sequence[Averaging]) -> Params | None:
    """The mean of the states' averaged parameters, weighted by their new iterates."""
    new = [state for state in states if state.averaged > before.averaged]
    if not new:
        return before.average
    averages = [state.average for state in new]
    return weighted(model.blend, averages, more("averaged", before, new))


def joined_counts(before: RowCounts, several: Sequence[RowCounts]) -> RowCounts:
    """The counts of rows of all states, in which those of `before` count once."""
    return replace(before, **counted(before, several, "rows", "weight"))


class Counting(NamedTuple):
    """The weight that each state has added, and the fraction of `before` that it has retained."""

    gained: Array
    retained: Array
    retained_by_all: float


def counting(
    schedule: Schedule, size: float, before: RowCounts, several: Sequence[RowCounts]
) -> Counting:
    """The weights and fractions for merging states that were learned in batches of `size`."""
    kept = [retained(schedule, before, one, size) for one in several]
    together = retained(schedule, before, joined_counts(before, several), size)
    most = 1.0 - ROUNDING  # rows may have too little weight to change anything
    weights = np.array(more("weight", before, several))
    return Counting(weights, np.minimum(kept, most), min(together, most))


def join_statistics(
    model: Model,
    before: tuple[Params, A],
    several: Sequence[A],
    counts: Counting,
    n: float = 0.0,
) -> tuple[A, Params, int]:
    """Statistics after the rows of all states, their parameters, and degenerate components.

    Each of `several` is a mean s_i = rho_i s_0 + (1 - rho_i) q_i of the statistics before and those
    of its own rows. They are merged as rho s_0 + (1 - rho) q, where q is the mean of the q_i,
    weighted by their rows, and rho is the fraction that one learner would have retained after all
    these rows. With steps 1/n this is the mean of all rows. A prior counts once among n rows.
    """
    params, statistics = before
    share = counts.gained / counts.gained.sum()
    factors = (1.0 - counts.retained_by_all) * share / (1.0 - counts.retained)
    if abs(factors.sum() - 1.0) > ROUNDING:
        parts = [f * model.sums(params, s) for f, s in zip(factors, several, strict=True)]
        sums = (1.0 - factors.sum()) * model.sums(params, statistics) + sum(parts)
        far = model.statistics(params, sums)
        joined = far, *model.maximize(of_rows(model, far, n))
        if not joined[-1]:
            return joined
    mean = weighted(lambda a, b, t: a.mix(b, t), several, counts.gained.tolist())
    return mean, *model.maximize(of_rows(model, mean, n))


def check_same_kind(before: object, states: Sequence[object]) -> None:
    """Raise an error for states of other learners."""
    for state in states:
        if type(state) is not type(before):
            raise InvalidInputError(
                f"a {type(state).__name__} cannot be merged with a {type(before).__name__}: "
                "use one learner for all"
            )


def check_same_pass(before: InPass, states: Sequence[InPass]) -> None:
    """Raise an error for states whose sums were computed under different parameters."""
    check_same_kind(before, states)
    for state in states:
        if state.passes != before.passes:
            raise InvalidInputError(
                f"a state of pass {state.passes} cannot be merged with one of pass "
                f"{before.passes}: their sums were made under different parameters; merge "
                "before a pass ends"
            )
