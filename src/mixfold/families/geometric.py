"""Products of geometric distributions over columns."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._failures import Failures
from mixfold.families.mean_params import MeanParams


@value
class Geometric(Failures):
    """Failures before the first success, of probability p = 1 / (1 + mean).

    t(x) = x, eta = log(1 - p), A = -log(p), h = 1.

    Parameters
    ----------
    floor : float, default=1e-8
        The smallest mean of a component, as a fraction of the mean of all rows.

    Examples
    --------
    >>> from mixfold import Mixture
    >>> model = Mixture("geometric", 1).fit([[0.0], [1.0], [5.0]])
    >>> model.means_, model.probabilities_.round(3)
    (array([[2.]]), array([[0.333]]))
    """

    floor: float = 1e-8
    base_measure: ClassVar[Literal["one", "factorial"]] = "one"

    @property
    def successes(self) -> float:
        return 1.0

    def log_base_measure(self, x: Array) -> Array:
        return np.zeros(len(x))

    def sample(self, params: MeanParams, labels: np.ndarray, rng: np.random.Generator) -> Array:
        """Exponential waiting times, rounded down."""
        rates = -self.to_natural(params)
        return np.asarray(np.floor(rng.exponential(1.0 / rates[labels])))
