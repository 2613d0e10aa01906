"""Components that cannot matter to a row are passed over, and no sum notices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.native import NativeKernel
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

ROWS = 3000


def separated(
    covariance: str, k: int, d: int, spread: float, n: int = ROWS
) -> tuple[MixtureModel, MixtureParams, np.ndarray]:
    """Clusters of different shapes, `spread` deviations apart or so, and their mixture."""
    rng = np.random.default_rng(11)
    family = Gaussian(covariance)
    params = family.example(k, d, rng)
    means = spread * rng.normal(size=(k, d))
    x = means[rng.integers(k, size=n)] + rng.normal(size=(n, d))
    weights = rng.dirichlet(np.full(k, 3.0))
    mixture = MixtureParams(weights, type(params)(means, params.scale))
    return MixtureModel(family, k, d), mixture, x


def assert_as_reference(
    model: MixtureModel, params: MixtureParams, rows: Rows, rtol: float
) -> None:
    kernel = kernel_for(model)
    assert isinstance(kernel, NativeKernel)
    found = kernel.expect(kernel.prepare(params), rows)
    expected = ReferenceKernel(model).expect(params, rows)
    sums = expected[1:].reshape(model.k, -1)
    largest = np.abs(sums).max(axis=1, keepdims=True)
    atol = np.append(0.0, np.broadcast_to(largest, sums.shape)) * rtol
    worst = np.abs(found - expected) - rtol * np.abs(expected) - atol
    assert worst.max() <= 0.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spread", [3.0, 20.0])
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize(("k", "d"), [(40, 1), (30, 2), (32, 4), (8, 10), (33, 16), (12, 40)])
def test_sums_are_those_of_the_reference(
    k: int, d: int, covariance: str, spread: float, dtype: Any
) -> None:
    model, params, x = separated(covariance, k, d, spread)
    weight = np.random.default_rng(3).integers(0, 3, size=len(x)).astype(np.float64)
    rtol = 1e-10 if dtype is np.float64 else 1e-3
    for given, some in ((x, None), (np.asfortranarray(x), weight), (x[np.argsort(x[:, 0])], None)):
        assert_as_reference(model, params, Rows(given.astype(dtype, order="K"), some), rtol)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_components_that_win_no_row_keep_their_sums(covariance: str) -> None:
    """Small responsibilities count for a component that has no others."""
    model, params, x = separated(covariance, 10, 12, 20.0)
    nearest = params.components.means[np.argmin((params.components.means**2).sum(axis=1))]
    means, weights = params.components.means.copy(), params.weights.copy()
    weights[-1] = 1e-20
    means[-1] = nearest + 0.5
    given = MixtureParams(weights, type(params.components)(means, params.components.scale))
    assert_as_reference(model, given, Rows(x), 1e-9)
    expected = ReferenceKernel(model).expect(given, Rows(x))[1:].reshape(model.k, -1)
    assert 0.0 < expected[-1, 0] < 1e-9


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_hostile_rows_and_components(covariance: str) -> None:
    model, params, x = separated(covariance, 16, 8, 10.0)
    means, weights = params.components.means.copy(), params.weights.copy()
    means[1] = means[0]
    means[2] = 1e7
    weights[3] = 0.0
    weights[4] = 1e-300
    given = MixtureParams(weights, type(params.components)(means, params.components.scale))
    x[5], x[700], x[1500, 0] = 1e9, -1e30, 1e100
    with np.errstate(divide="ignore"):
        assert_as_reference(model, given, Rows(x), 1e-9)
        x[2000] = 1e200
        kernel, reference = kernel_for(model), ReferenceKernel(model)
        found = kernel.expect(kernel.prepare(given), Rows(x[:1990]))
        expected = reference.expect(given, Rows(x[:1990]))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-10)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_do_not_depend_on_threads(covariance: str, dtype: Any) -> None:
    model, params, x = separated(covariance, 16, 24, 4.0, 50_000)
    rows = Rows(x.astype(dtype))
    one, three = (
        Threads(model, threads).fold(params, rows, np.zeros(model.n_sums)) for threads in (1, 3)
    )
    assert one.tobytes() == three.tobytes()


def test_likelihood_is_that_of_the_posterior() -> None:
    model, params, x = separated("full", 32, 10, 5.0, 20_000)
    kernel = kernel_for(model)
    prepared = kernel.prepare(params)
    log_density, responsibilities = kernel.posterior(prepared, x)
    found = kernel.expect(prepared, Rows(x))
    np.testing.assert_allclose(found[0], log_density.sum(), rtol=1e-13)
    assert responsibilities is not None
    weights = found[1:].reshape(model.k, -1)[:, 0]
    np.testing.assert_allclose(weights, responsibilities.sum(axis=0), rtol=1e-13)
