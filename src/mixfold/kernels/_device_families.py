"""The models that have kernels for GPUs."""

from __future__ import annotations

from typing import Any

from mixfold.core.backend import Model
from mixfold.core.capabilities import IdentityKernel, LowRankKernel, WhitenedKernel
from mixfold.core.family import Family
from mixfold.families.categorical import Categorical
from mixfold.families.observed_columns import Incomplete, ObservedColumns
from mixfold.families.product import Product
from mixfold.kernels._forms import has_form
from mixfold.models.mixture_model import MixtureModel
from mixfold.models.noise_mixture import NoiseMixture

IN_PRODUCTS = "Gaussian, Bernoulli, Categorical, Poisson, Exponential or Geometric"


def why_unsupported(model: Model) -> str | None:
    """Why a model has no kernel for GPUs, and the remedy; None if it has one."""
    family: Any = getattr(model, "family", model)
    if isinstance(model, NoiseMixture):
        return "a mixture with noise has no kernel for GPUs: use engine='cpu'"
    if has_form(model):
        return None
    if isinstance(model, MixtureModel) and (
        isinstance(family, LowRankKernel) or _has_terms(family)
    ):
        return None
    if not isinstance(family, Product):
        return f"{_described(family)} has no kernel for GPUs: use engine='cpu'"
    factor = next(one for one in family.factors if not _is_term(one.family, len(one.columns)))
    return (
        f"the family of column {factor.label!r} is {_complete(factor.family)!r}, which has no "
        f"kernel for GPUs in a product: use engine='cpu', or give the column {IN_PRODUCTS}"
    )


def _has_terms(family: Family) -> bool:
    """Whether a family is a product of terms that devices compute."""
    if isinstance(family, Product):
        return all(_is_term(one.family, len(one.columns)) for one in family.factors)
    return isinstance(family, ObservedColumns | Categorical) and _is_term(family, 1)


def _is_term(family: Family, n_columns: int) -> bool:
    """Whether a column of a family has a term that devices compute, of the column as it is."""
    cell = family.complete if isinstance(family, ObservedColumns) else family
    return n_columns == 1 and isinstance(cell, Categorical | IdentityKernel | WhitenedKernel)


def _complete(family: Any) -> Any:
    """The family of rows without missing cells."""
    return family.complete if isinstance(family, Incomplete) else family


def _described(family: Any) -> str:
    complete = _complete(family)
    only_complete = complete is not family and isinstance(complete, WhitenedKernel)
    return f"{complete!r} with missing cells" if only_complete else repr(complete)
