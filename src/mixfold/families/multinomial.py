"""Multinomial distributions: the counts of d outcomes."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_array, check_kind, check_whole
from mixfold.core.conjugate import Conjugate
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import Expression
from mixfold.core.family import n_components_with
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.families._dirichlet_posteriors import DirichletPosterior, DirichletProbabilities
from mixfold.families._gamma_expressions import log_gamma
from mixfold.families._probabilities import (
    LOWEST,
    ProbabilityParams,
    at_least,
    check_sums,
    halfway_to_mean,
    normalized,
    softmax,
    weighted_mean,
)

MOST_TRIALS = 2**53  # whole numbers above it are not all in float64


@value
class Multinomial(ExponentialFamily[ProbabilityParams]):
    """Counts of d outcomes in n trials, where p[k, j] is the probability of outcome j.

    The density is that of a row given its sum n, which may differ from row to row: for example the
    words of documents of different lengths. t(x) = x, eta = log(p), h = n! / (x_1! ... x_d!), and
    A = n log(sum of exp(eta)) = 0, since probabilities sum to one. They are at least 1e-8;
    components with an outcome at this limit are counted as degenerate.

    Parameters
    ----------
    trials : int, default=1
        The sum of the rows that `sample` draws, and of `means_`. Rows that are fitted may have any.

    Examples
    --------
    >>> from mixfold import Mixture
    >>> rows = [[9, 1, 0], [7, 2, 1], [0, 2, 2], [1, 9, 9]]
    >>> model = Mixture("multinomial", 2, random_state=0).fit(rows)
    >>> model.predict(rows)
    array([1, 1, 0, 0])
    >>> model.probabilities_.round(2)
    array([[0.04, 0.48, 0.48],
           [0.8 , 0.15, 0.05]])
    """

    trials: int = 1

    given_total = True
    dependence = "the counts of a row are given their sum"
    support = Support(low=0.0, whole=True)

    def __post_init__(self) -> None:
        check_whole("trials", self.trials)
        if self.trials > MOST_TRIALS:
            raise InvalidInputError(f"trials is {self.trials!r}: at most 2**53 can be counted")

    @classmethod
    def variants(cls) -> list[Self]:
        return [cls(trials=9)]

    def check_columns(self, d: int) -> None:
        if d < 2:
            raise InvalidInputError(
                "a multinomial mixture needs at least 2 columns, one by outcome"
            )

    def check_params(self, params: ProbabilityParams, k: int, d: int) -> None:
        check_kind("components", params, ProbabilityParams)
        check_array("probabilities", params.probabilities, (k, d), LOWEST, 1.0)
        check_sums(params.probabilities)

    def example(self, k: int, d: int, rng: np.random.Generator) -> ProbabilityParams:
        return ProbabilityParams(rng.dirichlet(np.full(d, 2.0), size=k))

    def n_statistics(self, d: int) -> int:
        return d

    def sufficient_statistics(self, x: Array) -> Array:
        return x

    def statistics_expression(self, x: Expression) -> Expression:
        return x

    def base_measure_expression(self, x: Expression) -> Expression:
        of_sum = log_gamma(x.sum(1, keepdims=True) + 1.0)
        return of_sum - log_gamma(x + 1.0).sum(1, keepdims=True)

    def log_base_measure(self, x: Array) -> Array:
        from scipy.special import gammaln

        return np.asarray(gammaln(x.sum(axis=1) + 1.0) - gammaln(x + 1.0).sum(axis=1))

    def to_natural(self, params: ProbabilityParams) -> Array:
        return np.log(params.probabilities)

    def log_normalizer(self, eta: Array) -> Array:
        """That of rows with the sum `trials`; it is zero for normalised parameters."""
        from scipy.special import logsumexp

        return np.asarray(self.trials * logsumexp(eta, axis=1))

    def mean(self, params: ProbabilityParams) -> Array:
        return np.asarray(self.trials * params.probabilities)

    def maximize(self, blocks: Blocks) -> tuple[ProbabilityParams, int]:
        (block,) = blocks
        p, low = normalized(block.mean)
        return ProbabilityParams(p), n_components_with(low)

    def degenerate(self, params: ProbabilityParams, weights: Array) -> NDArray[np.bool_]:
        """Where an outcome has the smallest probability."""
        return at_least(params.probabilities)

    def scipy_log_density(self, params: ProbabilityParams, x: Array) -> Array:
        from scipy.stats import multinomial

        totals = x.sum(axis=1)[:, None]
        return np.asarray(multinomial.logpmf(x[:, None], totals, params.probabilities))

    def sample(
        self, params: ProbabilityParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        p = params.probabilities[labels]
        return np.asarray(rng.multinomial(self.trials, p), dtype=np.float64)

    def n_parameters(self, k: int, d: int) -> int:
        return k * (d - 1)

    def attributes(self, params: ProbabilityParams) -> dict[str, Array]:
        """Means of rows with the sum `trials`, and the probabilities of the outcomes."""
        return {"means": self.mean(params), "probabilities": params.probabilities}

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """n KL(p, q) of rows and centres, both moved half of the way to the mean of all rows."""
        from scipy.special import rel_entr

        totals = x.sum(axis=1)
        mean = normalized(weighted_mean(x, weight))[0]
        p, q = (halfway_to_mean(normalized(t)[0], mean) for t in (x, centers))
        return np.stack([totals * rel_entr(p, one).sum(axis=1) for one in q], axis=1)

    # capabilities

    @property
    def conjugate(self) -> Conjugate:
        return OutcomeProbabilities(self, self.trials)

    def unconstrained(self, params: ProbabilityParams) -> Array:
        return np.log(params.probabilities)

    def constrained(self, coordinates: Array, like: ProbabilityParams) -> ProbabilityParams:
        return ProbabilityParams(softmax(coordinates))

    def coordinate_scales(self, params: ProbabilityParams) -> Array:
        return np.ones_like(params.probabilities)

    def parameter_bounds(self, params: ProbabilityParams) -> tuple[float, float, float]:
        p = params.probabilities
        return float(p.max()), float(p.min()), float(p.max())


class OutcomeProbabilities(DirichletProbabilities):
    """Posteriors of the probabilities of outcomes, of which rows have any number."""

    def shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d)

    def outcomes(self, t: Array) -> Array:
        return t

    def expected_log_params(
        self, posterior: DirichletPosterior, weights: Array
    ) -> tuple[ProbabilityParams, Array]:
        """Parameters that do not sum to one, since rows have different sums.

        Their log density contains the logarithm of the sum `trials` times, which the constant adds.
        """
        logs = self.expected_logs(posterior)
        return ProbabilityParams(np.exp(logs)), self.family.log_normalizer(logs)

    def intervals(
        self, posterior: DirichletPosterior, weights: Array, level: float
    ) -> dict[str, tuple[Array, Array]]:
        low, high = self.probabilities(posterior, level)
        means = self.trials * low, self.trials * high
        return {"means": means, "probabilities": (low, high)}
