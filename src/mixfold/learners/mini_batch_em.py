"""Mini-batch EM with averaging and truncation."""

from __future__ import annotations

from dataclasses import replace

from mixfold.core.errors import unknown_name
from mixfold.core.learner import Learner, Order
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._batches import check_batch_size, rows_per_batch
from mixfold.learners._stochastic import StochasticEM
from mixfold.schedules.power import Power

SAMPLINGS = ("auto", "stream", "with-replacement", "without-replacement")


@value
class MiniBatchEM(StochasticEM):
    """s <- s + gamma_r (mean of sbar over N rows - s), theta <- maximize(s).

    `batch_size` is a number of rows, or a fraction of all rows if below 1; None is a twentieth of
    the rows, between 32 and 8192, and 1024 where their number is not known. `sampling` draws
    batches "with-replacement", "without-replacement" or in "stream" order; "auto" shuffles what
    can be indexed and streams the rest. Where batches are small, the start counts for so many that
    a step takes no more than a row in 5 K (d + 1). `average_from` starts Polyak averaging at that
    update. `truncation` is the paper's c: an iterate with a weight below 1/c, a location above c or
    a variance outside [1/c, c] sends learning back to its start, and c grows by one.

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

    def credit(self, sample: int, k: int, d: int) -> int:
        return self.rows_to_small_steps(k, d)

    def order(self, random_access: bool) -> Order:
        if self.sampling == "auto":
            return "without-replacement" if random_access else "stream"
        return self.sampling  # type: ignore[return-value]
