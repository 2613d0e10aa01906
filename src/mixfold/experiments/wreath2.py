"""Fourteen narrow Gaussians in a ring; ten million rows."""

from __future__ import annotations

from mixfold.experiments.wreath1 import Wreath1


class Wreath2(Wreath1):
    """Fourteen narrow Gaussians in a ring, at ten times the size."""

    n = 10**7
    reps = 3
