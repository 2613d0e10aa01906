"""Variance-reduced EM: small steps, steered by the statistics of an anchor."""

from __future__ import annotations

from typing import ClassVar

from mixfold.core.value import value
from mixfold.learners._controlled import ControlledEM


@value
class VarianceReducedEM(ControlledEM):
    """s <- s + rho (sbar_i(theta) - sbar_i(anchor) + S_anchor - s), theta <- maximize(s).

    Every other pass makes S_anchor, the statistics of all rows under the parameters of the moment;
    it is an EM step too. No row is remembered. `rho` None is m^(-2/3) for m batches in a pass, or
    a batch in 50 K (d + 1) rows if that is less.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="variance-reduced-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Chen, Zhu, Teh and Zhang (2018), Stochastic expectation maximization with variance reduction.
    """

    remembers: ClassVar[bool] = False
    alternates: ClassVar[bool] = True

    batch_size: float = 1
    rho: float | None = None
    max_iter: int = 10
