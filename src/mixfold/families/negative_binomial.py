"""Products of negative binomial distributions over columns."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mixfold.core.checks import check_least
from mixfold.core.expression import Expression
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._failures import Failures
from mixfold.families._gamma_expressions import log_rising_coefficient
from mixfold.families._negative_binomial_sizes import (
    LARGEST_SIZE,
    LEAST_SIZE,
    NegativeBinomialParams,
    NegativeBinomialSizes,
)

__all__ = ["NegativeBinomial", "NegativeBinomialParams", "NegativeBinomialSizes"]


@value
class NegativeBinomial(Failures):
    """Counts whose variance is mean + mean**2 / size, larger than that of Poisson counts.

    They are failures before `size` successes of probability p = size / (size + mean), or Poisson
    counts whose rates have a gamma distribution of shape `size`. With a known size,
    t(x) = x, eta = log(1 - p), A = -size log(p), h = Gamma(x + size) / (Gamma(size) x!).

    Parameters
    ----------
    size : float or None, default=1.0
        The size (dispersion parameter) of all components, from 1e-6 to 1e6. None estimates a size
        for each component and column: see `NegativeBinomialSizes`.
    floor : float, default=1e-8
        The smallest mean of a component, as a fraction of the mean of all rows.

    Examples
    --------
    >>> from mixfold import Mixture, NegativeBinomial
    >>> model = Mixture(NegativeBinomial(size=2.0), 1).fit([[0.0], [1.0], [5.0]])
    >>> model.means_, model.probabilities_
    (array([[2.]]), array([[0.5]]))
    """

    size: float | None = 1.0
    floor: float = 1e-8

    def __new__(cls, size: float | None = 1.0, *others: Any, **named: Any) -> Self:
        """Without a size it is a `NegativeBinomialSizes`."""
        other: Any = NegativeBinomialSizes
        return other(size, *others, **named) if size is None else object.__new__(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least("size", self.size, LEAST_SIZE, LARGEST_SIZE)

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(), cls(size=3.0), cls(size=None)]

    @property
    def successes(self) -> float:
        assert self.size is not None
        return self.size

    def statistics_expression(self, x: Expression) -> Expression:
        return x

    def base_measure_expression(self, x: Expression) -> Expression:
        return log_rising_coefficient(self.successes, x)

    def log_base_measure(self, x: Array) -> Array:
        from scipy.special import betaln

        # differences of gammaln would lose all digits where x is large
        terms = np.log(x + self.successes) + betaln(self.successes, x + 1.0)
        return np.asarray(-terms.sum(axis=1))
