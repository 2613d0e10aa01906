"""A mixture whose parameters have a conjugate prior, for estimates of highest posterior density."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mixfold.core.capabilities import WeakPrior, conjugate_of
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.statistics import Block, Statistics, outer_like
from mixfold.core.value import replace, value
from mixfold.families.gaussian import Gaussian, GaussianParams
from mixfold.families.product import Product
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.constrained_mixture import family_of_params
from mixfold.models.constraints import Constraints
from mixfold.models.labelled import without_label_column
from mixfold.models.mixture_model import SMALLEST_WEIGHT, MixtureModel, MixtureParams


@value
class PenalizedMixture(MixtureModel):
    """p(x) = sum_k w_k p(x | k), whose M-step is the highest expected posterior density.

    Statistics are those of all rows, since the prior counts once. What the prior leaves open is
    centred at the distribution of all rows, which is the same in every pass: that of the family's
    weak prior if it has one, with covariances divided by K^(2/d).

    Weights are Dirichlet, means and covariances of Gaussians normal-inverse-Wishart, with the
    density of these parameters. The prior of other families is that of `kappa` rows, with the
    density of the natural parameters. So the M-step adds `kappa` rows to each component, and
    covariances are (S_0 + S) / (nu + n + d + 2).

    Reference: Fraley and Raftery (2007), Bayesian regularization for normal mixture estimation and
    model-based clustering.
    """

    is_constrained: ClassVar[bool] = True
    has_prior: ClassVar[bool] = True

    prior: Prior

    @property
    def is_exchangeable(self) -> bool:
        return super().is_exchangeable and self._of_components is None

    @property
    def _of_components(self) -> int | None:
        """The number of components that have means or covariances of their own in the prior."""
        for name, own in (("means", 2), ("covariance", 2 if self._diagonal else 3)):
            given = getattr(self.prior, name)
            if given is not None and np.ndim(given) == own:
                return len(given)
        return None

    @property
    def _applies(self) -> bool:
        """Whether the prior is of as many components: those of parts of the model have none."""
        return self._of_components in (None, self.k)

    @property
    def unconstrained_model(self) -> MixtureModel:
        """The mixture without a prior."""
        return MixtureModel(self.family, self.k, self.d)

    @property
    def anchors(self) -> Constraints:
        """The means of the components in the prior, to which components that are drawn belong."""
        given: Any = self.prior.means
        means = None if given is None or np.ndim(given) < 2 else np.asarray(given, dtype=np.float64)
        return Constraints(None, means, None, None, np.zeros(self.k, dtype=bool), None, None)

    @property
    def _diagonal(self) -> bool:
        like = family_of_params(self.family)
        return isinstance(like, Gaussian) and like.columns_are_independent

    @property
    def _plain(self) -> MixtureModel:
        """The mixture of rows without labels, and without a prior."""
        known = without_label_column(self)
        return MixtureModel(known.family, known.k, known.d)

    def posterior_before(self, statistics: Statistics) -> MixturePosterior:
        """The prior; statistics are those of all rows, under any responsibilities."""
        family, blocks = family_of_params(self.family), statistics.blocks
        overall = tuple(map(_overall, blocks))
        if isinstance(family, WeakPrior):
            centre = family.prior_params(overall)
        else:
            centre, _ = family.maximize(overall)
        weights = np.full(self.k, 1.0 / self.k)
        return BayesianMixture(self._plain).prior(MixtureParams(weights, centre), self.prior)

    def maximize(self, statistics: Statistics) -> tuple[MixtureParams, int]:
        if not self._applies:
            return self._plain.maximize(statistics)
        free = BayesianMixture(self._plain)
        after = free.absorb(self.posterior_before(statistics), statistics)
        weights = np.maximum(after.alpha - 1.0, 0.0)
        weights = np.maximum(weights / weights.sum(), SMALLEST_WEIGHT)
        weights = weights / weights.sum()
        mode = _at_mode(free.model.family, after.components)
        return MixtureParams(weights, free.conjugate.expected(mode, weights)), 0

    def log_prior(self, params: MixtureParams, statistics: Statistics) -> float:
        """The logarithm of the prior density, up to a constant."""
        if not self._applies:
            return 0.0
        before = self.posterior_before(statistics)
        family, kappa = self._plain.family, self.prior.kappa
        inside = _log_density(family, before.components, params.components, kappa)
        return float((before.alpha - 1.0) @ np.log(params.weights)) + inside


def with_prior_of(model: MixtureModel, prior: Prior | None) -> MixtureModel:
    """The mixture with a conjugate prior."""
    if prior is None:
        return model
    family = without_label_column(model).family
    if conjugate_of(family) is None:
        raise InvalidInputError(
            f"prior needs families with conjugate priors, and {family!r} has none here: use full "
            "or diagonal Gaussians without a cap, families of counts such as Poisson, or no prior"
        )
    if prior.alpha < 1.0:
        raise InvalidInputError(
            f"alpha of the prior is {prior.alpha:g}: for estimates of highest posterior density it "
            "is at least 1, as weights would else be zero"
        )
    found = PenalizedMixture(model.family, model.k, model.d, prior)
    like = family_of_params(family)
    example = like.example(model.k, without_label_column(model).d, np.random.default_rng(0))
    weights = np.full(model.k, 1.0 / model.k)
    BayesianMixture(found._plain).prior(MixtureParams(weights, example), prior)
    return found


def of_rows(model: Any, statistics: Any, n: float) -> Any:
    """Normalised statistics as those of n rows, against which a prior counts; else as they are."""
    return statistics * n if getattr(model, "has_prior", False) and n > 0.0 else statistics


def _overall(block: Block) -> Block:
    """The block of all rows, the same for every component."""
    weight = block.weight if block.weight.ndim == 2 else block.weight[:, None]
    share = weight / weight.sum(axis=0)
    k, length = len(block.mean), block.scatter.shape[1]
    centre = (share * block.mean).sum(axis=0)
    scatter = (share * block.scatter).sum(axis=0) if length else block.scatter[0]
    if length:
        scatter = scatter + (share * outer_like(block.mean - centre, length)).sum(axis=0)
    return Block(np.ones(k), np.tile(centre, (k, 1)), np.tile(scatter, (k, 1)))


def _at_mode(family: Family, posterior: Any) -> Any:
    """The posterior whose mean is the mode of this one: covariances S / (nu + d + 2).

    That of other families is the mean: the mode in their natural parameters.
    """
    like = family_of_params(family)
    if isinstance(like, Product):
        parts = zip(like.factors, posterior.parts, strict=True)
        return replace(posterior, parts=tuple(_at_mode(one.family, own) for one, own in parts))
    if not isinstance(like, Gaussian):
        return posterior
    return replace(posterior, nu=posterior.nu + 2.0 * _dimension(posterior) + 3.0)


def _dimension(posterior: Any) -> int:
    """The dimension of a normal-Wishart posterior, which is 1 for columns of their own."""
    return int(posterior.mean.shape[1]) if posterior.nu.ndim == 1 else 1


def _log_density(family: Family, prior: Any, params: Any, kappa: float) -> float:
    """The logarithm of the density of the components, up to a constant."""
    like = family_of_params(family)
    if isinstance(like, Product):
        parts = zip(like.factors, prior.parts, params.parts, strict=True)
        return sum(_log_density(one.family, own, found, kappa) for one, own, found in parts)
    if isinstance(like, Gaussian):
        return _normal(like, prior, params)
    assert isinstance(like, ExponentialFamily)
    conjugate, eta = conjugate_of(like), like.to_natural(params)
    assert conjugate is not None
    rows = like.mean(conjugate.expected(prior, np.full(len(eta), 1.0 / len(eta))))
    return float(kappa * ((rows * eta).sum() - like.log_normalizer(eta).sum()))


def _normal(family: Gaussian, prior: Any, params: GaussianParams) -> float:
    """The log density of means and covariances, normal-inverse-Wishart, without its constant."""
    whiten, away = family.whiten(params), params.means - prior.mean
    if whiten.ndim == 2:
        inside = np.square(whiten * prior.scale) + prior.kappa * np.square(whiten * away)
        return float(((prior.nu + 3.0) * np.log(whiten) - 0.5 * inside).sum())
    spread = np.square(whiten @ prior.scale).sum(axis=(1, 2))
    offset = prior.kappa * np.square((whiten @ away[:, :, None])[:, :, 0]).sum(axis=1)
    volume = np.log(np.diagonal(whiten, axis1=1, axis2=2)).sum(axis=1)
    degrees = prior.nu + _dimension(prior) + 2.0
    return float((degrees * volume - 0.5 * (spread + offset)).sum())
