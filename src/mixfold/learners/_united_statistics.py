"""Statistics of all rows of several states of a stream, of which not all rows are kept.

The states have continued from a common one, whose rows count once: statistics of all rows are
their sum over the states, minus those of the common rows for every state but one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixfold.core.rows import Rows
from mixfold.core.statistics import Statistics
from mixfold.core.value import value
from mixfold.learners._kept_rows import KeptRows
from mixfold.learners._refits import REGRESSION_ROWS, Known, statistics_of, valid_or
from mixfold.models.mixture_model import MixtureBackend, MixtureParams

ROUNDS = 3  # EM steps with the statistics of all rows


@value
class Part:
    """Some kept rows, and what is known of all the rows that they are a sample of.

    `known` is None where they are all rows, or where nothing else is known than their number, which
    is `factor` times as large.
    """

    rows: tuple[Rows, ...]
    known: Known | None
    factor: float

    def under(self, backend: MixtureBackend, params: MixtureParams) -> Statistics:
        """The statistics of all rows under parameters."""
        kept = statistics_of(backend, params, self.rows)
        if self.known is None:
            return kept * self.factor
        return self.known.under(backend, params, kept)


def part_of(
    backend: MixtureBackend,
    kept: KeptRows,
    n: int,
    params: MixtureParams,
    whole: Statistics | None,
) -> Part:
    """Kept ones of n rows, and statistics of all these under `params`, if there are any.

    With weights the factor is only expected, since rows of weight zero are never kept.
    """
    rows = tuple(kept.parts())
    if whole is None:
        plain = all(part.weight is None for part in rows)
        return Part(rows, None, n / len(kept) if plain else 1.0 / kept.below)
    old = statistics_of(backend, params, rows)
    return Part(rows, Known(whole, old, params, kept.sample(REGRESSION_ROWS)), 1.0)


def statistics_of_all(
    backend: MixtureBackend,
    params: MixtureParams,
    parts: Sequence[Part],
    common: Part | None,
    sample: Sequence[Rows],
) -> Statistics:
    """The statistics of the rows of all parts under parameters, those of common rows once.

    A sample of all rows is used where the difference is not valid.
    """
    model = backend.model
    several = [part.under(backend, params) for part in parts]
    sums = np.sum([model.sums(params, one) for one in several], axis=0)
    count = sum(float(one.count) for one in several)
    if common is not None:
        once, more = common.under(backend, params), len(parts) - 1
        sums = sums - more * model.sums(params, once)
        count -= more * float(once.count)
    own = statistics_of(backend, params, sample)
    return valid_or(own * (count / own.count), backend, params, sums)


def improved_by_all(
    backend: MixtureBackend,
    params: MixtureParams,
    parts: Sequence[Part],
    common: Part | None,
    fixed: Statistics | None,
    sample: Sequence[Rows],
) -> tuple[MixtureParams, Statistics]:
    """Parameters after some EM steps with the statistics of all rows, and these under them."""
    whole = statistics_of_all(backend, params, parts, common, sample)
    for _ in range(ROUNDS):
        params, _ = backend.model.maximize(whole if fixed is None else fixed + whole)
        whole = statistics_of_all(backend, params, parts, common, sample)
    return params, whole
