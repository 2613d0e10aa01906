"""What Bayesian learners share: beliefs before any row."""

from __future__ import annotations

from typing import Any

from mixfold.core.capabilities import conjugate_of
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.problem import Model, Problem
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel


def check_prior(prior: Any) -> None:
    """Refuse what no beliefs can be made from."""
    if not (prior is None or isinstance(prior, Prior | MixturePosterior)):
        raise InvalidInputError(
            f"prior is {prior!r}: give Prior(...), or the posterior_ of a fitted model"
        )


def same_for_all(prior: Any) -> bool:
    """Whether a prior says the same of every component."""
    return prior is None or (
        isinstance(prior, Prior) and prior.means is None and prior.covariance is None
    )


def no_prior(model: Model) -> str | None:
    """Why beliefs cannot be had of a model, unless its components have a conjugate prior."""
    if isinstance(model, MixtureModel) and conjugate_of(model.family) is not None:
        return None
    return (
        f"{getattr(model, 'family', model)!r} has no conjugate prior here: use full or diagonal "
        "Gaussians without a cap, Poisson or exponential components, or a learner of the EM kind"
    )


def mixture_of(problem: Problem) -> BayesianMixture:
    """The mixture beliefs are about."""
    model: Any = problem.model
    return BayesianMixture(model)


def beliefs_before(problem: Problem, params: Any, prior: Any) -> MixturePosterior:
    """The prior: as given, or around the parameters of a start."""
    mixture = mixture_of(problem)
    if not isinstance(prior, MixturePosterior):
        return mixture.prior(params, Prior() if prior is None else prior)
    check_beliefs(mixture.model, prior)
    return prior


def check_beliefs(model: Any, *several: MixturePosterior) -> None:
    """Refuse beliefs outside their domain, or about another mixture."""
    for beliefs in several:
        try:
            BayesianMixture(model).check(beliefs)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"the prior or posterior is not of {model.k} components in {model.d} columns: "
                f"{error}"
            ) from None
