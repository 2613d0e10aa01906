"""Scores of the rows of a fit that are those of new rows.

A model describes the rows that it was fitted to better than new ones, the more so the more
parameters it has for a row. So the rows are divided into parts at random, and the rows of each are
scored by a model that is fitted to the others, beginning with the parameters of all rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from sklearn.base import clone

from mixfold.core.arrays import on_host
from mixfold.core.errors import LearningWarning
from mixfold.core.rows import Array
from mixfold.core.source import Source
from mixfold.estimators._held_out_rows import RandomPart
from mixfold.estimators.mixture import Mixture

PARTS, FEWEST = 5, 50  # rows that can be divided
MANY = 1000  # rows for every parameter, with which the difference is a few percent of false alarms
SEED = 0  # of the division, so that two fits of the same rows are the same


def learned_scores(mixture: Mixture, source: Source) -> Iterator[Array]:
    """-log p(x) of all rows, block by block."""
    for log_density, _ in mixture._posteriors(source, False):
        yield -on_host(log_density)


def unlearned_scores(mixture: Mixture, source: Source) -> Iterator[Array]:
    """-log p(x) of all rows under models that have not learned them, in another order."""
    learned = mixture._now()
    n = learned.n_rows
    if n < FEWEST or n > MANY * learned.model.n_parameters():
        yield from learned_scores(mixture, source)
        return
    for part in range(PARTS):
        others, own = (
            RandomPart(source, 1.0 / PARTS, SEED, held_out, part / PARTS)
            for held_out in (False, True)
        )
        if next(own.blocks(), None) is not None:
            yield from learned_scores(_fitted_to(others, mixture), own)


def _fitted_to(source: Source, mixture: Mixture) -> Mixture:
    """The same mixture, fitted to other rows from its parameters on."""
    model = clone(mixture)
    model.set_params(init=mixture, n_init=1, checkpoint=None, resume=False, verbose=0)
    with warnings.catch_warnings():  # those of the fit to all rows were shown
        warnings.simplefilter("ignore", LearningWarning)
        fitted: Mixture = model.fit(source)
    return fitted
