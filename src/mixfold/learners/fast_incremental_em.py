"""Fast incremental EM: small steps, steered by a memory of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mixfold.core.value import value
from mixfold.learners._controlled import ControlledEM


@value
class FastIncrementalEM(ControlledEM):
    """s <- s + rho (S + sbar_i(theta) - s_i - s), theta <- maximize(s).

    S is the mean of the rows' entries s_i, kept as in `IncrementalEM`; the first pass fills them.
    `rho` None is m^(-2/3) for m batches in a pass, or a batch in 50 K (d + 1) rows if that is less.
    The paper draws rows at random and renews entry and mean with each. Here rows come in the order
    of the source, and every pass renews all entries under the parameters of its beginning: entries
    made under parameters that change with the place would not have S for a mean there, and s would
    swing ever wider from pass to pass.

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

    follows: ClassVar[bool] = True

    batch_size: float = 1
    rho: float | None = None
    max_iter: int = 10
    memory: str | Path | None = None
    precision: str = "float64"
