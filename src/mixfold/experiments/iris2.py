"""Three species of iris, a Gaussian each; ten million rows."""

from __future__ import annotations

from mixfold.experiments.iris1 import Iris1


class Iris2(Iris1):
    """Three species of iris, a Gaussian each, at ten times the size."""

    n = 10**7
    reps = 3
