"""Products of Bernoulli distributions over columns."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._trials import Trials


@value
class Bernoulli(Trials):
    """Columns of zeros and ones, where p is the probability of a one: latent class analysis.

    t(x) = x, eta = log(p / (1 - p)), A = log(1 + exp(eta)), h = 1. Probabilities are kept between
    1e-8 and 1 - 1e-8; components at these limits are counted as degenerate.

    Examples
    --------
    >>> from mixfold import Mixture
    >>> rows = [[1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0]]
    >>> model = Mixture("bernoulli", 2, random_state=0).fit(rows)
    >>> model.probabilities_.round(2)
    array([[0. , 0. , 0.5],
           [1. , 1. , 0.5]])
    """

    base_measure: ClassVar[Literal["one", "factorial"]] = "one"

    @property
    def n_trials(self) -> int:
        return 1

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))
