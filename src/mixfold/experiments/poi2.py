"""A mixture of three Poisson distributions; ten million rows."""

from __future__ import annotations

from mixfold.experiments.poi1 import Poi1


class Poi2(Poi1):
    """A mixture of three Poisson distributions, at ten times the size."""

    n = 10**7
    reps = 3
