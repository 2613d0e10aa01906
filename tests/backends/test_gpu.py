"""The GPU engine, through torch on the CPU; with `pytest -m gpu` the same on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gpu_rows import blobs, mixture, rng
from mixfold import AnnealedSGD, Gaussian, MiniBatchEM, Mixture, OnlineEM
from mixfold.backends import _feeding
from mixfold.backends.gpu import Gpu, device_tile
from mixfold.core.backend_capabilities import Annealer, required
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows, join
from mixfold.core.value import at_home, equal
from mixfold.kernels.gpu import GpuKernel
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.sources.tensor import Tensor
from mixfold.testing import backends, families, sources

FAMILIES: list[Family] = [
    variant
    for name in ("gaussian", "poisson", "exponential", "bernoulli", "geometric")
    for variant in find_all("families")[name].variants()
]
LEARNERS: list[Learner] = [
    EM(),
    EM(accelerate=True),
    MiniBatchEM(batch_size=70, average_from=3),
    OnlineEM(batch_size=256, warmup=0),
    OnlineEM(warmup=0),
    *(find_all("learners")[name]() for name in ("k-mle", "sem", "incremental-em")),
]


def placed(rows: Rows, device: str) -> Any:
    weight = None if rows.weight is None else torch.tensor(rows.weight, device=device)
    return Rows(torch.tensor(rows.x, device=device), weight)


def example(
    family: Family, k: int, d: int, n: int, far: float = 0.0
) -> tuple[MixtureModel, MixtureParams, np.ndarray]:
    model, params, x = families.example_mixture(family, k, d, n, rng())
    if not isinstance(family, Gaussian) or not far:
        return model, params, x
    components = replace(params.components, means=params.components.means + far)
    return model, replace(params, components=components), x + far


# the kernel and the engine


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("law", backends.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize(("k", "d", "n"), [(1, 1, 1), (3, 2, 257), (2, 7, 150), (4, 17, 90)])
def test_engine(
    law: Callable[..., None], family: Family, k: int, d: int, n: int, device: str
) -> None:
    weight = rng().integers(0, 3, size=n).astype(np.float64)
    for far in (0.0, 1e4):
        model, params, x = example(family, k, d, n, far)
        backend = Gpu(model, device)
        for rows in (Rows(x), Rows(x, weight), Rows(x[::-1], weight)):
            law(backend, params, rows, 1e-12)
            law(backend, params, placed(rows.copy(), device), 1e-12)
        narrow = placed(Rows(x.astype(np.float32), weight), device)
        law(backend, params, narrow, 1e-6)


def test_families_without_a_kernel_are_refused(device: str) -> None:
    with pytest.raises(InvalidInputError, match=r"Gamma.*engine='cpu'"):
        mixture(device, family="gamma", learner="em").fit(1.0 + blobs() ** 2)


def test_factor_analysers_are_those_of_the_cpu(device: str) -> None:
    x = rng().normal(size=(400, 3)) @ rng().normal(size=(3, 6)) + rng().normal(size=(400, 6))
    family = Gaussian("factor", rank=2)
    there = mixture(device, n_components=2, family=family, learner="em", max_iter=5).fit(x)
    here = Mixture(n_components=2, family=family, learner="em", max_iter=5, random_state=0).fit(x)
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-9)
    np.testing.assert_allclose(there.score_samples(x), here.score_samples(x), rtol=1e-9)


def test_no_rows(device: str) -> None:
    for family in FAMILIES:
        model, params, x = example(family, 3, 2, 5)
        nothing = np.zeros(model.n_sums)
        for rows in (Rows(x[:0]), placed(Rows(x[:0]), device)):
            np.testing.assert_array_equal(Gpu(model, device).fold(params, rows, nothing), nothing)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_the_bits_of_a_tile_depend_on_its_rows_alone(
    family: Family, dtype: Any, device: str
) -> None:
    model, params, x = example(family, 3, 5, 400)
    kernel = GpuKernel(model, torch.device(device))
    rows = placed(Rows(x.astype(dtype), rng().uniform(size=400)), device)
    prepared = kernel.prepare(params)
    together = kernel.sums(prepared, rows.x, rows.weight, 64)
    assert together.shape == (7, model.n_sums)
    assert together.dtype == torch.float64
    for i in range(7):
        one = rows.cut(64 * i, 64 * (i + 1)).copy()
        assert torch.equal(kernel.sums(prepared, one.x, one.weight, 64)[0], together[i])


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_blocks_do_not_matter(learner: Learner, device: str) -> None:
    model, params, x = example(Gaussian(), 3, 2, 500)
    learner = learner.resolve(len(x), 2, False)
    cuts = [1, 63, 64, 65, 200, 449]
    backends.blocks_do_not_matter(
        Gpu(model, device), params, learner, placed(Rows(x), device), cuts
    )
    rows = Rows(x.astype(np.float32), rng().uniform(0.5, 2.0, size=len(x)))
    backends.blocks_do_not_matter(Gpu(model, device), params, learner, placed(rows, device), [130])


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learning_equals_that_of_threads(learner: Learner, device: str) -> None:
    for family in FAMILIES:
        model, params, x = example(family, 3, 2, 400)
        rule = learner.resolve(len(x), 2, False)
        backends.learning_agrees(Gpu(model, device), params, rule, placed(Rows(x), device), 1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("batch_size", [1, 7, 100])
def test_annealing_equals_that_of_threads(
    batch_size: int, precision: Any, weighted: bool, device: str
) -> None:
    model, params, x = example(Gaussian("diag"), 4, 3, 730)
    weight = rng().integers(0, 2, size=len(x)).astype(np.float64) if weighted else None
    if weight is not None:
        weight[200:400] = 0.0
    learner = AnnealedSGD(batch_size=batch_size, precision=precision, epsilon=0.04, delta=2.0)
    backend = Gpu(model, device)
    start = learner.init(backend, params).annealed
    rows = Rows(x, weight)
    found = backend.anneal(start, placed(rows, device), learner.options(4), batch_size)
    expected = required(backends.reference(backend), Annealer).anneal(
        start, rows, learner.options(4), batch_size
    )
    assert found[0].looks == expected[0].looks
    assert found[0].means.dtype == precision
    for name in ("logits", "means", "roots", "loss", "sigma", "epsilon", "wait", "before"):
        np.testing.assert_allclose(
            getattr(found[0], name), getattr(expected[0], name), rtol=1e-5, atol=1e-7
        )
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-6)


def test_tiles_are_bounded() -> None:
    assert device_tile(1) == device_tile(32) == 2**17
    for d in (33, 100, 1000, 10**5, 10**8):
        tile = device_tile(d)
        assert tile & (tile - 1) == 0
        assert tile == 1 or tile * d * 8 <= 2**28


def test_other_families_are_refused(device: str) -> None:
    other: Any = object()
    with pytest.raises(InvalidInputError, match="engine='cpu'"):
        GpuKernel(MixtureModel(other, 2, 2), torch.device(device))


# rows and sources


def test_rows_stay_on_the_device(device: str) -> None:
    x, weight = blobs(20).astype(np.float32), rng().uniform(size=20)
    rows = placed(Rows(x, weight), device)
    home = rows.on_host()
    assert equal(home, Rows(x, weight))
    together: Any = join([rows.cut(0, 7), rows.cut(7, 20)])
    for again in (rows.copy(), together, rows.where(rows.weight > -1)):
        assert again.x.device.type == device
        assert equal(again, home)
    mixed: Any = join([Rows(x[:7], weight[:7]), rows.cut(7, 20)])
    assert mixed.x.device.type == mixed.weight.device.type == device
    assert equal(mixed, home)
    half: Any = join([Rows(x[:7]), rows.cut(7, 20)])
    np.testing.assert_array_equal(half.weights(), [*np.ones(7), *weight[7:]])
    assert half.weight.device.type == device
    assert rows.total_weight() == pytest.approx(weight.sum())
    assert equal(at_home([rows]), [home])


@pytest.mark.parametrize("law", sources.LAWS[:2], ids=lambda law: law.__name__)
def test_source(law: Callable[..., None]) -> None:
    x = rng().normal(size=(333, 3))
    law(Tensor(torch.tensor(x)), x)


def test_a_source_gives_samples_here(device: str) -> None:
    x = blobs(50)
    source = Tensor(torch.tensor(x, device=device), torch.ones(50, device=device))
    for rows in (source.head(7), source.sample(9, rng()), source.sample(100, rng())):
        assert isinstance(rows.x, np.ndarray)
        assert isinstance(rows.weight, np.ndarray)
    taken: Any = source.take(np.array([3, 1, 3]))
    assert taken.x.device.type == device
    np.testing.assert_array_equal(taken.on_host().x, x[[3, 1, 3]])


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_rows_are_copied_by_several_threads(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_feeding, "PART_BYTES", 8)
    x = np.arange(6.0 * rows).reshape(rows, 6)[:, ::2]
    to = np.full_like(x, np.nan)
    _feeding.fill(to, x, 4)
    np.testing.assert_array_equal(to, x)
