"""Incremental EM: every row keeps its say until it is asked again."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from mixfold.core.checks import check_least
from mixfold.core.value import value
from mixfold.learners._controlled import ControlledEM
from mixfold.learners._convergence import TOL


@value
class IncrementalEM(ControlledEM):
    """S <- S + sum over a batch of (sbar_i(theta) - s_i) / n, theta <- maximize(S).

    Every row has an entry s_i: its K responsibilities, in memory or in a file (`memory=PATH`), as
    "float64" or "float32". The first pass fills them. A batch of one row is Neal and Hinton's
    algorithm, one of all rows is EM; `batch_size` below 1 is a share of the rows. Rows are taken in
    the order of the source. Learning stops when less than
    `tol` nats of the log-likelihood of all rows are left to gain, as `EM` estimates it.

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
