"""Online EM with initial parameters that do not depend on the data, and bounded precisions."""

from __future__ import annotations

from mixfold.core.backend import Model
from mixfold.core.capabilities import CappedPrecision, CommonSpread
from mixfold.core.checks import check_above
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.core.schedule import Schedule
from mixfold.core.value import replace, value
from mixfold.learners._scale_warning import out_of_scale
from mixfold.learners.online_em import OnlineEM
from mixfold.schedules.floored import Floored

WARMUP = 0.1  # fraction of the rows
STEP = 0.01  # step size for the warning about rows far from the initial means


@value
class StepwiseEM(OnlineEM):
    """Online EM for many columns: bounded precisions, and steps that decrease to a minimum.

    s <- s + rho_t (mean of sbar over a batch - s), rho_t = max(rho_inf, rho_0 t^-(1/2 + alpha)).
    Means begin near zero and precisions at `cap`, so the data should be scaled to about [0, 1]. Use
    it as an alternative to `AnnealedSGD`.

    Parameters
    ----------
    batch_size : int, default=1
        Rows per update.
    schedule : schedule, default=Floored()
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=3
        The largest number of passes over the data.
    warmup : int or None, default=None
        The number of rows at the beginning that update the statistics but not the parameters. None
        is a tenth of the rows, or ten rows per column if their number is not known.
    average_from : int or None, default=None
        The estimate is the mean of the parameters from this update on (Polyak averaging). None
        takes the parameters of the last update.
    truncation : float or None, default=None
        Learning returns to its initial parameters when a weight falls below 1 / c, a location
        exceeds c or a variance leaves [1 / c, c], where c is this value and grows by one every
        time. None is no truncation.
    cap : float or None, default=20.0
        The largest precision; None is no bound.

    Examples
    --------
    >>> from mixfold import Gaussian, Mixture, StepwiseEM, datasets
    >>> x = datasets.load_faithful() / [6.0, 100.0]
    >>> learner = StepwiseEM(cap=400.0, max_iter=10)
    >>> model = Mixture(Gaussian("diag"), 4, learner=learner, random_state=0).fit(x)
    >>> bool(model.score(x) > 0.5), bool(model.covariances_.min() >= 1.0 / 400.0)
    (True, True)

    References
    ----------
    Cappé and Moulines (2009), On-line expectation-maximization algorithm for latent data models;
    Gepperth and Pfülb (2021) for the settings.
    """

    supports_warm_start = True
    sample_size = 1_000

    schedule: Schedule = Floored()
    max_iter: int = 3
    cap: float | None = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cap is not None:
            check_above("cap", self.cap, 0.0)

    def default_initializer(self, family: Family) -> str | None:
        return "uniform" if isinstance(family, CommonSpread) else None

    def bounded(self, family: Family) -> Family:
        if self.cap is None or not isinstance(family, CappedPrecision):
            return family
        return family.capped(self.cap)

    def warnings(self, model: Model, rows: Rows) -> list[str]:
        return [] if self.cap is None else out_of_scale(rows, STEP, self.cap)

    def prior_count(self, sample: int, k: int, d: int) -> int:
        return 0

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if self.warmup is None and n is not None:
            return replace(self, warmup=int(WARMUP * n))
        return super().resolve(n, d, streaming)
