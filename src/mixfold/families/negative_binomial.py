"""Products of negative binomial distributions over columns."""

from __future__ import annotations

from typing import Self

import numpy as np

from mixfold.core.checks import check_least
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._failures import Failures

LEAST_SIZE, LARGEST_SIZE = 1e-6, 1e6


@value
class NegativeBinomial(Failures):
    """Counts whose variance is mean + mean**2 / size, larger than that of Poisson counts.

    They are failures before `size` successes of probability p = size / (size + mean), or Poisson
    counts whose rates have a gamma distribution of shape `size`. With a known size,
    t(x) = x, eta = log(1 - p), A = -size log(p), h = Gamma(x + size) / (Gamma(size) x!).

    Parameters
    ----------
    size : float, default=1.0
        The size (dispersion parameter) of all components, from 1e-6 to 1e6. It is not estimated:
        compare the scores of several.
    floor : float, default=1e-8
        The smallest mean of a component, as a fraction of the mean of all rows.

    Examples
    --------
    >>> from mixfold import Mixture, NegativeBinomial
    >>> model = Mixture(NegativeBinomial(size=2.0), 1).fit([[0.0], [1.0], [5.0]])
    >>> model.means_, model.probabilities_
    (array([[2.]]), array([[0.5]]))
    """

    size: float = 1.0
    floor: float = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least("size", self.size, LEAST_SIZE, LARGEST_SIZE)

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(), cls(size=3.0)]

    @property
    def successes(self) -> float:
        return self.size

    def log_base_measure(self, x: Array) -> Array:
        from scipy.special import betaln

        # differences of gammaln would lose all digits where x is large
        terms = np.log(x + self.size) + betaln(self.size, x + 1.0)
        return np.asarray(-terms.sum(axis=1))
