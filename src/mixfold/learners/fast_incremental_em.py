"""Fast incremental EM: small steps with stored responsibilities as a control variate."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mixfold.core.value import value
from mixfold.learners._controlled import ControlledEM


@value
class FastIncrementalEM(ControlledEM):
    """Incremental EM with small steps and a control variate (SAGA).

    s <- s + rho (S + sbar_i(theta) - s_i - s), theta <- maximize(s), where S is the mean of the
    stored contributions s_i. Use it for very many rows, with memory for K numbers per row. The
    paper draws rows at random and renews one contribution at a time; here rows come in the order of
    the source and every pass renews all contributions under the parameters at its beginning, since
    otherwise s oscillates more and more.

    Parameters
    ----------
    batch_size : float, default=1
        Rows per update; below 1 it is a fraction of all rows.
    rho : float or None, default=None
        The step size. None is m^(-2/3) for m batches in a pass, or a batch in 50 K (d + 1) rows if
        that is less.
    max_iter : int, default=10
        The largest number of passes over the data.
    memory : path or None, default=None
        Files for the responsibilities of all rows (`PATH.0` and `PATH.1`); None keeps them in
        memory.
    precision : {"float64", "float32"}, default="float64"
        How responsibilities are stored.

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
