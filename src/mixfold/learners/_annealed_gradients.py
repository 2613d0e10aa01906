"""Properties of a model that annealed gradients need."""

from __future__ import annotations

from typing import NamedTuple

from mixfold.core.backend import Model
from mixfold.core.capabilities import LatentFactors, PrecisionRoots


class Gradients(NamedTuple):
    """The shape of a component's precision root, its number of factors, and the family's cap."""

    root_shape: tuple[int, ...]
    n_factors: int
    cap: float | None


def gradients_of(model: Model) -> Gradients | None:
    """The properties that gradients need; None if the model does not support them."""
    family = getattr(model, "family", None)
    shape = family.root_shape(model.d) if isinstance(family, PrecisionRoots) else None
    if family is None or shape is None:
        return None
    n_factors = family.n_factors if isinstance(family, LatentFactors) else 0
    return Gradients(shape, n_factors, family.cap)
