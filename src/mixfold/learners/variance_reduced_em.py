"""Variance-reduced EM: small steps with statistics under reference parameters."""

from __future__ import annotations

from typing import ClassVar

from mixfold.core.value import value
from mixfold.learners._controlled import ControlledEM


@value
class VarianceReducedEM(ControlledEM):
    """Online EM with a control variate from a reference pass (SVRG).

    s <- s + rho (sbar_i(theta) - sbar_i(reference) + S_reference - s), theta <- maximize(s). Every
    other pass computes S_reference, the statistics of all rows under the parameters at that moment,
    and is an EM step as well. Use it like `FastIncrementalEM` where there is no memory for numbers
    per row.

    Parameters
    ----------
    batch_size : float, default=1
        Rows per update; below 1 it is a fraction of all rows.
    rho : float or None, default=None
        The step size. None is m^(-2/3) for m batches in a pass, or a batch in 50 K (d + 1) rows if
        that is less.
    max_iter : int, default=10
        The largest number of passes over the data.

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
