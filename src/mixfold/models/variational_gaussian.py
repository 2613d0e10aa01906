"""The variational posterior of a mixture of Gaussians, in scikit-learn's parametrisation.

Means and precisions have normal-Wishart distributions; covariances are V / nu, where V is the
inverse of the scale matrix. With a tied covariance the posterior of the one precision has the
degrees of freedom of an average component.

Reference: Bishop (2006), Pattern Recognition and Machine Learning, section 10.2.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mixfold.core.backend import Model
from mixfold.core.checks import (
    HIGHEST,
    LARGEST_SQUARE,
    LOWEST,
    check_above,
    check_array,
    check_kind,
)
from mixfold.core.rows import Array
from mixfold.core.statistics import Block, Statistics, outer_like, pack, packed_diagonal
from mixfold.core.value import value
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.models.mixture_model import SMALLEST_WEIGHT, MixtureModel, MixtureParams
from mixfold.models.stick_breaking import Sticks

LOG_2 = float(np.log(2.0))


@value
class VariationalPrior:
    """The prior of weights, means and precisions, the same for every component.

    With `process`, weights have a Dirichlet process with this concentration, else a Dirichlet
    distribution. `covariance` is (d, d), (d,) or, if spherical, (1,).
    """

    process: bool
    concentration: float
    mean_precision: float
    mean: Array
    degrees_of_freedom: float
    covariance: Array

    def check(self, model: MixtureModel) -> None:
        """Raise an error for a prior that is not of Gaussians in d columns."""
        check_above("concentration", self.concentration, 0.0)
        check_above("mean_precision", self.mean_precision, 0.0)
        check_array("mean", self.mean, (model.d,))
        check_above("degrees_of_freedom", self.degrees_of_freedom, model.d - 1.0)
        family = gaussian(model)
        shape: tuple[int, ...] = (model.d,) if family.covariance == "diag" else (1,)
        if family.form == "triangular":
            shape = (model.d, model.d)
        check_array("covariance", self.covariance, shape, -LARGEST_SQUARE, LARGEST_SQUARE)


@value
class VariationalPosterior:
    """The posterior: see the module; `scale` has the factors of the covariances V / nu.

    `concentration` are the parameters of the Dirichlet distribution, or (taken, left) of `Sticks`.
    """

    concentration: Array
    left: Array | None
    mean_precision: Array
    means: Array
    degrees_of_freedom: Array
    scale: Array

    @property
    def sticks(self) -> Sticks | None:
        """The parts of the Dirichlet process; None for a Dirichlet distribution."""
        return None if self.left is None else Sticks(self.concentration, self.left)

    def check(self, model: MixtureModel) -> None:
        """Raise an error for a posterior of another mixture, or outside its domain."""
        check_kind("the posterior", self, VariationalPosterior)
        k, d = model.k, model.d
        check_array("concentration", self.concentration, (k,), LOWEST, LARGEST_SQUARE)
        if self.left is not None:
            check_array("left", self.left, (k,), LOWEST, LARGEST_SQUARE)
        check_array("mean_precision", self.mean_precision, (k,), LOWEST, LARGEST_SQUARE)
        check_array("degrees_of_freedom", self.degrees_of_freedom, (k,), d - 1.0, HIGHEST)
        gaussian(model).check_params(GaussianParams(self.means, self.scale), k, d)

    def mean_weights(self) -> Array:
        """The expected weights, (K,)."""
        if self.sticks is not None:
            return self.sticks.mean_weights()
        return np.asarray(self.concentration / self.concentration.sum())

    def point(self) -> MixtureParams:
        """Expected weights and means, and the covariances V / nu."""
        return MixtureParams(self.mean_weights(), GaussianParams(self.means, self.scale))

    @cached_property
    def expected_log_params(self) -> MixtureParams:
        """Parameters whose log joint density is E[log p(x, k)]; weights sum to less than 1."""
        from scipy.special import digamma

        d, nu = self.means.shape[1], self.degrees_of_freedom
        halves = digamma(0.5 * (nu[:, None] - np.arange(d))).sum(axis=1)
        gap = halves + d * LOG_2 - d * np.log(nu) - d / self.mean_precision
        logs = self._expected_log_weights() + 0.5 * gap
        weights = np.maximum(np.exp(logs), SMALLEST_WEIGHT)
        return MixtureParams(weights, GaussianParams(self.means, self.scale))

    def _expected_log_weights(self) -> Array:
        from scipy.special import digamma

        if self.sticks is not None:
            return self.sticks.expected_log_weights()
        return np.asarray(digamma(self.concentration) - digamma(self.concentration.sum()))

    def log_constant(self, family: Gaussian) -> float:
        """The part of the lower bound that depends on the posterior only, without constants."""
        from scipy.special import gammaln

        d, nu = self.means.shape[1], self.degrees_of_freedom
        log_scale = family.log_determinant(GaussianParams(self.means, self.scale))
        halves = gammaln(0.5 * (nu[:, None] - np.arange(d))).sum(axis=1)
        wishart = nu * (log_scale + 0.5 * d * np.log(nu) - 0.5 * d * LOG_2) - halves
        return float(
            -wishart.sum() - self._log_of_weights() - 0.5 * d * np.log(self.mean_precision).sum()
        )

    def _log_of_weights(self) -> float:
        from scipy.special import gammaln

        if self.sticks is not None:
            return self.sticks.log_constant()
        return float(gammaln(self.concentration.sum()) - gammaln(self.concentration).sum())


def gaussian(model: Model) -> Gaussian:
    """The family of a mixture of Gaussians."""
    check_kind("the model", model, MixtureModel)
    assert isinstance(model, MixtureModel)
    check_kind("the family", model.family, Gaussian)
    assert isinstance(model.family, Gaussian)
    return model.family


def updated(
    family: Gaussian, prior: VariationalPrior, statistics: Statistics
) -> VariationalPosterior:
    """The posterior after rows with these statistics; `reg_covar` is added to every variance."""
    (block,) = statistics.blocks
    weight, d = statistics.weight, block.mean.shape[1]
    kappa, delta = prior.mean_precision + weight, block.mean - prior.mean
    spread = outer_like(delta, block.scatter.shape[1])
    scatter = weight[:, None] * _regularized(block, family.reg_covar, d)
    scatter = scatter + (weight * prior.mean_precision / kappa)[:, None] * spread
    first = pack(prior.covariance) if prior.covariance.ndim == 2 else prior.covariance
    rows = np.full_like(weight, weight.mean()) if family.structure.shares else weight
    nu = prior.degrees_of_freedom + rows
    scale, _ = family.structure.factorize(
        np.ones(len(weight)),
        (first + scatter) / nu[:, None],
        0.0,
        0.0,
        family.variance_floor(block),
    )
    means = (prior.mean_precision * prior.mean + weight[:, None] * block.mean) / kappa[:, None]
    if not prior.process:
        return VariationalPosterior(prior.concentration + weight, None, kappa, means, nu, scale)
    sticks = Sticks.after(weight, prior.concentration)
    return VariationalPosterior(sticks.taken, sticks.left, kappa, means, nu, scale)


def _regularized(block: Block, reg: float, d: int) -> Array:
    """The scatter with `reg` added to every variance."""
    more = np.zeros(block.scatter.shape[1])
    more[packed_diagonal(d) if len(more) > d else slice(None)] = reg
    return np.asarray(block.scatter + more)


def entropy(family: Gaussian, params: MixtureParams, statistics: Statistics) -> float:
    """The entropy of the responsibilities of an E-step under `params` with these statistics.

    It is the sum of log sum_k w_k p(x | k), less the expected log joint density, which is linear
    in the statistics.
    """
    (block,) = statistics.blocks
    d = block.mean.shape[1]
    mean, scatter = family.to_centred(params.components, block.mean, block.scatter)
    diagonal = scatter if scatter.shape[1] == d else scatter[:, packed_diagonal(d)]
    square = np.square(mean).sum(axis=1) + diagonal.sum(axis=1)
    base = family.log_base_measure(np.zeros((1, d)))[0]
    density = base - family.log_determinant(params.components) - 0.5 * square
    expected = statistics.weight * (np.log(params.weights) + density)
    return float(statistics.log_likelihood - expected.sum())
