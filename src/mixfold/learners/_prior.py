"""The prior of Bayesian learners."""

from __future__ import annotations

from mixfold.core.backend import Backend, Model
from mixfold.core.capabilities import conjugate_of
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.params import Params
from mixfold.families.product import Product
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.labelled import without_label_column
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def check_prior(prior: object) -> None:
    """Raise an error for an invalid prior."""
    if not (prior is None or isinstance(prior, Prior | MixturePosterior)):
        raise InvalidInputError(
            f"prior is {prior!r}: give Prior(...), or the posterior_ of a fitted model"
        )


def same_for_all(prior: object) -> bool:
    """Whether a prior is the same for every component."""
    return prior is None or (
        isinstance(prior, Prior) and prior.means is None and prior.covariance is None
    )


def no_prior(model: Model) -> str | None:
    """Why a model has no conjugate prior; None if it has one."""
    if not isinstance(model, MixtureModel):
        return _refusal(repr(model))
    if model.is_constrained:
        return (
            "the learner has a prior of its own, and learns free parameters only: leave fixed and "
            "prior of the mixture out, or use 'em'"
        )
    if without_label_column(model) is not model:
        return (
            "rows with labels are not learned by Bayesian learners: use a learner of the EM kind, "
            "such as 'em', with prior=Prior(...) of the mixture for a prior"
        )
    return None if conjugate_of(model.family) is not None else _without_prior(model.family)


def _without_prior(family: Family, columns: str = "") -> str:
    """Why a family has no conjugate prior; of a product, the first factor that has none."""
    if isinstance(family, Product):
        factor = next(one for one in family.factors if conjugate_of(one.family) is None)
        noun = "columns" if len(factor.columns) > 1 else "column"
        return _without_prior(factor.family, f", the family of {noun} {factor.label!r}")
    complete = family.for_complete_rows()
    if conjugate_of(complete) is None:
        return _refusal(f"{complete!r}{columns}")
    return _refusal(f"{complete!r} with missing cells{columns}", "diagonal")


def _refusal(named: str, gaussians: str = "full or diagonal") -> str:
    return (
        f"there is no conjugate prior here for {named}: use {gaussians} Gaussians without a cap, "
        "families of counts such as Poisson, or a learner of the EM kind"
    )


def mixture_of(backend: Backend) -> BayesianMixture:
    """The mixture to which the posterior belongs."""
    return bayesian(backend.model)


def bayesian(model: Model) -> BayesianMixture:
    """The Bayesian mixture of a model that has a conjugate prior."""
    assert isinstance(model, MixtureModel)
    return BayesianMixture(model)


def prior_of(
    backend: Backend, params: Params, prior: Prior | MixturePosterior | None
) -> MixturePosterior:
    """The prior: as given, or centred at the initial parameters."""
    mixture = mixture_of(backend)
    if not isinstance(prior, MixturePosterior):
        assert isinstance(params, MixtureParams)
        return mixture.prior(params, Prior() if prior is None else prior)
    check_posteriors(mixture.model, prior)
    return prior


def check_posteriors(model: Model, *several: MixturePosterior) -> None:
    """Raise an error for a posterior outside its domain, or of another mixture."""
    for posterior in several:
        try:
            bayesian(model).check(posterior)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the prior or posterior is not of {model.k} components in {model.d} columns: "
                f"{error}"
            ) from None
