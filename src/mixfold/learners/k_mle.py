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
    """EM with all of a row's responsibility on argmax_k w_k p(x | k): classification EM.

    It raises the complete-data likelihood, not the likelihood, and is biased where components
    overlap. `init="k-mle++"` is its usual start.

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
