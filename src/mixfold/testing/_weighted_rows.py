"""Rows with weights compared with rows that are repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.backend import Model
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.testing._estimates import learned
from mixfold.testing.folding import fold


def weights_and_rows_differ(
    model: Model, params: Any, learner: Learner, rows: Rows, order: int
) -> str | None:
    """How weighted rows in a random order are not as good as repeated ones; None if they are."""
    backend = Threads(model, 1)
    x = rows.x[np.random.default_rng(order).permutation(len(rows))[:60]]
    heavy = np.argsort(np.argsort(x[:, 0], kind="stable")) >= 40
    counts = np.where(heavy, 6, 1)
    ends = []
    for some, passes in (
        (Rows(x, counts.astype(np.float64)), 5),
        (Rows(np.repeat(x, counts, axis=0)), 2),
        (Rows(x), 5),
    ):
        state, _ = fold(backend, learner, params, some, [], passes, seen=100)
        if getattr(state, "truncations", 0):
            return None
        bound, found = learned(backend, learner, state)
        log_density = bound.posterior(found, Rows(x), False)[0]
        ends.append(float(counts @ log_density) / float(counts.sum()))
        if len(ends) == 2 and ends[0] > ends[1] - 0.05:  # whatever rows without weights give
            return None
    weighted, repeated, plain = ends
    if weighted > repeated - 0.5 * (repeated - plain):
        return None
    return (
        f"the mean log-likelihood is {weighted:.4g} from weighted rows, {repeated:.4g} from rows "
        f"repeated as often, and {plain:.4g} without weights"
    )
