"""Online k-MLE: every row goes to one component."""

from __future__ import annotations

from typing import Any

from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.value import value
from mixfold.learners.online_em import OnlineEM

STRATEGIES = {"argmax": "mode", "lookahead": "lookahead", "sample": "draw"}


@value
class OnlineKMLE(OnlineEM):
    """Online EM with all of a row's responsibility on one component.

    `strategy` "argmax" takes the most likely one, "lookahead" the one most likely after the M-step
    it would cause, "sample" draws it from the responsibilities. Only the last does not push
    overlapping components apart.

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
    def assign(self) -> Any:
        """How a row is assigned."""
        return STRATEGIES[self.strategy]
