"""Which kernel serves a family is told by the family's capabilities, and once for all kernels."""

from __future__ import annotations

import numpy as np
import pytest

from mixfold.core.capabilities import LatentFactors
from mixfold.core.rows import Array
from mixfold.core.statistics import Blocks
from mixfold.core.value import value
from mixfold.families.gaussian import FactorGaussian, Gaussian
from mixfold.families.poisson import Poisson
from mixfold.kernels._forms import form_of, has_form
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.factor import FactorKernel
from mixfold.kernels.gpu import GpuKernel
from mixfold.kernels.native import NativeKernel
from mixfold.models.linear_mixed import LinearMixed
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@value
class Rotatable(Poisson):
    """A family with factors of its own, which are not those of factor analysis."""

    n_factors = 1

    def rotated(self, blocks: Blocks, like: Blocks) -> Blocks:
        return blocks


def test_a_family_with_other_factors_does_not_get_the_kernel_of_factor_models() -> None:
    model = MixtureModel(Rotatable(), 2, 3)
    assert isinstance(model.family, LatentFactors)
    assert not FactorKernel.supports(model)
    assert not isinstance(kernel_for(model), FactorKernel)


def test_factor_models_have_their_kernel() -> None:
    family = FactorGaussian(rank=1)
    model = MixtureModel(family, 2, 3)
    kernel = kernel_for(model)
    assert isinstance(kernel, FactorKernel)
    rng = np.random.default_rng(0)
    params = MixtureParams(np.array([0.3, 0.7]), family.example(2, 3, rng))
    x: Array = rng.normal(size=(5, 3))
    log_density, _ = kernel.posterior(kernel.prepare(params), x)
    expected = np.logaddexp.reduce(
        np.log(params.weights) + family.scipy_log_density(params.components, x), axis=1
    )
    np.testing.assert_allclose(log_density, expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("family", "form"),
    [
        (Gaussian(), ("triangular", False)),
        (Gaussian("diag"), ("diagonal", False)),
        (Poisson(), (None, True)),
    ],
)
def test_compiled_kernels_and_devices_serve_the_same_families(
    family: Gaussian | Poisson, form: tuple[str | None, bool]
) -> None:
    model = MixtureModel(family, 2, 3)
    assert has_form(model)
    assert GpuKernel.supports(model)
    assert NativeKernel.supports(model)
    gaussians, factorial = form_of(family)
    assert (gaussians and gaussians.form, factorial) == form


def test_other_models_are_not_mixtures() -> None:
    assert not has_form(LinearMixed(1, 1))
    assert not GpuKernel.supports(LinearMixed(1, 1))
