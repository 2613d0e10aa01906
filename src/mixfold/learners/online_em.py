"""Online EM: one pass, in stream order."""

from __future__ import annotations

from dataclasses import replace

from mixfold.core.checks import check_whole
from mixfold.core.learner import Learner, rows_before_start
from mixfold.core.schedule import Schedule
from mixfold.core.value import value
from mixfold.learners._stochastic import StochasticEM
from mixfold.schedules.power import Power


@value
class OnlineEM(StochasticEM):
    """s <- s + gamma_n (sbar(x_n; theta) - s), theta <- maximize(s), after each `batch_size` rows.

    The first `warmup` rows update s but not theta (None: ten per free direction of the data). The
    start counts for as many rows as make the first steps 1 / (5 K (d + 1)). Rows that come after a
    whole fit have no warm-up, and weigh as much as rows of the fit.
    `schedule=Constant(step)` forgets the past at a constant rate.

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

    def credit(self, sample: int, k: int, d: int) -> int:
        return max(min(sample, rows_before_start(k, d)), self.rows_to_small_steps(k, d))

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        warmup = 10 * (d + 1) if self.warmup is None else self.warmup
        return replace(self, warmup=warmup)
