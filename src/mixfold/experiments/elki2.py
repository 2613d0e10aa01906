"""Three well separated clusters in the plane; ten million rows."""

from __future__ import annotations

from mixfold.experiments.elki1 import Elki1


class Elki2(Elki1):
    """Three well separated clusters in the plane, at ten times the size."""

    n = 10**7
    reps = 3
