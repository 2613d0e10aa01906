"""Online maximum likelihood of a single exponential family."""

from __future__ import annotations

from mixfold.core.backend import Model
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._linearity import not_linear
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.power import Power


@value
class ExactMLE(OnlineEM):
    """Online maximum likelihood: m <- m + (t(x_n) - m) / n.

    It is online EM with steps 1/n. Use it for one component, where it is exact after every row and
    forgets its initialisation.

    Parameters
    ----------
    batch_size : int, default=1
        Rows per update.
    schedule : schedule, default=Power(1.0)
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=1
        The largest number of passes over the data.
    warmup : int or None, default=0
        The number of rows at the beginning that update the statistics but not the parameters. None
        is ten rows per free direction of the data.
    average_from : int or None, default=None
        The estimate is the mean of the parameters from this update on (Polyak averaging). None
        takes the parameters of the last update.
    truncation : float or None, default=None
        Learning returns to its initial parameters when a weight falls below 1 / c, a location
        exceeds c or a variance leaves [1 / c, c], where c is this value and grows by one every
        time. None is no truncation.

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

    def why_unsupported(self, model: Model) -> str | None:
        return super().why_unsupported(model) or not_linear(self, model)

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return 0 if k == 1 else super().prior_count(sample, k, d)
