"""Joining states that were learned from one ancestor.

A sum of floats depends on its order, so states are first put into an order of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.problem import Problem
from mixfold.core.value import digest


def in_order(states: Sequence[Any]) -> list[Any]:
    """The same states, in an order that depends on nothing but what they hold."""
    return sorted(states, key=digest) if len(states) > 1 else list(states)


def learned_more(
    learner: Learner, problem: Problem, before: Any, states: Sequence[Any]
) -> list[Any]:
    """Those states, closed and in order, that have seen rows since `before`."""
    check_same_kind(before, states)
    ended = [learner.close(problem, state) for state in states]
    return in_order([state for state in ended if state.rows > before.rows])


def more(name: str, before: Any, states: Sequence[Any]) -> list[Any]:
    """By how much a field has grown in each state."""
    return [getattr(state, name) - getattr(before, name) for state in states]


def counted(before: Any, states: Sequence[Any], *names: str) -> dict[str, Any]:
    """Fields that count: what they held before, and all that each state has added."""
    return {name: getattr(before, name) + sum(more(name, before, states)) for name in names}


def weighted(
    join: Callable[[Any, Any, float], Any], things: Sequence[Any], weights: Sequence[float]
) -> Any:
    """The mean of things by `join(a, b, t)`, which is (1 - t) a + t b."""
    mean, total = things[0], weights[0]
    for thing, weight in zip(things[1:], weights[1:], strict=True):
        total += weight
        mean = join(mean, thing, weight / total)
    return mean


def check_same_kind(before: Any, states: Sequence[Any]) -> None:
    """Refuse states of other learners."""
    for state in states:
        if type(state) is not type(before):
            raise InvalidInputError(
                f"a {type(state).__name__} cannot be merged with a {type(before).__name__}: "
                "use one learner for all"
            )


def check_same_pass(before: Any, states: Sequence[Any]) -> None:
    """Refuse states whose sums were made under different parameters."""
    check_same_kind(before, states)
    for state in states:
        if state.passes != before.passes:
            raise InvalidInputError(
                f"a state of pass {state.passes} cannot be merged with one of pass "
                f"{before.passes}: their sums were made under different parameters; merge "
                "before a pass ends"
            )
