"""Monte Carlo EM, for whole passes and for mini-batches."""

from __future__ import annotations

from dataclasses import replace

from mixfold.core.checks import check_least
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.problem import Assignment, Problem
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._batches import check_batch_size, rows_per_batch
from mixfold.learners._gathering import Fold, expecting
from mixfold.learners._stochastic import StochasticEM
from mixfold.learners._stochastic_state import StochasticState
from mixfold.schedules.settling import Settling


@value
class MonteCarloEM(StochasticEM):
    """s <- s + gamma_r (mean of sbar over draws of z | x; theta - s), theta <- maximize(s).

    For models whose posterior has no closed form; with any other it is EM with noise. Each row has
    `draws` draws, and `growth` times `draws` more with every update, rounded down. A batch is a
    whole pass (None), a number of rows, or a share of them if below 1. Steps of size 1 find the
    place, then steps 1/t average the noise away (SAEM). Where EM is slow, steps t^-0.6 and the mean
    of the parameters since update `average_from` have less noise.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="monte-carlo-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Wei and Tanner (1990); Booth and Hobert (1999) for growing numbers of draws; Delyon, Lavielle
    and Moulines (1999), Convergence of a stochastic approximation version of the EM algorithm;
    Karimi, Lavielle and Moulines (2019) for batches.
    """

    assign = "draw"
    warmup = 0
    truncation = None

    draws: int = 10
    batch_size: float | None = None
    schedule: Schedule = Settling()
    max_iter: int = 60
    average_from: int | None = None
    growth: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least("growth", self.growth, 0.0)
        if self.batch_size is not None:
            check_batch_size(self.batch_size)

    def _fold(self, problem: Problem, state: StochasticState) -> Fold:
        draws = int(self.draws * (1.0 + self.growth * state.updates))
        rule = Assignment("draw", draws, state.seed, state.rows)
        return expecting(problem, state.params, rule)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if self.batch_size is None:
            if streaming:
                raise InvalidInputError(
                    "MonteCarloEM updates once per pass, and a stream has none: give batch_size"
                )
            return self
        return replace(self, batch_size=rows_per_batch(self.batch_size, n))
