"""Parameters from rows that are all kept, computed when they are read.

They are a function of the rows alone, whatever the blocks and the reads before. Three numbers of
rows grow with the stream in steps, since blocks of kept rows do: a search for initial parameters
takes the first blocks, a refit by EM more of them, and one EM step from its parameters all blocks
but the shortest. What has been computed from some blocks is remembered as long as they exist, so
that reading after every row costs little more than reading once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.data_limits import without_limits
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner_capabilities import at_most
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Statistics
from mixfold.core.value import digest, replace, value
from mixfold.learners._kept_rows import KeptBlock, KeptRows, remembered
from mixfold.learners._penalty import with_prior
from mixfold.learners._refits import (
    LAST,
    WARM,
    em_on,
    in_order_of_means,
    of_few_rows,
    of_mean_weight_one,
    statistics_of,
)
from mixfold.learners.em import EM
from mixfold.learners.prior_choice import chosen_share, with_share
from mixfold.learners.search import search
from mixfold.models.limits_from_data import with_limits, with_model
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

# Parts of the number of rows by which it grows until the next search, refit and EM step.
# Of few rows more depends on each, so that searches are more frequent.
SEARCH_FEW, SEARCH, REFIT, STEP = 8, 4, 16, 256
FEW_ROWS = 4096
EVERY_ROW = 1024  # rows up to which every row changes the parameters
VISITS = 2**18  # rows that a refit visits, in all passes of LAST


@value
class Refit:
    """Parameters after EM on some rows, and what continues from them.

    `fixed` are statistics of rows of which none are kept, or None; `lightest` is the smallest
    weight of a row.
    """

    family: Family
    params: MixtureParams
    statistics: Statistics
    fixed: Statistics | None
    lightest: float


@value
class KeptEstimates:
    """Parameters of kept rows: how they are searched for, and from which ones.

    `start` are parameters for fewer rows than components, and `before` statistics of a fit after
    which learning continued.
    """

    kinds: tuple[Initializer, ...]
    starts: int
    sample_size: int
    prior_strength: float | None
    start: MixtureParams
    before: Statistics | None
    seed: int

    def params(self, backend: MixtureBackend, kept: KeptRows) -> MixtureParams:
        """The parameters of all kept rows, but the last 0.4% or less of 1,024 rows or more."""
        used = used_rows(backend.model, kept)
        settings = [self, without_limits(backend.model.family), backend.model.k]
        key = digest(settings)
        return remembered(used.blocks[-1], ("params", key), lambda: self._step(backend, used, key))

    def _step(self, backend: MixtureBackend, used: KeptRows, key: str) -> MixtureParams:
        """One EM step on all used rows from the parameters of a refit to the first of them."""
        first = refit_rows(used)
        if not first.blocks:
            return self._refit(backend, used, key).params
        last = first.blocks[-1]
        refit = remembered(last, ("refit", key), lambda: self._refit(backend, first, key))
        later = used.blocks[len(first.blocks) :]
        if not later:
            return refit.params
        model = replace(backend.model, family=refit.family)
        bound = with_model(backend, model)
        sums = np.zeros(model.n_sums)
        for block in later:
            sums = sums + _sums(bound, refit.params, block, key)
        whole = refit.statistics + model.statistics(refit.params, sums)
        if refit.fixed is None:
            strength, lightest = at_most(self.prior_strength), refit.lightest
            whole, _ = with_prior(model, refit.params, whole, strength, lightest)
        else:
            whole = refit.fixed + whole
        return model.maximize(whole)[0]

    def _refit(self, backend: MixtureBackend, rows: KeptRows, key: str) -> Refit:
        """EM on rows from the result of a search on the first of them."""
        bound, parts = self._limited(backend, rows, key), rows.parts()
        passes = min(LAST.max_iter, max(1, VISITS // len(rows)))
        params = self._fitted(replace(LAST, max_iter=passes), bound, rows, key)
        statistics, fixed = statistics_of(bound, params, parts), self._fixed(bound, parts)
        lightest = min(part.lightest() for part in parts)
        return Refit(bound.model.family, params, statistics, fixed, lightest)

    def _fitted(
        self, learner: EM, backend: MixtureBackend, rows: KeptRows, key: str
    ) -> MixtureParams:
        """EM on rows from the result of a search, unless that has used all of them."""
        first, start = _search_rows(rows), self.start
        if len(first) >= backend.model.k and self.before is None:
            start = self._searched(backend, first, key)
            if len(first) == len(rows):
                return start
        parts = rows.parts()
        return em_on(self.em(learner), backend, self._fixed(backend, parts), start, parts)

    def _fixed(self, backend: MixtureBackend, parts: Sequence[Rows]) -> Statistics | None:
        """Statistics of a fit before, or of given parameters as long as there are few rows."""
        if self.before is not None or self.kinds:
            return self.before
        return of_few_rows(backend, self.start, parts)

    def _limited(self, backend: MixtureBackend, rows: KeptRows, key: str) -> MixtureBackend:
        """The backend with limits from the rows, or those of the fit before."""
        if self.before is not None:
            return backend
        family = limits_of(backend.model.family, rows, self.sample_size)
        bound = with_model(backend, replace(backend.model, family=family))
        if self.prior_strength is not None or not self.searches(backend.model):
            return bound
        return with_share(bound, self._share(bound, rows.leading(1), key))

    def _share(self, backend: MixtureBackend, first: KeptRows, key: str) -> float:
        """The fraction of the prior that suits the first block, which has half of the rows."""
        if not first.blocks:
            return 1.0

        def compute() -> float:
            (sample,) = of_mean_weight_one([first.sample(self.sample_size)])
            return chosen_share(backend, self.kinds, sample, [self.seed, 0], 1.0)

        return remembered(first.blocks[-1], ("prior", key), compute)

    def _searched(self, backend: MixtureBackend, first: KeptRows, key: str) -> MixtureParams:
        """Parameters after a search and EM on the first rows."""

        def compute() -> MixtureParams:
            bound, start, parts = self._limited(backend, first, key), self.start, first.parts()
            if self.searches(backend.model):
                start = self.best(bound, first)
            return em_on(self.em(WARM), bound, self._fixed(bound, parts), start, parts)

        return remembered(first.blocks[-1], ("search", key), compute)

    def searches(self, model: MixtureModel) -> bool:
        """Whether new candidates are drawn, as far as there are initializers for them."""
        return bool(self.kinds) and self.before is None and model.k > 1

    def best(self, backend: MixtureBackend, kept: KeptRows) -> MixtureParams:
        """The best of new candidates on a sample of the kept rows."""
        (sample,) = of_mean_weight_one([kept.sample(self.sample_size)])
        more = [self.seed, 0], self.starts, at_most(self.prior_strength)
        return in_order_of_means(backend, search(backend, self.kinds, sample, *more))

    def em(self, learner: EM) -> EM:
        """The learner with the prior."""
        return replace(learner, prior_strength=at_most(self.prior_strength))

    def fitted(self, backend: MixtureBackend, kept: KeptRows) -> MixtureParams:
        """Parameters after EM on all kept rows until it converges."""
        key = digest([self, without_limits(backend.model.family), backend.model.k])
        return self._fitted(self.em(WARM), backend, kept, key)


def used_rows(model: Model, kept: KeptRows) -> KeptRows:
    """The rows that the current parameters depend on: all, of few rows or for one component."""
    if model.k == 1 or len(kept) < EVERY_ROW:
        return kept
    return kept.leading(STEP)


def refit_rows(kept: KeptRows) -> KeptRows:
    """The rows of the last refit: none before there are as many as in the smallest block."""
    return kept.leading(REFIT)


def _search_rows(kept: KeptRows) -> KeptRows:
    """The rows of the last search."""
    return kept.leading(SEARCH_FEW if len(kept) < FEW_ROWS else SEARCH)


def rows_until_change(model: Model, kept: KeptRows) -> int:
    """How many more rows, if all are kept, change the parameters."""
    if model.k == 1 or len(kept) < EVERY_ROW:
        return 1
    least = len(kept.blocks[0]) // STEP
    return least - len(kept) % least


def limits_of(family: Family, rows: KeptRows, size: int) -> Family:
    """The family with limits from a sample of the rows of the last refit."""
    first = refit_rows(rows)
    if not first.blocks:
        return with_limits(family, rows.sample(size))
    key = ("limits", size, digest([without_limits(family)]))
    return remembered(first.blocks[-1], key, lambda: with_limits(family, first.sample(size)))


def _sums(backend: MixtureBackend, params: MixtureParams, block: KeptBlock, key: str) -> Array:
    """The sums of a block under the parameters of the refit before it."""
    model = backend.model

    def compute() -> Array:
        return np.asarray(backend.fold(params, block.rows, np.zeros(model.n_sums)))

    return remembered(block, ("sums", key), compute)


def weight_of(parts: Sequence[Rows]) -> float:
    """The weight of rows."""
    return sum(part.total_weight() for part in parts)
