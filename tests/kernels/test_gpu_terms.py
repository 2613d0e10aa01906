"""Fused kernels of products, through Triton's interpreter; with `pytest -m gpu` on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import gammaln

from gpu_products import COMPLETE, WITH_HOLES, example, on_device
from gpu_rows import rng
from mixfold import EM, Gaussian, Mixture, Poisson, Product
from mixfold.backends import gpu
from mixfold.backends.gpu import Gpu
from mixfold.backends.threads import Threads
from mixfold.core.family import Family
from mixfold.core.rows import Rows
from mixfold.core.statistics import Statistics
from mixfold.families.gaussian import GaussianParams
from mixfold.families.mean_params import MeanParams
from mixfold.families.product import ProductParams
from mixfold.kernels import _triton_terms
from mixfold.kernels.gpu import GpuKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several programs to a span, several spans to a tile, several tiles."""
    monkeypatch.setattr(_triton_terms, "ROWS", 32)
    monkeypatch.setattr(_triton_terms, "SPAN", 64)
    monkeypatch.setattr(_triton_terms.TermSums, "span", 64)
    monkeypatch.setattr(gpu, "MOST_ROWS", 128)


def fused(model: MixtureModel, device: str) -> Gpu:
    made = Gpu(model, device)
    made.on_device = GpuKernel(model, made.device, fused=True)
    return made


def statistics_of(backend: Any, params: MixtureParams, rows: Rows) -> Statistics:
    model: MixtureModel = backend.model
    return model.statistics(params, backend.fold(params, rows, np.zeros(model.n_sums)))


def near(found: Statistics, expected: Statistics, tolerance: float) -> None:
    """Statistics, relative to the largest of their kind."""
    pairs: list[Any] = [
        (found.weight, expected.weight),
        (found.log_likelihood, expected.log_likelihood),
    ]
    for one, other in zip(found.blocks, expected.blocks, strict=True):
        pairs += [(getattr(one, n), getattr(other, n)) for n in ("weight", "mean", "scatter")]
    for a, b in pairs:
        assert np.abs(np.asarray(a) - b).max(initial=0.0) <= tolerance * np.abs(b).max(initial=0.0)


@pytest.mark.parametrize(
    ("family", "k"),
    [*((family, 3) for family in COMPLETE + WITH_HOLES), (COMPLETE[0], 1), (WITH_HOLES[0], 17)],
    ids=repr,
)
def test_statistics_are_those_of_the_cpu(family: Family, k: int, device: str) -> None:
    model, params, x = example(family, k, 150)
    weight: Any = rng().integers(0, 3, size=len(x)) + 0.5
    backend = fused(model, device)
    assert len(backend.on_device.prepare(params).types) == 2
    for w, dtype, tolerance in ((None, np.float32, 1e-6), (weight, np.float64, 1e-12)):
        rows = Rows(x.astype(dtype), w)
        found = statistics_of(backend, params, on_device(rows, device))
        expected = statistics_of(Threads(model), params, Rows(rows.x.astype(np.float64), w))
        near(found, expected, tolerance)


@pytest.mark.parametrize("family", [COMPLETE[0], WITH_HOLES[0]], ids=["complete", "holes"])
def test_the_bits_of_a_tile_depend_on_its_rows_alone(family: Family, device: str) -> None:
    model, params, x = example(family, 3, 300)
    kernel = GpuKernel(model, torch.device(device), fused=True)
    prepared = kernel.prepare(params)
    rows: Any = on_device(Rows(x.astype(np.float32)), device).x
    together = kernel.sums(prepared, rows, None, 128)
    for i in range(3):
        alone = kernel.sums(prepared, rows[128 * i : 128 * (i + 1)].clone(), None, 128)
        assert torch.equal(alone[0], together[i])


