"""Three species of flea beetle, a Gaussian each; ten million rows."""

from __future__ import annotations

from mixfold.experiments.flea1 import Flea1


class Flea2(Flea1):
    """Three species of flea beetle, a Gaussian each, at ten times the size."""

    n = 10**7
    reps = 3
