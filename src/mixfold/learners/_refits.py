"""EM on kept rows, for the statistics of all rows of a stream.

Statistics S of all n rows were computed under earlier parameters theta_0. Those under theta are
estimated as (n / m) sbar(theta) + c (S - (n / m) sbar(theta_0)), where sbar are the statistics of
the m kept rows, and c is a regression coefficient: near theta_0 it is 1, so that the kept rows tell
how the statistics change and all rows what they are; far away, where the earlier statistics tell
nothing, it is 0, and the kept rows are all that counts. If every row is kept, this is exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.arrays import on_host
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Block, Statistics
from mixfold.core.value import replace, value
from mixfold.learners._em_in_memory import learn
from mixfold.learners._gathering import Gathered, expecting, gather, nothing, total
from mixfold.learners._kept_rows import power_of_two
from mixfold.learners._steps import rows_of_window
from mixfold.learners.em import EM
from mixfold.models.mixture_model import (
    MixtureBackend,
    MixtureParams,
    count_spurious,
)

TILES = 64  # number of parts in which as many rows as before the last refit are added
LEAST_TILE, MOST_TILE = 16, 1024  # rows in each of them
WARM = EM(tol=0.005, max_iter=200, accelerate=True)
LAST = EM(tol=0.005, max_iter=30, accelerate=True)
# for few rows, with which acceleration would only amplify what arithmetic rounds
FEW_ROWS = 128
FEW = EM(tol=0.0, max_iter=40)
WARM_VISITS, LEAST_PASSES = 2**23, 6  # the same in a refit, and the number of passes at least
REGRESSION_ROWS = 4096  # rows from which the regression coefficient is computed


@value
class Known:
    """Statistics of all rows under earlier parameters, and those of the kept rows among them.

    `params` are these parameters, and `sample` are some of the kept rows.
    """

    whole: Statistics
    kept: Statistics
    params: MixtureParams
    sample: Rows

    def under(self, backend: MixtureBackend, params: MixtureParams, kept: Statistics) -> Statistics:
        """The statistics of all rows, estimated from those of the kept ones under `params`.

        The kept rows alone are used where the estimate is not valid: where a component has no
        weight, or more components are degenerate than by the kept rows.
        """
        model, c = backend.model, self.coefficient(backend, params)
        own = kept * (self.whole.count / kept.count)
        whole, now = (model.sums(params, one) for one in (self.whole, own))
        old = model.sums(params, self.kept * (self.whole.count / self.kept.count))
        return valid_or(own, backend, params, now + c * (whole - old))

    def coefficient(self, backend: MixtureBackend, params: MixtureParams) -> float:
        """The regression of responsibilities under `params` on earlier ones, from 0 to 1.

        This c minimises the variance of the estimated weights of components. It is 1 for one
        component, whose statistics do not depend on the parameters.
        """
        old, new = (self._responsibilities(backend, one) for one in (self.params, params))
        variance = float((old * old).sum())
        if not variance > 0.0:
            return 1.0
        return min(max(float((old * new).sum()) / variance, 0.0), 1.0)

    def _responsibilities(self, backend: MixtureBackend, params: MixtureParams) -> Array:
        """The weighted responsibilities of the sample, minus their means."""
        found = backend.posterior(params, self.sample, True)[1]
        assert found is not None
        weighted = self.sample.weights()[:, None] * on_host(found)
        return np.asarray(weighted - weighted.mean(axis=0))


def valid_or(
    own: Statistics, backend: MixtureBackend, params: MixtureParams, sums: Array
) -> Statistics:
    """The statistics of sums under parameters, or `own` where they are not valid."""
    model = backend.model
    with np.errstate(all="ignore"):
        weights = model.weights_in(sums)
        if not (np.isfinite(sums).all() and (weights > 0.0).all()):
            return own
        found = model.statistics(params, sums)
    return own if model.maximize(found)[1] > model.maximize(own)[1] else found


def statistics_of(
    backend: MixtureBackend, params: MixtureParams, parts: Sequence[Rows]
) -> Statistics:
    """The statistics of rows under parameters."""
    fold, gathered = expecting(backend, params), nothing(backend)
    for rows in parts:
        gathered = gather(fold, backend.tile, gathered, rows)
    return backend.model.statistics(params, total(fold, gathered))


def gathered_with(
    backend: MixtureBackend, params: MixtureParams, gathered: Gathered, rows: Rows, tile: int
) -> Gathered:
    """The sums of more rows, one tile at a time, whatever the blocks."""
    fold, first = expecting(backend, params), 0
    while first < len(rows):
        last = first + tile - len(gathered.waiting)
        gathered = gather(fold, tile, gathered, rows.cut(first, last))
        first = last
    return gathered


def tile_after(rows: int) -> int:
    """How many rows are added to the statistics together after a refit to `rows` rows."""
    return min(max(power_of_two(max(rows, 1)) // TILES, LEAST_TILE), MOST_TILE)


def worse(
    learner: EM,
    backend: MixtureBackend,
    a: MixtureParams,
    b: MixtureParams,
    parts: Sequence[Rows],
    by: float = 0.0,
) -> bool:
    """Whether `a` has more spurious components than `b`, or less of what EM maximises.

    It is less by so many nats per row.
    """
    spurious = [count_spurious(backend.model, one, parts) for one in (a, b)]
    once = replace(learner, max_iter=1, accelerate=False)
    found = [learn(once, backend, one, *parts)[1] for one in (a, b)]
    return bool(spurious[0] > spurious[1] or found[0] < found[1] - by)


def best_of(
    learner: EM, backend: MixtureBackend, several: Sequence[MixtureParams], parts: Sequence[Rows]
) -> MixtureParams:
    """The parameters that are not worse than the others."""
    best = several[0]
    for other in several[1:]:
        best = other if worse(learner, backend, best, other, parts) else best
    return best


def em_on(
    learner: EM,
    backend: MixtureBackend,
    fixed: Statistics | None,
    params: MixtureParams,
    parts: Sequence[Rows],
) -> MixtureParams:
    """EM on kept rows, and on fixed statistics of other rows, if there are any.

    A common factor of all weights does not matter.
    """
    n = sum(map(len, parts))
    most = min(learner.max_iter, max(LEAST_PASSES, WARM_VISITS // n))
    if n < FEW_ROWS:
        learner = replace(FEW, prior_strength=learner.prior_strength)
    else:
        learner = replace(learner, max_iter=most)
    if fixed is None:
        return learn(learner, backend, params, *of_mean_weight_one(parts))[0]
    for _ in range(learner.max_iter):
        params, _ = backend.model.maximize(fixed + statistics_of(backend, params, parts))
    return params


def of_few_rows(
    backend: MixtureBackend, params: MixtureParams, parts: Sequence[Rows]
) -> Statistics | None:
    """Statistics of given parameters, which count for the rows that are missing to learn others."""
    model, n = backend.model, sum(map(len, parts))
    missing = rows_of_window(model.k, model.d) - n
    mean = sum(rows.total_weight() for rows in parts) / n
    return model.expected(params) * (missing * mean) if missing > 0 and mean > 0.0 else None


def of_mean_weight_one(parts: Sequence[Rows]) -> list[Rows]:
    """The rows with weights of mean one, so that a common factor does not matter."""
    if all(rows.weight is None for rows in parts):
        return list(parts)
    mean = sum(rows.total_weight() for rows in parts) / sum(map(len, parts))
    return [Rows(rows.x, rows.weights() / mean) for rows in parts]


def in_order_of_means(backend: MixtureBackend, params: MixtureParams) -> MixtureParams:
    """The components by increasing means, as initial parameters are."""
    model = backend.model
    order = np.lexsort(model.family.sort_keys(params.components).T[::-1])
    found = model.expected(params)
    blocks = [Block(b.weight[order], b.mean[order], b.scatter[order]) for b in found.blocks]
    return model.maximize(replace(found, blocks=tuple(blocks), weight=found.weight[order]))[0]
