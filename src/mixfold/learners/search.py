"""The search for good initial parameters on a sample of rows in memory."""

from __future__ import annotations

from collections.abc import Sequence

from mixfold.core.backend_capabilities import for_host_rows
from mixfold.core.capabilities import CommonSpread
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.registry import find
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners._blas_threads import one_blas_thread
from mixfold.learners._em_in_memory import Found, learn
from mixfold.learners._many_components import MANY, search_many
from mixfold.learners._moves import improve
from mixfold.learners.candidates import best_first, distinct, draw, some_rows
from mixfold.learners.em import EM
from mixfold.models.dense_rows import dense_rows
from mixfold.models.mixture_model import MixtureBackend, MixtureModel, MixtureParams

# candidate i of a group is of kind number i
REAL = (
    "k-means++",
    "sphered-k-means",
    "projection-pursuit",
    "standardized-k-means",
    "hierarchical",
    "concentric",
    "directional",
    "projection-pursuit",
    "raw-k-means",
    "narrow-groups",
)
SHORT = EM(tol=1e-4, max_iter=8, accelerate=True, criterion="step")
MIDDLE = EM(tol=1e-4, max_iter=20, accelerate=True, criterion="step")
LONG = EM(tol=1e-5, max_iter=60, accelerate=True, criterion="step")
# the most candidates of the second and third stage, and of those improved by moves, and the nats
# per row and column by which they may be below the best
SECOND, THIRD, IMPROVED = (8, 0.2), (3, 0.01), (2, 0.004)
SAME = 1e-3  # nats per row; candidates that differ by less count once among the finalists
# candidates, or different kinds of them, that agree on the best score, after which no more are
# drawn from so many rows
ENOUGH_ALIKE, ENOUGH_KINDS, FEW_ROWS = 4, 3, 8000
ENOUGH_MORE = 1.25  # times as many rows as that are not worth a part
FEWEST = 4000  # rows that candidates are drawn from
PER_COMPONENT, PER_PARAMETER = 50, 3
# more per component and parameter are better, within so many rows and numbers
MORE_PER_COMPONENT, MORE_PER_PARAMETER, MORE_ROWS, MORE_NUMBERS = 200, 20, 20_000, 2**18
OF_ROWS, OF_DENSE = 2**31, 2**31 + 5  # in the seed, where candidates have their numbers
MOST_NUMBERS = 2**21  # in these rows, if that is more than the fewest


def kinds_for(family: Family) -> tuple[Initializer, ...]:
    """The kinds of initializers that take turns: those of real columns, or the family's own."""
    real = isinstance(family.for_complete_rows(), CommonSpread)
    names = REAL if real else (family.default_init,) * len(REAL)
    return tuple(find("initializers", name)() for name in names)


def search(
    backend: MixtureBackend,
    kinds: Sequence[Initializer],
    sample: Rows,
    seed: list[int],
    candidates: int,
    prior_strength: float = 0.0,
) -> MixtureParams:
    """The best of several candidates on the sample; the same for the same seed and sample.

    Kinds of initializers take turns. All candidates are fitted for a few passes, with a prior of
    the given strength; those among the best that differ for more passes; and a few until
    convergence on the whole sample. They are compared by what is maximised. Of several kinds the
    best are then improved by moves of components, and candidates are drawn from and first fitted
    to a part of the sample that is large enough for that. From a large sample no more are drawn
    once several have reached the same highest score. For a mixture with noise, every other
    candidate is drawn from rows that are not far from others. With many components the number of
    candidates is not used: one is drawn and improved, see `search_many`.
    """
    nearby = for_host_rows(backend, len(sample))
    if nearby is not backend:
        backend, sample = nearby, sample.on_host()
    with one_blas_thread(backend.model.d):
        if backend.model.k >= MANY and len(kinds) > 1 and sample.total_weight() > 0.0:
            return search_many(backend, kinds, sample, seed, prior_strength)
        return _best(backend, kinds, sample, seed, candidates, prior_strength)


def _best(
    backend: MixtureBackend,
    kinds: Sequence[Initializer],
    sample: Rows,
    seed: list[int],
    candidates: int,
    prior_strength: float,
) -> MixtureParams:
    rows = some = sample.on_host()
    if len(kinds) > 1 and sample.total_weight() > 0.0:
        rows = distinct(rows)
        some = _some(backend.model, rows, seed)
    if not sample.total_weight() > 0.0:
        return draw(backend, kinds[0], some, [*seed, 0])
    stages = (replace(em, prior_strength=prior_strength) for em in (SHORT, MIDDLE, LONG))
    short, middle, long = stages
    part = some if len(some) < len(rows) else sample
    tried: list[Found] = []
    pools = [some]
    if backend.model.has_noise and len(some) > backend.model.k:
        pools = [dense_rows(some, [*seed, OF_DENSE]), some]
    for i in range(candidates):
        drawn = draw(backend, kinds[i % len(kinds)], pools[i % len(pools)], [*seed, i])
        tried.append(learn(short, backend, drawn, part))
        if len(kinds) > 1 and len(rows) >= FEW_ROWS and _agreed(kinds, tried):
            break
    chosen = _finalists(backend, tried, part, *SECOND)
    tried = [learn(middle, backend, params, part) for params, _ in chosen]
    chosen = _finalists(backend, tried, part, *THIRD)
    tried = [learn(long, backend, params, sample) for params, _ in chosen]
    if len(kinds) > 1:
        chosen = _finalists(backend, tried, sample, *IMPROVED)
        tried = [improve(backend, found, rows, seed, prior_strength) for found in chosen]
    return tried[best_first(backend, tried, sample)[0]][0]


def _agreed(kinds: Sequence[Initializer], tried: list[Found]) -> bool:
    """Whether enough candidates have the best score, fewer if they are of different kinds."""
    scores = [score for _, score in tried]
    alike = [i for i, score in enumerate(scores) if score > max(scores) - SAME]
    different = {type(kinds[i % len(kinds)]) for i in alike}
    return len(different) >= ENOUGH_KINDS or len(alike) >= ENOUGH_ALIKE


def _finalists(
    backend: MixtureBackend, tried: list[Found], rows: Rows, number: int, margin: float
) -> list[Found]:
    """So many of the best candidates, in the order in which they were drawn.

    Of several with the same score, which have probably reached the same maximum, one is taken, and
    those are left out that are below the best by more than the margin per column.
    """
    chosen: list[int] = []
    for i in best_first(backend, tried, rows):
        alike = any(abs(tried[i][1] - tried[j][1]) < SAME for j in chosen)
        if not alike and (
            not chosen or tried[chosen[0]][1] - tried[i][1] < margin * backend.model.d
        ):
            chosen.append(i)
    return [tried[i] for i in sorted(chosen[:number])]


def _some(model: MixtureModel, rows: Rows, seed: list[int]) -> Rows:
    """Enough of the rows to draw candidates from and to compare them after a few passes."""
    parameters = model.n_parameters()
    more = max(MORE_PER_COMPONENT * model.k, MORE_PER_PARAMETER * parameters)
    least = max(PER_COMPONENT * model.k, PER_PARAMETER * parameters)
    wanted = max(min(more, MORE_ROWS, MORE_NUMBERS // model.d), least)
    n = max(FEWEST, min(wanted, MOST_NUMBERS // model.d), model.k)
    if len(rows) <= ENOUGH_MORE * n:
        return rows
    return some_rows(rows, n, [*seed, OF_ROWS])
