"""The search for light components among rows that were drawn by importance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners._blas_threads import one_blas_thread
from mixfold.learners._em_in_memory import learn
from mixfold.learners._importance_sample import importance_sample
from mixfold.learners._many_components import MANY
from mixfold.learners._moves import improve
from mixfold.learners.candidates import best_first, draw, order_on
from mixfold.learners.search import LONG, MIDDLE, SHORT
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

CONTINUED, IMPROVED = 6, 2  # candidates after a few passes, and before moves of components
# a component with fewer rows of the sample, or fewer than it has parameters, is light
FEWEST_ROWS = 50
MOST_BYTES = 2**26  # of samples
ENOUGH, ROWS_PER_COMPONENT = 20_000, 200
# in seeds, where candidates and groups have their numbers
OF_SAMPLE, OF_LARGER = 2**31, 2**31 + 1


def rows_to_compare(sample_size: int, k: int, d: int) -> int:
    """The number of rows on which candidates are compared: more for many parameters."""
    wanted = sample_size * k * max(ROWS_PER_COMPONENT, d * (d + 3) // 2) // ENOUGH
    return max(sample_size, k, min(wanted, MOST_BYTES // (8 * d)))


def with_light_components(
    backend: MixtureBackend,
    params: MixtureParams,
    kinds: Sequence[Initializer],
    sample: Rows,
    larger: Callable[[], Rows | None],
    seed: list[int],
    prior_strength: float,
) -> MixtureParams:
    """The parameters, or better ones if the sample has few rows of some component.

    A larger sample then gives as many of these as its memory holds. The search goes on among
    about as many rows as before, drawn from it with more of light components, and weighted. It does
    not for many components, of which some are always light.
    """
    model, n = backend.model, len(sample)
    least = max(FEWEST_ROWS, model.n_parameters() / model.k)
    if len(kinds) < 2 or model.k >= MANY or params.weights.min() * n >= least:
        return params
    rows = larger()
    if rows is None or len(rows) < 2 * n or not rows.total_weight() > 0.0:
        return params
    seed = [*seed, OF_LARGER]
    drawn = importance_sample(backend, params, rows, n, np.random.default_rng(seed))
    with one_blas_thread(model.d):
        return search_further(backend, params, kinds, drawn, rows, seed, prior_strength)


def search_further(
    backend: MixtureBackend,
    first: MixtureParams,
    kinds: Sequence[Initializer],
    sample: Rows,
    larger: Rows,
    seed: list[int],
    prior_strength: float = 0.0,
) -> MixtureParams:
    """The best of given parameters and of a candidate of every kind.

    They are learned on a weighted sample of the larger one, and compared on the larger one, since
    few rows of great weight can be fitted too closely. Candidates are drawn without the weights, so
    that light components are as visible as heavy ones.
    """
    short, middle, long = (
        replace(em, prior_strength=prior_strength) for em in (SHORT, MIDDLE, LONG)
    )
    plain = Rows(np.ascontiguousarray(sample.x))
    drawn = [draw(backend, kind, plain, [*seed, i]) for i, kind in enumerate(kinds)]
    found = [learn(short, backend, params, sample) for params in (first, *drawn)]
    chosen = best_first(backend, found, sample)[:CONTINUED]
    found = [learn(middle, backend, found[i][0], sample) for i in chosen]
    found = [
        found[i] for i in order_on(backend, [params for params, _ in found], larger)[:IMPROVED]
    ]
    moved = [improve(backend, each, sample, seed, prior_strength) for each in found]
    ended = [learn(long, backend, params, sample)[0] for params, _ in (*found, *moved)]
    return ended[order_on(backend, ended, larger)[0]]
