"""Online k-MLE: every row is assigned to one component."""

from __future__ import annotations

from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.value import value
from mixfold.learners._stochastic_state import Assign
from mixfold.learners.online_em import OnlineEM

STRATEGIES: dict[str, Assign] = {"argmax": "mode", "lookahead": "lookahead", "sample": "draw"}


@value
class OnlineKMLE(OnlineEM):
    """Online EM in which a row counts for one component alone.

    Use it for hard clustering of streams. Only the strategy "sample" does not push overlapping
    components apart.

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
    strategy : {"argmax", "lookahead", "sample"}, default="argmax"
        The most likely component, the one that would be most likely after the M-step it causes, or
        one that is drawn from the responsibilities.

    Examples
    --------
    >>> from mixfold import Mixture, OnlineKMLE, datasets
    >>> learner = OnlineKMLE(strategy="sample")
    >>> model = Mixture("gaussian", 2, learner=learner, random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Saint-Jean and Nielsen (2015), Online k-MLE for mixture modelling with exponential families;
    Samé, Ambroise and Govaert (2007).
    """

    strategy: str = "argmax"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strategy not in STRATEGIES:
            raise unknown_name("strategy", self.strategy, STRATEGIES)
        if self.strategy == "lookahead" and self.batch_size != 1:
            raise InvalidInputError(
                f"batch_size is {self.batch_size!r}: strategy='lookahead' tries the M-steps of one "
                "row, so batch_size=1 is needed"
            )

    @property
    def counts_prior(self) -> bool:  # type: ignore[override]
        """Whether M-steps are made from statistics of all rows."""
        return self.strategy != "lookahead"

    @property
    def assign(self) -> Assign:
        """How a row is assigned."""
        return STRATEGIES[self.strategy]
