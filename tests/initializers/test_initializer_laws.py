"""The laws of starts, on every family they serve."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.initializer import Initializer
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows
from mixfold.models.mixture_model import MixtureModel
from mixfold.testing import families, initializers
from mixfold.testing.families import all_variants

FAMILIES = all_variants(2)
STARTS: list[Initializer] = [start() for start in find_all("initializers").values()]


def example(family: Family, weighted: bool) -> tuple[MixtureModel, Rows]:
    rng = np.random.default_rng(7)
    model, _, x = families.example_mixture(family, 3, 2, 60, rng)
    return model, Rows(x, rng.uniform(0.5, 2.0, size=len(x)) if weighted else None)


def served(start: Initializer) -> list[Family]:
    """The families for which a start draws parameters; for others it is an error."""
    found = []
    for family in FAMILIES:
        try:
            initializers.draw(start, *example(family, False))
        except InvalidInputError:
            continue
        found.append(family)
    return found


@pytest.mark.parametrize("law", initializers.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_start(law: Callable[[Initializer, MixtureModel, Rows], None], start: Initializer) -> None:
    fit = served(start)
    assert fit, f"{start!r} serves no family"
    for family in fit:
        law(start, *example(family, False))
        law(start, *example(family, True))
