"""Means and standard deviations of families of real columns, against scipy.stats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import i0, i1

from mixfold.core.capabilities import StandardDeviations
from mixfold.core.family import Family
from mixfold.families._gamma_statistics import GammaParams
from mixfold.families._scales import ScaleParams
from mixfold.families.beta import Beta, BetaParams
from mixfold.families.gamma import Gamma
from mixfold.families.inverse_gamma import InverseGamma
from mixfold.families.inverse_gaussian import InverseGaussian, InverseGaussianParams
from mixfold.families.laplace import Laplace
from mixfold.families.log_normal import LogNormal, LogNormalParams
from mixfold.families.rayleigh import Rayleigh
from mixfold.families.von_mises import VonMises, VonMisesParams
from mixfold.families.weibull import Weibull

A, B = np.array([[2.5], [7.0]]), np.array([[0.5], [3.0]])
CASES: list[tuple[Family, Any, Any]] = [
    (Rayleigh(), ScaleParams(A), stats.rayleigh(scale=A)),
    (Weibull(0.5), ScaleParams(A), stats.weibull_min(0.5, scale=A)),
    (Weibull(3.0), ScaleParams(A), stats.weibull_min(3.0, scale=A)),
    (Laplace(-2.0), ScaleParams(A), stats.laplace(-2.0, A)),
    (LogNormal(), LogNormalParams(A, B), stats.lognorm(B, scale=np.exp(A))),
    (Gamma(), GammaParams(A, B), stats.gamma(A, scale=1.0 / B)),
    (InverseGamma(), GammaParams(A, B), stats.invgamma(A, scale=B)),
    (InverseGaussian(), InverseGaussianParams(A, B), stats.invgauss(A / B, scale=B)),
    (Beta(), BetaParams(A, B), stats.beta(A, B)),
]


@pytest.mark.parametrize(("family", "params", "expected"), CASES, ids=lambda one: repr(one)[:20])
def test_moments_are_those_of_scipy(family: Family, params: Any, expected: Any) -> None:
    assert isinstance(family, StandardDeviations)
    np.testing.assert_allclose(family.attributes(params)["means"], expected.mean(), rtol=1e-9)
    np.testing.assert_allclose(family.standard_deviations(params), expected.std(), rtol=1e-9)


def test_circular_deviations() -> None:
    found = VonMises().standard_deviations(VonMisesParams(B, A))
    np.testing.assert_allclose(np.exp(-0.5 * found**2), i1(A) / i0(A), rtol=1e-12)


def test_moments_that_do_not_exist_are_infinite() -> None:
    params = GammaParams(np.array([[0.5], [1.5], [2.0]]), np.ones((3, 1)))
    means = InverseGamma().attributes(params)["means"]
    np.testing.assert_array_equal(np.isinf(means), [[True], [False], [False]])
    assert np.isinf(InverseGamma().standard_deviations(params)).all()
    wide = LogNormalParams(np.full((1, 1), 130.0), np.full((1, 1), 130.0))
    assert np.isinf(LogNormal().attributes(wide)["means"]).all()
    assert np.isinf(LogNormal().standard_deviations(wide)).all()
