"""Parameters from rows that are all kept, computed when they are read.

The first read searches among all kept rows, as a fit does. Later reads continue from there: with
one EM step that adds the rows since, with EM on all rows once there are a sixteenth more, and with
a new search once there are an eighth more, a fourth more of many rows, or twice as many once there
are more rows than a search compares. So reading after every row takes little time, and a stream
that is read once gives what a fit of its rows gives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.checks import check_count
from mixfold.core.data_limits import without_limits
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.learner_capabilities import at_most
from mixfold.core.rows import Rows, join
from mixfold.core.statistics import Statistics
from mixfold.core.value import equal, replace, value
from mixfold.learners._kept_rows import KeptRows
from mixfold.learners._penalty import with_prior
from mixfold.learners._refits import (
    LAST,
    WARM,
    em_on,
    in_order_of_means,
    of_few_rows,
    statistics_of,
    worse,
)
from mixfold.learners.em import EM
from mixfold.learners.further_search import OF_SAMPLE, rows_to_compare, with_light_components
from mixfold.learners.prior_choice import with_chosen_prior, with_share
from mixfold.learners.search import search
from mixfold.models.limits_from_data import with_limits, with_model
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

# Parts of the number of rows by which it grows until the next search, refit and EM step.
# Of few rows more depends on each, so that searches are more frequent.
# Beyond the sample of a search more rows change it little.
SEARCH_FEW, SEARCH, SEARCH_MANY, REFIT, STEP = 8, 4, 1, 16, 256
FEW_ROWS = 4096
SAME = 1e-3  # nats per row, by which other parameters must be better
ROWS_PER_PARAMETER = 20  # fewer kept rows would be fitted too closely
EVERY_ROW = 1024  # rows up to which every row changes the parameters
VISITS = 2**18  # rows that a refit visits, in all passes of LAST


@value
class KeptFit:
    """Parameters of kept rows when they were last computed, and what continues from them.

    `statistics` are those of the first `rows` rows under `params`, and `fixed` those of rows of
    which none are kept, or None. `searched` is the number of rows of the last search, `family` has
    the limits of the parameters, and `lightest` is the smallest weight of a row.
    """

    params: MixtureParams
    statistics: Statistics
    fixed: Statistics | None
    family: Family
    rows: int
    searched: int
    lightest: float

    def check(self, model: Model) -> None:
        """Raise an error for an invalid fit."""
        check_family(self.family, model)
        model.check_params(self.params)
        for statistics in (self.statistics, self.fixed):
            if statistics is not None:
                model.check_statistics(statistics)
        for name in ("rows", "searched"):
            check_count(name, getattr(self, name))
        if not self.lightest > 0.0:
            raise InvalidInputError(f"lightest is {self.lightest}: it must be above 0")


def check_family(family: Family, model: Model) -> None:
    """Refuse a family that differs from that of the model in more than its limits."""
    expected = getattr(model, "family", family)
    if not equal(without_limits(family), without_limits(expected)):
        raise InvalidInputError(f"family is {family!r}, but that of the model is {expected!r}")
    family.check_columns(model.d)


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

    def params(self, backend: MixtureBackend, kept: KeptRows, known: KeptFit) -> MixtureParams:
        """The parameters after one EM step with the rows since the last fit.

        From 1,024 rows on, the last 0.4% or less of them may have to wait.
        """
        later = kept.between(known.rows, used_rows(backend.model, kept))
        if not later:
            return known.params
        model = replace(backend.model, family=known.family)
        bound = with_model(backend, model)
        whole = known.statistics + statistics_of(bound, known.params, later)
        if known.fixed is None:
            strength = at_most(self.prior_strength)
            whole, _ = with_prior(model, known.params, whole, strength, known.lightest)
        else:
            whole = known.fixed + whole
        return model.maximize(whole)[0]

    def updated(self, backend: MixtureBackend, kept: KeptRows, known: KeptFit | None) -> KeptFit:
        """The fit from which an estimate continues; a new one if there are many more rows."""
        n = used_rows(backend.model, kept)
        part = SEARCH_FEW if n < FEW_ROWS else SEARCH if n < self.sample_size else SEARCH_MANY
        if known is None:
            return self.searched(backend, kept)
        if (n - known.searched) * part >= known.searched:
            return self._better(backend, kept, self.searched(backend, kept), known)
        if (n - known.rows) * REFIT >= known.rows:
            return self._refitted(backend, kept, known)
        return known

    def searched(self, backend: MixtureBackend, kept: KeptRows) -> KeptFit:
        """Parameters after a search among all kept rows, as in a fit, and EM."""
        start, sample = self.start, self._sample(kept, backend.model)
        bound = self._limited(backend, sample)
        if self.searches(backend.model) and len(kept) >= backend.model.k:
            if self.prior_strength is None:
                bound = with_chosen_prior(bound, self.kinds, sample, [self.seed, 0], 1.0)
            start = self.best(bound, kept, sample)
        return self._fit(WARM, bound, kept, start, len(kept))

    def _better(
        self, backend: MixtureBackend, kept: KeptRows, new: KeptFit, known: KeptFit
    ) -> KeptFit:
        """The new fit, unless EM from the parameters before reaches more on the same rows."""
        bound = with_model(backend, replace(backend.model, family=new.family))
        old = self._fit(WARM, bound, kept, known.params, new.searched)
        learner = self.em(WARM)
        return old if worse(learner, bound, new.params, old.params, kept.parts(), SAME) else new

    def _refitted(self, backend: MixtureBackend, kept: KeptRows, known: KeptFit) -> KeptFit:
        """Parameters after EM on all kept rows, from the last ones."""
        bound = self._limited(backend, self._sample(kept, backend.model))
        bound = with_share(bound, getattr(known.family, "prior_share", 1.0))
        passes = min(LAST.max_iter, max(1, VISITS // len(kept)))
        return self._fit(replace(LAST, max_iter=passes), bound, kept, known.params, known.searched)

    def _fit(
        self,
        learner: EM,
        backend: MixtureBackend,
        kept: KeptRows,
        start: MixtureParams,
        searched: int,
    ) -> KeptFit:
        """Parameters after EM on all kept rows."""
        parts = kept.parts()
        fixed = self._fixed(backend, parts)
        params = em_on(self.em(learner), backend, fixed, start, parts)
        statistics = statistics_of(backend, params, parts)
        lightest = min(part.lightest() for part in parts)
        return KeptFit(
            params, statistics, fixed, backend.model.family, len(kept), searched, lightest
        )

    def _fixed(self, backend: MixtureBackend, parts: Sequence[Rows]) -> Statistics | None:
        """Statistics of a fit before, or of given parameters as long as there are few rows."""
        if self.before is not None or self.kinds:
            return self.before
        return of_few_rows(backend, self.start, parts)

    def _limited(self, backend: MixtureBackend, sample: Rows) -> MixtureBackend:
        """The backend with limits from the sample, or those of the fit before."""
        if self.before is not None:
            return backend
        family = with_limits(backend.model.family, sample)
        return with_model(backend, replace(backend.model, family=family))

    def _sample(self, kept: KeptRows, model: MixtureModel) -> Rows:
        """The rows on which candidates are compared: those of a fit, if all rows are kept."""
        size = rows_to_compare(self.sample_size, model.k, model.d)
        if kept.below < 1.0 or len(kept) <= size:
            return kept.sample(size)
        rng = np.random.default_rng([self.seed, OF_SAMPLE])
        return kept.take(rng.choice(len(kept), size, replace=False))

    def searches(self, model: MixtureModel) -> bool:
        """Whether new candidates are drawn, as far as there are initializers for them."""
        return bool(self.kinds) and self.before is None and model.k > 1

    def best(self, backend: MixtureBackend, kept: KeptRows, sample: Rows) -> MixtureParams:
        """The best of new candidates on a sample of the kept rows."""
        seed, strength = [self.seed, 0], at_most(self.prior_strength)
        found = search(backend, self.kinds, sample, seed, self.starts, strength)
        found = with_light_components(
            backend,
            found,
            self.kinds,
            sample,
            lambda: join(kept.parts()),
            [*seed, 0],
            strength,
        )
        return in_order_of_means(backend, found) if backend.model.is_exchangeable else found

    def better(
        self, backend: MixtureBackend, kept: KeptRows, params: MixtureParams
    ) -> MixtureParams:
        """Parameters from new candidates, if they are better than after EM from `params`."""
        enough = ROWS_PER_PARAMETER * backend.model.n_parameters()
        if not self.searches(backend.model) or len(kept) < enough:
            return params
        parts, learner = kept.parts(), self.em(WARM)
        best = self.best(backend, kept, self._sample(kept, backend.model))
        found, near = (em_on(learner, backend, None, start, parts) for start in (best, params))
        return found if worse(learner, backend, near, found, parts, SAME) else params

    def em(self, learner: EM) -> EM:
        """The learner with the prior."""
        return replace(learner, prior_strength=at_most(self.prior_strength))


def used_rows(model: Model, kept: KeptRows) -> int:
    """How many rows the current parameters depend on: all, of few rows or for one component."""
    n = len(kept)
    return n if model.k == 1 or n < EVERY_ROW else n - n % _together(kept)


def rows_until_change(model: Model, kept: KeptRows) -> int:
    """How many more rows, if all are kept, change the parameters."""
    if model.k == 1 or len(kept) < EVERY_ROW:
        return 1
    return _together(kept) - len(kept) % _together(kept)


def _together(kept: KeptRows) -> int:
    """The number of rows that change the parameters together."""
    return max(1, len(kept.blocks[0]) // STEP)


def weight_of(parts: Sequence[Rows]) -> float:
    """The weight of rows."""
    return sum(part.total_weight() for part in parts)
