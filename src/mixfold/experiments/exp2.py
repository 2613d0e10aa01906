"""A mixture of three exponentials that overlap almost wholly; ten million rows."""

from __future__ import annotations

from mixfold.experiments.exp1 import Exp1


class Exp2(Exp1):
    """A mixture of three exponentials that overlap almost wholly, at ten times the size."""

    n = 10**7
    reps = 3
