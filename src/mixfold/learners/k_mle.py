"""k-MLE: EM with hard assignments."""

from __future__ import annotations

from typing import ClassVar, Literal

from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.value import value
from mixfold.learners.em import EM
from mixfold.learners.online_k_mle import OnlineKMLE


@value
class KMLE(EM):
    """Hard clustering: every row counts for its most likely component alone (classification EM).

    It maximises the complete-data likelihood and is biased where components overlap. Use it where
    clusters are well separated and labels are all that is wanted; `init="k-mle++"` suits it.

    Parameters
    ----------
    tol : float, default=0.005
        Learning has converged when less than so many nats of the log-likelihood of all rows are
        left to gain, as estimated from the gains of the last steps. Estimates are then within
        sqrt(2 tol) = 0.1 standard errors of the maximum, however many rows there are. 0 is never.
    max_iter : int, default=1000
        The largest number of passes over the data.
    accelerate : bool, default=False
        Whether to take longer steps.
    criterion : {"remaining", "step"}, default="remaining"
        What `tol` is compared with: the likelihood that is left to gain, or, as in scikit-learn,
        what a step has gained per row.
    prior_strength : float, default=0.0
        How many times a weak prior of the covariances counts, as in `EM`; 0 is none.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="k-mle", init="k-mle++", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Nielsen (2012), k-MLE: a fast algorithm for learning statistical mixture models; Celeux and
    Govaert (1992).
    """

    assign: ClassVar[Literal["mode"]] = "mode"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accelerate:
            raise InvalidInputError(
                "accelerate is True: hard assignments leave no smooth path to extrapolate, "
                "use accelerate=False"
            )

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        return OnlineKMLE().resolve(n, d, streaming) if streaming else self