def test_rows_taken_in_stretches_give_the_same_bits(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, params, x = example(WITH_HOLES[0], 3, 300)
    rows = on_device(Rows(x.astype(np.float32), rng().uniform(size=300)), device)
    whole = fused(model, device).fold(params, rows, np.zeros(model.n_sums))
    monkeypatch.setattr(_triton_terms, "SHARE_ELEMENTS", 1)
    parts = fused(model, device).fold(params, rows, np.zeros(model.n_sums))
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 10, 11, 150, 10**4, 10**6])
def test_log_factorials_are_those_of_scipy(count: int, device: str) -> None:
    """Of one row under one Poisson distribution of mean one: log p = -1 - log x!."""
    model = MixtureModel(Product({0: Poisson()}), 1, 1)
    params = MixtureParams(np.ones(1), ProductParams((MeanParams(np.ones((1, 1))),)))
    rows = on_device(Rows(np.full((1, 1), count, dtype=np.float32)), device)
    sums = fused(model, device).fold(params, rows, np.zeros(model.n_sums))
    assert sums[0] == pytest.approx(-1.0 - gammaln(count + 1.0), rel=1e-13)


def test_large_counts_keep_their_digits(device: str) -> None:
    """Two means that differ by five deviations, of which float32 knows nothing."""
    model = MixtureModel(Product({0: Poisson()}), 2, 1)
    means = np.array([[1e6], [1.005e6]])
    params = MixtureParams(np.full(2, 0.5), ProductParams((MeanParams(means),)))
    x = rng().poisson(means[rng().integers(2, size=300), 0])[:, None].astype(np.float32)
    found = statistics_of(fused(model, device), params, on_device(Rows(x), device))
    near(found, statistics_of(Threads(model), params, Rows(x.astype(np.float64))), 1e-6)


def spread_out(away: float) -> tuple[MixtureModel, MixtureParams, np.ndarray]:
    """Two normal components that lie `away` deviations apart."""
    model = MixtureModel(Product({0: Gaussian(), 1: Poisson()}), 2, 2)
    normal = GaussianParams(np.array([[0.0], [away]]), np.ones((2, 1)))
    parts = normal, MeanParams(np.array([[2.0], [3.0]]))
    params = MixtureParams(np.full(2, 0.5), ProductParams(parts))
    return model, params, model.sample(params, 200, rng())[0].astype(np.float32)


@pytest.mark.parametrize(("away", "n_types"), [(190.0, 2), (210.0, 1), (1.9e4, 1), (2.1e4, 0)])
def test_normal_components_far_apart(away: float, n_types: int, device: str) -> None:
    """Beyond some distance products of matrices are used, which do not lose digits there."""
    model, params, x = spread_out(away)
    backend = fused(model, device)
    assert len(backend.on_device.prepare(params).types) == n_types
    wide = Rows(x.astype(np.float64))
    for rows, tolerance in ((Rows(x), 1e-6), (wide, 1e-11)):
        found = statistics_of(backend, params, on_device(rows, device))
        near(found, statistics_of(Threads(model), params, wide), tolerance)
        assert found.blocks[0].scatter.min() > 0.5


def test_many_components_are_left_to_products_of_matrices(device: str) -> None:
    model, params, x = example(COMPLETE[1], 65, 200)
    backend = fused(model, device)
    assert backend.on_device.prepare(params).fused is None
    found = statistics_of(backend, params, on_device(Rows(x.astype(np.float32)), device))
    near(found, statistics_of(Threads(model), params, Rows(x)), 1e-6)


def test_a_fit(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, calls = GpuKernel.__init__, list[int]()
    monkeypatch.setattr(
        GpuKernel, "__init__", lambda self, model, device: chosen(self, model, device, True)
    )
    sums = _triton_terms.TermSums.sums

    def counted(*given: Any) -> Any:
        calls.append(len(given[2]))
        return sums(*given)

    monkeypatch.setattr(_triton_terms.TermSums, "sums", counted)
    family = Product({0: Poisson(), 1: Gaussian()})
    _, _, x = example(family, 2, 300)
    x = x.astype(np.float32)
    settings: dict[str, Any] = {"learner": EM(tol=0.0, max_iter=4), "random_state": 0}
    there = Mixture(family, 2, engine=f"torch:{device}", **settings).fit(x)
    here = Mixture(family, 2, engine="cpu", **settings).fit(x)
    assert sum(calls) == 4 * len(x)
    np.testing.assert_allclose(there.weights_, here.weights_, rtol=1e-6)
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-6)
    np.testing.assert_allclose(
        there.history_.log_likelihood, here.history_.log_likelihood, rtol=1e-6
    )
