"""Fits to the most recent rows of a stream, and the choice between them and another learner."""

from __future__ import annotations

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.checks import check_array, check_count, check_least, check_seed
from mixfold.core.learner import rows_before_start
from mixfold.core.params import Params
from mixfold.core.rows import Array, Rows, join, no_rows
from mixfold.core.value import replace, value
from mixfold.learners._em_in_memory import learn
from mixfold.learners.candidates import best_first
from mixfold.learners.em import EM
from mixfold.learners.prior_choice import with_chosen_prior
from mixfold.learners.search import kinds_for, search
from mixfold.models.limits_from_data import limited
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

INNER, LONG, SHORT = range(3)  # indices of scores
NEVER = -1
ROUNDING = 1e-9  # differences of scores that do not count
HORIZON = 2048  # rows over which scores are averaged
LARGEST_DEFICIT = 10.0  # nats by which a row can count against a candidate
PRIOR = 1.0  # strength of the weak prior of covariances, as of Auto
NEW_FOR_READ = 8  # one part in so many of the rows must be new for another fit when it is read
LAST = EM(accelerate=True, max_iter=200, prior_strength=PRIOR)
REFIT = EM(tol=1e-4, max_iter=12, accelerate=True, criterion="step", prior_strength=PRIOR)


@value
class RecentFits:
    """The recent rows, and parameters fitted to all of them (`long`) or the last ones (`short`).

    `kept` are the rows at the last refit, `new` the rows since. `since_drift` is the number of rows
    after the last drift. `searched` is the number of rows since the last search from the beginning,
    and `read` that since the last fit that was made for a read, or NEVER.
    `scores` are means of log-densities relative to the best, of the inner learner, `long` and
    `short`, and `chosen` is the index of the best one.
    """

    kept: Rows
    new: Rows
    long: Params | None
    short: Params | None
    scores: Array
    chosen: int
    since_drift: int
    searched: int
    seed: int
    read: int = NEVER

    def check(self, model: Model) -> None:
        """Raise an error for a state that is not valid for the model."""
        for rows in (self.kept, self.new):
            model.check_rows(rows)
        for params in (self.long, self.short):
            if params is not None:
                model.check_params(params)
        check_array("scores", self.scores, (3,), -LARGEST_DEFICIT, 0.0)
        check_least("chosen", self.chosen, INNER, SHORT)
        check_count("since_drift", self.since_drift)
        check_count("searched", self.searched)
        check_least("read", self.read, NEVER)
        check_seed("seed", self.seed)

    def estimate(self, inner: Params) -> Params:
        """The parameters with the best score, of which those of the inner learner are given."""
        chosen = (inner, self.long, self.short)[self.chosen]
        return inner if chosen is None else chosen


def no_fits(d: int, seed: int) -> RecentFits:
    """The state before the first row."""
    return RecentFits(no_rows(d), no_rows(d), None, None, np.zeros(3), INNER, 0, 0, seed)


def compare(
    backend: MixtureBackend, fits: RecentFits, rows: Rows, log_density: Array
) -> RecentFits:
    """Update scores with rows that are not yet learned; `log_density` is the inner learner's."""
    if fits.long is None:
        return fits
    found = [
        log_density if params is None else backend.posterior(params, rows, False)[0]
        for params in (None, fits.long, fits.short or fits.long)
    ]
    with np.errstate(invalid="ignore"):
        behind = np.array(found) - np.max(found, axis=0)
    behind = np.clip(np.nan_to_num(behind, nan=0.0), -LARGEST_DEFICIT, 0.0)
    step = min(1.0, len(rows) / HORIZON)
    means = behind @ rows.weights() / rows.total_weight()
    scores = np.clip((1.0 - step) * fits.scores + step * means, -LARGEST_DEFICIT, 0.0)
    best = int(scores.argmax())
    better = scores[best] > scores[fits.chosen] + ROUNDING
    chosen = best if better else fits.chosen
    return replace(fits, scores=scores, chosen=chosen)


