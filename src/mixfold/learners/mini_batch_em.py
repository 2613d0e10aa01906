"""Mini-batch EM with averaging and truncation."""

from __future__ import annotations

from mixfold.core.errors import unknown_name
from mixfold.core.learner import Learner, Order
from mixfold.core.schedule import Schedule
from mixfold.core.value import replace, value
from mixfold.learners._batches import check_batch_size, rows_per_batch
from mixfold.learners._stochastic import StochasticEM
from mixfold.schedules.power import Power

SAMPLINGS = ("auto", "stream", "with-replacement", "without-replacement")


@value
class MiniBatchEM(StochasticEM):
    """EM with an update after every batch.

    s <- s + gamma_r (mean of sbar over N rows - s), theta <- maximize(s). Use it for very much data
    and few passes. If batches are small, the initial parameters count for enough rows that no step
    exceeds 1 / (5 K (d + 1)) per row.

    Parameters
    ----------
    batch_size : float or None, default=None
        Rows per update; below 1 a fraction of all rows. None is a twentieth of the rows, between 32
        and 8192, or 1024 where their number is not known.
    sampling : {"auto", "with-replacement", "without-replacement", "stream"}, default="auto"
        How batches are drawn; "auto" shuffles what can be indexed and takes the rest in order.
    schedule : schedule, default=Power(0.6)
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=10
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
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="mini-batch-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Nguyen, Forbes and McLachlan (2020), Mini-batch learning of exponential family
    finite mixture models.
    """

    batch_size: float | None = None
    sampling: str = "auto"
    schedule: Schedule = Power()
    max_iter: int = 10
    warmup: int = 0
    average_from: int | None = None
    truncation: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size is not None:
            check_batch_size(self.batch_size)
        if self.sampling not in SAMPLINGS:
            raise unknown_name("sampling", self.sampling, SAMPLINGS)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if self.batch_size is None:
            return replace(self, batch_size=1024 if n is None else min(8192, max(32, n // 20)))
        return replace(self, batch_size=rows_per_batch(self.batch_size, n))

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return self.rows_to_small_steps(k, d)

    def order(self, random_access: bool) -> Order:
        if self.sampling == "auto":
            return "without-replacement" if random_access else "stream"
        return self.sampling  # type: ignore[return-value]
