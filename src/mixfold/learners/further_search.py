"""The search for light components among rows that were drawn by importance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.initializer import Initializer
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.learners._moves import improve, learn
from mixfold.learners.search import LONG, MIDDLE, SHORT, best_first, draw, order_on
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

CONTINUED, IMPROVED = 6, 2  # candidates after a few passes, and before moves of components


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