def after_drift(fits: RecentFits, rows: int) -> RecentFits:
    """The state after a drift was detected so many rows late: `short` is fitted to these."""
    rows = min(rows, len(fits.kept) + len(fits.new))
    return replace(fits, since_drift=rows, scores=np.zeros(3), short=None)


def append(
    backend: MixtureBackend, fits: RecentFits, rows: Rows, inner: Params, capacity: int
) -> RecentFits:
    """The state after more rows; refits when enough of them are new."""
    new = rows.copy() if not len(fits.new) else join([fits.new, rows])
    n = len(rows)
    read = fits.read if fits.read == NEVER else fits.read + n
    fits = replace(
        fits, new=new, since_drift=fits.since_drift + n, searched=fits.searched + n, read=read
    )
    first = rows_before_start(backend.model.k, backend.model.d)
    known = min(fits.since_drift, len(fits.kept) + len(new), capacity // 2)
    if len(new) < max(first, min(known, capacity // 2) // 4):
        return fits
    return _refit(backend, fits, inner, capacity)


def fit_for_read(backend: MixtureBackend, fits: RecentFits, capacity: int) -> RecentFits:
    """The state with a fit to all recent rows, as `Auto` makes it, where such a one is chosen.

    It is made again when an eighth of the rows are new.
    """
    kept = join([fits.kept, fits.new]) if len(fits.kept) else fits.new
    length = min(fits.since_drift, capacity // 2) if fits.chosen == SHORT else capacity
    rows = kept.cut(max(0, len(kept) - length), len(kept))
    known = fits.short if fits.chosen == SHORT else fits.long
    due = fits.read == NEVER or fits.read * NEW_FOR_READ >= len(rows)
    if fits.chosen == INNER or known is None or not due or not rows.total_weight() > 0.0:
        return fits
    bound = limited(backend, lambda: rows)
    bound = with_chosen_prior(bound, kinds_for(bound.model.family), rows, [fits.seed, 0], PRIOR)
    found = _fit(bound, rows, [known], [fits.seed, 0], LAST)
    fits = replace(fits, read=0)
    return replace(fits, short=found) if fits.chosen == SHORT else replace(fits, long=found)


def _refit(backend: MixtureBackend, fits: RecentFits, inner: Params, capacity: int) -> RecentFits:
    """Fit to the recent rows, from the known parameters and at times from the beginning."""
    kept = join([fits.kept, fits.new]) if len(fits.kept) else fits.new
    kept = kept.cut(max(0, len(kept) - capacity), len(kept)).copy()
    fits = replace(fits, kept=kept, new=no_rows(backend.model.d))
    if not kept.total_weight() > 0.0:
        return fits
    again = fits.long is None or fits.searched >= min(len(kept), capacity)
    starts = [inner, fits.long, fits.short]
    long = _fit(
        limited(backend, lambda: kept), kept, starts, [fits.seed, len(kept)] if again else None
    )
    length = min(fits.since_drift, capacity // 2)
    last = kept.cut(max(0, len(kept) - length), len(kept))
    short, scores = None, fits.scores.copy()
    if length < len(kept) and last.total_weight() > 0.0:
        afresh = fits.short is None or again
        starts = [inner, long, fits.short]
        short = _fit(
            limited(backend, lambda: last), last, starts, [fits.seed, length, 1] if afresh else None
        )
    if fits.long is None:
        scores[LONG] = scores[SHORT] = scores[INNER]
    return replace(
        fits, long=long, short=short, scores=scores, searched=0 if again else fits.searched
    )


def _fit(
    backend: MixtureBackend,
    rows: Rows,
    starts: list[Params | None],
    seed: list[int] | None,
    learner: EM = REFIT,
) -> Params:
    """The best fit from several initial parameters; with a seed, also from a search."""
    known = [params for params in starts if isinstance(params, MixtureParams)]
    if seed is not None:
        kinds = kinds_for(backend.model.family)
        known.append(search(backend, kinds, rows, seed, len(kinds), PRIOR))
    found = [learn(learner, backend, params, rows) for params in known]
    return found[best_first(backend, found, rows)[0]][0]
