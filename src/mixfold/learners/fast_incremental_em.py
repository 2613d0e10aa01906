"""Fast incremental EM: small steps, steered by a memory of all rows."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from mixfold.core.value import value
from mixfold.learners._controlled import ControlledEM


@value
class FastIncrementalEM(ControlledEM):
    """s <- s + rho (S + u (sbar_i(theta) - s_i) - s), S <- S + (sbar_i(theta) - s_i) / n.

    S is the mean of the rows' entries s_i, kept as in `IncrementalEM`; the first pass fills them.
    `rho` None is m^(-2/3) for m batches in a pass. Rows are taken in the order of the source, where
    the paper draws them; u is the share of the rows not yet seen in this pass, for which row i
    speaks. Without it (u = 1, right for rows drawn at random) the statistics overshoot.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="fast-incremental-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Karimi, Wai, Moulines and Lavielle (2019), On the global convergence of (fast) incremental
    expectation maximization methods.
    """

    control: ClassVar[Literal["fast"]] = "fast"

    batch_size: float = 1
    rho: float | None = None
    passes: int = 10
    memory: Any = None
    precision: str = "float64"

    @property
    def most_passes(self) -> int:
        return self.passes
