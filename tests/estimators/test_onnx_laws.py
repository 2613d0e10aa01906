"""The laws of exported models, over every family that the registry finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mixfold.core.expression import Expression
from mixfold.core.family import Family
from mixfold.core.registry import name_of
from mixfold.families.rayleigh import Rayleigh
from mixfold.testing import exports, families

SHAPES = [(1, 1), (3, 2), (2, 5)]
CASES = [(family, k, d) for k, d in SHAPES for family in families.all_variants(d)]
REFUSED = {"wishart"}
OURS = {
    *("bernoulli", "beta", "binomial", "categorical", "dirichlet", "exponential", "gamma"),
    *("gaussian", "geometric", "inverse-gamma", "inverse-gaussian", "laplace", "log-normal"),
    *("multinomial", "negative-binomial", "poisson", "product", "rayleigh", "student-t"),
    *("transformed-gaussian", "von-mises", "von-mises-fisher", "weibull", "wishart"),
    "zero-inflated-poisson",
}


@pytest.mark.parametrize("law", exports.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("family", "k", "d"), CASES, ids=repr)
def test_export(law: Callable[..., None], family: Family, k: int, d: int) -> None:
    law(family, k, families.columns_for(family, d), np.random.default_rng(7))


def test_all_families_but_one_are_exported() -> None:
    rng, refused, found = np.random.default_rng(0), set(), set()
    for family, k, d in CASES:
        model, params = exports.mixture_of(family, k, families.columns_for(family, d), rng)
        found.add(name_of(family))
        if exports.exported(model, params, False, "float32") is None:
            refused.add(name_of(family))
    assert found >= OURS
    assert refused & OURS == REFUSED


class WrongRayleigh(Rayleigh):
    def base_measure_expression(self, x: Expression) -> Expression:
        return (2.00001 * x).log()


@pytest.mark.parametrize("law", exports.LAWS, ids=lambda law: law.__name__)
def test_a_wrong_expression_is_found(law: Callable[..., None]) -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        law(WrongRayleigh(), 2, 2, np.random.default_rng(7))
