"""Monte Carlo EM, for whole passes and for mini-batches."""

from __future__ import annotations

from typing import ClassVar

from mixfold.core.backend import Assignment, Backend
from mixfold.core.checks import check_least
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.schedule import Schedule
from mixfold.core.value import replace, value
from mixfold.learners._batches import check_batch_size, rows_per_batch
from mixfold.learners._gathering import Fold, expecting
from mixfold.learners._stochastic import StochasticEM
from mixfold.learners._stochastic_state import Assign, StochasticState
from mixfold.schedules.settling import Settling


@value
class MonteCarloEM(StochasticEM):
    """EM whose E-step is the mean of random draws.

    s <- s + gamma_r (mean of sbar over draws of z | x; theta - s), theta <- maximize(s). Steps of
    size 1 come first, then steps 1/t that average the noise (SAEM). Use it for models whose
    posterior has no closed form. Where EM is slow, steps t^-0.6 and the mean of the parameters from
    update `average_from` on have less noise.

    Parameters
    ----------
    draws : int, default=10
        Draws per row.
    batch_size : float or None, default=None
        Rows per update; below 1 a fraction of all rows, None a whole pass.
    schedule : schedule, default=Settling()
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=60
        The largest number of passes over the data.
    average_from : int or None, default=None
        The estimate is the mean of the parameters from this update on (Polyak averaging). None
        takes the parameters of the last update.
    growth : float, default=0.0
        The number of draws grows by `growth` times `draws` with every update, rounded down.

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

    assign: ClassVar[Assign] = "draw"
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

    def _fold(self, backend: Backend, state: StochasticState) -> Fold:
        draws = int(self.draws * (1.0 + self.growth * state.updates))
        assignment = Assignment("draw", draws, state.seed, state.rows)
        return expecting(backend, state.params, assignment)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if self.batch_size is None:
            if streaming:
                raise InvalidInputError(
                    "MonteCarloEM updates once per pass, and a stream has none: give batch_size"
                )
            return self
        return replace(self, batch_size=rows_per_batch(self.batch_size, n))
