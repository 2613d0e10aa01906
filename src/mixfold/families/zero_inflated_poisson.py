"""Products of zero-inflated Poisson distributions over columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import LOWEST, check_array, check_kind, check_least
from mixfold.core.column_means import MeansAreAttributes
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.expression import Expression, observed, side_by_side
from mixfold.core.family import n_components_with
from mixfold.core.independent_columns import IndependentColumns, in_turn
from mixfold.core.limits import LARGEST, LIGHTEST, SMALLEST
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.support import Support
from mixfold.core.value import value
from mixfold.core.variance_floors import TOUCHING
from mixfold.families._divergences import typical_size
from mixfold.families._failures import log1mexp, poisson_counts
from mixfold.families._gamma_expressions import log_gamma
from mixfold.families._truncated_poisson import truncated_rates

# fractions of zeros that are not Poisson counts; the least is as good as none
LEAST_INFLATION, MOST_INFLATION = 1e-12, 1.0 - 1e-12


@value
class ZeroInflatedPoissonParams:
    """Poisson rates and probabilities of additional zeros, (K, d) each."""

    rates: Array
    inflation: Array


@value
class ZeroInflatedPoisson(
    MeansAreAttributes, IndependentColumns, ExponentialFamily[ZeroInflatedPoissonParams]
):
    """Counts that are zero with probability pi, and otherwise Poisson counts.

    Given that a count is not zero it has a truncated Poisson distribution, whatever pi is. So
    with t(x) = (1[x > 0], x) it is an exponential family, and an M-step needs no expectation of
    the label that tells the two kinds of zeros apart: with m = mean x and q = mean 1[x > 0],

        rate / (1 - exp(-rate)) = m / q,    1 - pi = m / rate.

    If this pi is negative there are fewer zeros than Poisson counts have; the estimates are then
    rate = m and pi = 0. `means_` are (1 - pi) rate, `rates_` and `inflation_` the parameters.

    Parameters
    ----------
    floor : float, default=1e-8
        The smallest rate of a component, as a fraction of the mean of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import Mixture
    >>> rng = np.random.default_rng(0)
    >>> x = rng.poisson(4.0, size=(5000, 1)) * (rng.random((5000, 1)) < 0.7)
    >>> model = Mixture("zero-inflated-poisson", 1).fit(x)
    >>> model.rates_.round(1), model.inflation_.round(1)
    (array([[4.]]), array([[0.3]]))

    References
    ----------
    Lambert (1992), Zero-inflated Poisson regression, with an application to defects in
    manufacturing.
    """

    support = Support(low=0.0, whole=True)

    floor: float = 1e-8

    def __post_init__(self) -> None:
        check_least("floor", self.floor, 0.0, 1.0)

    def check_params(self, params: ZeroInflatedPoissonParams, k: int, d: int) -> None:
        check_kind("components", params, ZeroInflatedPoissonParams)
        check_array("rates", params.rates, (k, d), LOWEST)
        check_array("inflation", params.inflation, (k, d), LEAST_INFLATION, MOST_INFLATION)

    def example(self, k: int, d: int, rng: np.random.Generator) -> ZeroInflatedPoissonParams:
        rates = rng.uniform(0.5, 12.0, size=(k, d))
        return ZeroInflatedPoissonParams(rates, rng.uniform(0.05, 0.6, size=(k, d)))

    def n_statistics(self, d: int) -> int:
        return 2 * d

    def sufficient_statistics(self, x: Array) -> Array:
        return np.hstack([np.asarray(x > 0.0, dtype=np.float64), x])

    def log_base_measure(self, x: Array) -> Array:
        from scipy.special import gammaln

        return np.asarray(-gammaln(x + 1.0).sum(axis=1))

    def to_natural(self, params: ZeroInflatedPoissonParams) -> Array:
        logit = np.log(params.inflation) - np.log1p(-params.inflation)
        return np.hstack([-np.logaddexp(0.0, logit + params.rates), np.log(params.rates)])

    def log_normalizer(self, eta: Array) -> Array:
        above, log_rates = np.hsplit(eta, 2)
        rates = np.exp(log_rates)
        return np.asarray(np.logaddexp(0.0, above + rates + log1mexp(-rates)).sum(axis=1))

    def mean(self, params: ZeroInflatedPoissonParams) -> Array:
        kept = 1.0 - params.inflation
        return np.hstack([kept * -np.expm1(-params.rates), kept * params.rates])

    def log_density(self, params: ZeroInflatedPoissonParams, x: Array) -> Array:
        """The same as the linear form, without its cancellation where rates are large."""
        kept = np.log1p(-params.inflation) - params.rates
        zero = np.logaddexp(np.log(params.inflation), kept)
        above = np.asarray(x > 0.0, dtype=np.float64)
        found = x @ np.log(params.rates).T + above @ kept.T + (1.0 - above) @ zero.T
        return np.asarray(found + self.log_base_measure(x)[:, None])

    def density_expression(
        self, params: ZeroInflatedPoissonParams, x: Expression, marginalize: bool
    ) -> Expression:
        kept = np.log1p(-params.inflation) - params.rates
        zero = np.logaddexp(np.log(params.inflation), kept)
        above, base = Expression("Greater", x, 0.0).as_numbers(), -log_gamma(x + 1.0)
        values = side_by_side(x, above, 1.0 - above)
        if marginalize:
            base, values = observed(x, base), observed(x, values, in_turn(len(kept.T), 3))
        found = values @ np.hstack([np.log(params.rates), kept, zero]).T
        return found + base.sum(1, keepdims=True)

    def scipy_log_density(self, params: ZeroInflatedPoissonParams, x: Array) -> Array:
        from scipy.stats import bernoulli, poisson

        x = x[:, None]
        counts = bernoulli.logpmf(0, params.inflation) + poisson.logpmf(x, params.rates)
        zeros = bernoulli.logpmf(1, params.inflation)
        return np.asarray(np.where(x == 0, np.logaddexp(zeros, counts), counts).sum(axis=2))

    def maximize(self, blocks: Blocks) -> tuple[ZeroInflatedPoissonParams, int]:
        (block,) = blocks
        above, means = np.hsplit(block.mean, 2)
        above, means = above.clip(LIGHTEST, 1.0), means.clip(0.0, LARGEST)
        truncated = truncated_rates(np.minimum(means / above, LARGEST))
        inflated = truncated > means
        kept = np.divide(means, truncated, out=np.ones_like(means), where=inflated)
        rates = np.where(inflated, truncated, means)
        floor = self._floors(block.pooled(means))
        healthy = rates >= floor
        params = ZeroInflatedPoissonParams(
            np.where(healthy, rates, floor), (1.0 - kept).clip(LEAST_INFLATION, MOST_INFLATION)
        )
        return params, n_components_with(~healthy)

    def _floors(self, mean: Array) -> Array:
        """The smallest rate of every column, of rows with these means."""
        return np.maximum(self.floor * mean, SMALLEST)

    def degenerate(self, params: ZeroInflatedPoissonParams, weights: Array) -> NDArray[np.bool_]:
        """Where a rate is on its floor."""
        means = (1.0 - params.inflation) * params.rates
        return np.asarray(params.rates <= TOUCHING * self._floors(weights @ means))

    def sample(
        self, params: ZeroInflatedPoissonParams, labels: np.ndarray, rng: np.random.Generator
    ) -> Array:
        inflation = params.inflation[labels]
        kept = rng.random(inflation.shape) >= inflation
        return np.asarray(kept * poisson_counts(params.rates[labels], rng))

    def attributes(self, params: ZeroInflatedPoissonParams) -> dict[str, Array]:
        means = (1.0 - params.inflation) * params.rates
        return {"means": means, "rates": params.rates, "inflation": params.inflation}

    def divergence(self, x: Array, centers: Array, weight: Array) -> Array:
        """x log(x/c) - x + c where x is not zero, and the likelihood that is lost by zeros.

        That is -log(q + (1 - q) exp(-c)), where q is the fraction of zeros of the column: zeros
        tell little about the centre if there are many. A centre at zero is moved off it.
        """
        from scipy.special import kl_div

        c = np.maximum(centers, 0.5 * typical_size(x, weight))
        zeros = (weight / weight.sum() @ (x == 0.0)).clip(LEAST_INFLATION, MOST_INFLATION)
        lost = -np.logaddexp(np.log(zeros), np.log1p(-zeros) - c)
        pairs = zip(c, lost, strict=True)
        found = [np.where(x == 0.0, at_zero, kl_div(x, one)) for one, at_zero in pairs]
        return np.stack([one.sum(axis=1) for one in found], axis=1)

    # capabilities

    def unconstrained(self, params: ZeroInflatedPoissonParams) -> Array:
        logit = np.log(params.inflation) - np.log1p(-params.inflation)
        return np.hstack([np.log(params.rates), logit])

    def constrained(
        self, coordinates: Array, like: ZeroInflatedPoissonParams
    ) -> ZeroInflatedPoissonParams:
        from scipy.special import expit

        log_rates, logit = np.hsplit(coordinates, 2)
        rates = np.exp(log_rates.clip(*np.log([SMALLEST, LARGEST])))
        inflation = expit(logit).clip(LEAST_INFLATION, MOST_INFLATION)
        return ZeroInflatedPoissonParams(rates, inflation)

    def coordinate_scales(self, params: ZeroInflatedPoissonParams) -> Array:
        return np.ones((len(params.rates), 2 * params.rates.shape[1]))

    def parameter_bounds(self, params: ZeroInflatedPoissonParams) -> tuple[float, float, float]:
        return float(params.rates.max()), float(params.rates.min()), float(params.rates.max())
