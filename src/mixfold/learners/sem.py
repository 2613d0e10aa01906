"""Stochastic EM: labels are drawn in every E-step."""

from __future__ import annotations

from typing import ClassVar

from mixfold.core.learner import Learner
from mixfold.core.value import value
from mixfold.learners._stochastic import StochasticEM
from mixfold.learners._stochastic_state import Assign
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.schedules.constant import Constant


@value
class SEM(StochasticEM):
    """Stochastic EM: a component is drawn for every row, and parameters are fitted to the draws.

    The parameters form a Markov chain about the maximum, and their mean is the estimate. Use it to
    leave poor local optima.

    Parameters
    ----------
    max_iter : int, default=100
        The largest number of passes over the data.
    average_from : int or None, default=50
        The estimate is the mean of the parameters from this update on (Polyak averaging). None
        takes the parameters of the last update.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="sem", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Celeux and Diebolt (1985), The SEM algorithm.
    """

    assign: ClassVar[Assign] = "draw"
    schedule = Constant(1.0)
    batch_size = None
    warmup = 0
    truncation = None

    max_iter: int = 100
    average_from: int | None = 50

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        return OnlineKMLE(strategy="sample").resolve(n, d, streaming) if streaming else self
