"""Online maximum likelihood of a single exponential family."""

from __future__ import annotations

from mixfold.core.problem import Model
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._linearity import not_linear
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.power import Power


@value
class ExactMLE(OnlineEM):
    """m <- m + (t(x_n) - m) / n: after every row the maximum likelihood of all rows so far.

    It is online EM with steps 1/n, and exact for one component, where every responsibility is 1
    and the start is forgotten.

    Examples
    --------
    >>> from mixfold import Mixture
    >>> model = Mixture("poisson", 1, learner="exact-mle").fit([[1.0], [4.0], [4.0]])
    >>> model.means_
    array([[3.]])

    References
    ----------
    Saint-Jean and Nielsen (2015), Online k-MLE for mixture modelling with exponential families,
    algorithm 1.
    """

    schedule: Schedule = Power(exponent=1.0, scale=1.0)
    warmup: int | None = 0

    def refusal(self, model: Model) -> str | None:
        return super().refusal(model) or not_linear(self, model)

    def credit(self, sample: int, k: int, d: int) -> int:
        return 0 if k == 1 else super().credit(sample, k, d)
