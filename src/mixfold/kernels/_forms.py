"""The families that compiled and GPU kernels support, and in which form."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

from mixfold.core.backend import Model
from mixfold.core.capabilities import IdentityKernel, WhitenedKernel
from mixfold.core.family import Family
from mixfold.models.mixture_model import MixtureModel


def has_form(model: Model) -> TypeGuard[MixtureModel]:
    """Whether a model is a mixture of a family that such kernels support."""
    if not isinstance(model, MixtureModel):
        return False
    return isinstance(model.family, WhitenedKernel | IdentityKernel)


class FamilyForm(NamedTuple):
    """The form of a family for such kernels.

    `gaussians` whitens rows, or is None where t(x) = x; the base measure of these is one over the
    product of x! if it is `factorial`, else one.
    """

    gaussians: WhitenedKernel | None
    factorial: bool


def form_of(family: Family) -> FamilyForm:
    """The form of a family; cached, since the tests take as long as a small batch of rows."""
    gaussians = family if isinstance(family, WhitenedKernel) else None
    factorial = isinstance(family, IdentityKernel) and family.base_measure == "factorial"
    return FamilyForm(gaussians, factorial)
