"""The information of the scores of rows, which learners of posteriors keep for their intervals."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from mixfold.core.backend import Backend
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners._prior import mixture_of
from mixfold.models.bayesian_mixture import MixturePosterior
from mixfold.models.score_information import ScoreInformation


class Informed(Protocol):
    """A state with a posterior and the information of scores."""

    @property
    def params(self) -> Any:
        """The posterior."""

    @property
    def information(self) -> ScoreInformation | None:
        """The information so far; None where it is not known."""


State = TypeVar("State", bound=Informed)


def first_information(
    backend: Backend, posterior: MixturePosterior, seen: int
) -> ScoreInformation | None:
    """The information before the first row, from initial parameters of `seen` rows."""
    mixture = mixture_of(backend)
    return ScoreInformation.nothing(mixture.model, mixture.expected(posterior), max(seen, 1))


def with_scores(backend: Backend, state: State, rows: Rows) -> State:
    """The state with the information of rows; their scores are those under its posterior."""
    mixture, information = mixture_of(backend), state.information
    if information is None:
        return state
    while len(rows):
        some = rows.cut(0, information.rows_until_full)
        rows = rows.cut(len(some), len(rows))
        information = information.after(mixture.model, lambda: mixture.expected(state.params), some)
    return replace(state, information=information)
