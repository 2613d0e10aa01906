"""Mini-batch EM in which a row belongs to a few of many components."""

from __future__ import annotations

import numpy as np

from mixfold.core.backend import Backend, Model
from mixfold.core.checks import check_whole
from mixfold.core.learner import Learner
from mixfold.core.rows import Array, Rows
from mixfold.core.value import replace, value
from mixfold.learners._few_components import Few, FewComponents, not_searchable
from mixfold.learners._gathering import Fold
from mixfold.learners._stochastic_state import StochasticState
from mixfold.learners.mini_batch_em import MiniBatchEM

ROWS_OF_BATCH = 8192


@value
class TruncatedMiniBatchEM(MiniBatchEM):
    """EM with an update after every batch, in which every row belongs to a few components.

    s <- s + gamma_r (mean over N rows of the sum over k in K_i of r_ik t(x_i) - s),
    theta <- maximize(s). The components K_i of a row are searched anew whenever it is read: it
    begins at about sqrt(K) components, and goes on to better neighbours. Use it for hundreds of
    components or more, and rows that are not read again; `TruncatedEM` keeps the components of
    rows, and is faster where they are.

    Parameters
    ----------
    n_candidates : int, default=5
        The number of components of a row.
    n_neighbors : int, default=8
        The number of neighbours of a component that are tried.
    batch_size : float or None, default=None
        Rows per update; below 1 a fraction of all rows. None is 8192. An update costs some K
        sqrt(K) densities, so that batches should have many rows.
    sampling : {"auto", "with-replacement", "without-replacement", "stream"}, default="auto"
        How batches are drawn; "auto" shuffles what can be indexed and takes the rest in order.
    schedule : schedule, default=Power(0.6)
        The step size of every update, such as `Power(0.6)` or `Constant(0.01)`.
    max_iter : int, default=10
        The largest number of passes over the data.
    warmup : int or None, default=0
        The number of rows at the beginning that update the statistics but not the parameters. None
        is ten rows per free direction of the data.
    average_from : int or None, default=None
        The estimate is the mean of the parameters from this update on (Polyak averaging). None
        takes the parameters of the last update.
    truncation : float or None, default=None
        As in `MiniBatchEM`: learning returns to its initial parameters when they leave a region.

    Examples
    --------
    >>> from mixfold import Mixture, datasets
    >>> model = Mixture("gaussian", 2, learner="truncated-mini-batch-em", random_state=0)
    >>> sorted(model.fit(datasets.load_faithful()).means_[:, 1].round(0).tolist())
    [54.0, 80.0]

    References
    ----------
    Those of `TruncatedEM` and `MiniBatchEM`.
    """

    serves_noise = False
    counts_prior = False

    n_candidates: int = 5
    n_neighbors: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("n_candidates", self.n_candidates)
        check_whole("n_neighbors", self.n_neighbors)

    def why_unsupported(self, model: Model) -> str | None:
        return not_searchable(self, model) or super().why_unsupported(model)

    def resolve(self, n: int | None, d: int, streaming: bool) -> Learner:
        if self.batch_size is None:
            least = ROWS_OF_BATCH if n is None else min(ROWS_OF_BATCH, max(32, n // 20))
            return replace(self, batch_size=least)
        return super().resolve(n, d, streaming)

    def row_by_row(self) -> bool:
        return False

    def _fold(self, backend: Backend, state: StochasticState) -> Fold:
        few = FewComponents(
            backend, state.params, Few(self.n_candidates, self.n_neighbors, random=0)
        )

        def fold(rows: Rows, sums: Array, first: int) -> Array:
            start = np.full((len(rows), self.n_candidates), -1, dtype=np.int32)
            return few.fold(rows, sums, start)[0]

        return fold
