"""Incremental EM: every row keeps its contribution until it is read again."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mixfold.core.checks import check_least
from mixfold.core.value import value
from mixfold.learners._controlled import ControlledEM
from mixfold.learners._convergence import TOL


@value
class IncrementalEM(ControlledEM):
    """EM in which a batch replaces its own former contribution to the statistics.

    S <- S + sum over a batch of (sbar_i(theta) - s_i) / n, theta <- maximize(S). Use it where
    reading the data is slow and there is memory for K numbers per row: it needs about half of EM's
    passes. One row per update is Neal and Hinton's algorithm, all rows are EM. Rows are taken in
    the order of the source.

    Parameters
    ----------
    batch_size : float, default=1
        Rows per update; below 1 it is a fraction of all rows.
    tol : float, default=0.005
        Learning has converged when less than so many nats of the log-likelihood of all rows are
        left to gain, as estimated from the gains of the last steps. Estimates are then within
        sqrt(2 tol) = 0.1 standard errors of the maximum, however many rows there are. 0 is never.
    max_iter : int, default=100
        The largest number of passes over the data.
    memory : path or None, default=None
        Files for the responsibilities of all rows (`PATH.0` and `PATH.1`); None keeps them in
        memory.
    precision : {"float64", "float32"}, default="float64"
        How responsibilities are stored.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="incremental-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(1).tolist())
    [54.5, 80.0]

    References
    ----------
    Neal and Hinton (1999), A view of the EM algorithm that justifies incremental, sparse, and
    other variants; Karimi, Lavielle and Moulines (2019) for batches.
    """

    incremental: ClassVar[bool] = True

    batch_size: float = 1
    tol: float = TOL
    max_iter: int = 100
    memory: str | Path | None = None
    precision: str = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least("tol", self.tol, 0.0)
