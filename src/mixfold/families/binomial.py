"""Products of binomial distributions over columns."""

from __future__ import annotations

from math import lgamma
from typing import Self

import numpy as np

from mixfold.core.checks import check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.expression import Expression
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families._gamma_expressions import log_gamma
from mixfold.families._trials import Trials

MOST_TRIALS = 2**53  # whole numbers above it are not all in float64


@value
class Binomial(Trials):
    """Successes of probability p in a known number n of trials, the same in all columns.

    t(x) = x, eta = log(p / (1 - p)), A = n log(1 + exp(eta)), h = n! / (x! (n - x)!).
    Probabilities are kept between 1e-8 and 1 - 1e-8; components at these limits are counted as
    degenerate.

    Parameters
    ----------
    trials : int, default=1
        The number n of trials.

    Examples
    --------
    >>> from mixfold import Binomial, Mixture
    >>> model = Mixture(Binomial(trials=10), 1).fit([[1], [2], [6]])
    >>> model.means_, model.probabilities_
    (array([[3.]]), array([[0.3]]))
    """

    trials: int = 1

    def __post_init__(self) -> None:
        check_whole("trials", self.trials)
        if self.trials > MOST_TRIALS:
            raise InvalidInputError(f"trials is {self.trials!r}: at most 2**53 can be counted")

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(trials=12)]

    @property
    def n_trials(self) -> int:
        return self.trials

    def statistics_expression(self, x: Expression) -> Expression:
        return x

    def base_measure_expression(self, x: Expression) -> Expression:
        n = float(self.trials)
        return lgamma(n + 1.0) - log_gamma(x + 1.0) - log_gamma(n + 1.0 - x)

    def log_base_measure(self, x: Array) -> Array:
        from scipy.special import betaln

        n = float(self.trials)
        return np.asarray(-(np.log1p(n) + betaln(x + 1.0, n - x + 1.0)).sum(axis=1))
