"""Online EM: one pass, in stream order."""

from __future__ import annotations

from mixfold.core.checks import check_whole
from mixfold.core.learner import Learner, rows_before_start
from mixfold.core.schedule import Schedule
from mixfold.core.value import replace, value
from mixfold.learners._stochastic import StochasticEM
from mixfold.schedules.power import Power


@value
class OnlineEM(StochasticEM):
    """EM with an update after every row or small batch.

    s <- s + gamma_n (sbar(x_n; theta) - s), theta <- maximize(s), after each `batch_size` rows. Use
    it for streams; `schedule=Constant(step)` forgets the past at a constant rate. The initial
    parameters count for enough rows that the first step is 1 / (5 K (d + 1)).

    Parameters
    ----------
    batch_size : int, default=1
        Rows per update.
    schedule : schedule, default=Power(0.6)
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=1
        The largest number of passes over the data.
    warmup : int or None, default=None
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
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="online-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Cappé and Moulines (2009), On-line expectation-maximization algorithm for latent
    data models.
    """

    batch_size: int = 1
    schedule: Schedule = Power()
    max_iter: int = 1
    warmup: int | None = None  # type: ignore[assignment]
    average_from: int | None = None
    truncation: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("batch_size", self.batch_size)

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return max(min(sample, rows_before_start(k, d)), self.rows_to_small_steps(k, d))

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        warmup = 10 * (d + 1) if self.warmup is None else self.warmup
        return replace(self, warmup=warmup)
