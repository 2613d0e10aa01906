"""Too little memory, no torch, no GPU and bad input on the GPU engine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from gpu_rows import blobs, mixture, rng
from mixfold import Gaussian, Mixture
from mixfold.backends import gpu
from mixfold.backends.gpu import Gpu
from mixfold.core.errors import InvalidInputError, MissingExtraError
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.kernels.gpu import GpuKernel
from mixfold.models.mixture_model import MixtureModel

# memory


def short_of_memory(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError("too little")


def test_what_cannot_be_kept_on_the_device_is_sent(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = mixture(device, learner="em").fit(blobs())
    monkeypatch.setattr(gpu, "resident", short_of_memory)
    with pytest.warns(RuntimeWarning, match="too little memory.*pieces"):
        found = mixture(device, learner="em").fit(blobs())
    assert equal(found.params_, expected.params_)
    mixture(device, learner="em").fit(blobs())  # said once


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("failures", [1, 2])
def test_a_kernel_that_needs_too_much_gets_less(
    failures: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Smaller pieces first, then rows that are sent."""
    expected = mixture(device, learner="em").fit(blobs())
    sums, left = GpuKernel.sums, [failures]

    def scarce(*arguments: Any) -> Any:
        left[0] -= 1
        return sums(*arguments) if left[0] < 0 else short_of_memory()

    monkeypatch.setattr(GpuKernel, "sums", scarce)
    with pytest.warns(RuntimeWarning, match="too little memory"):
        found = mixture(device, learner="em").fit(blobs())
    assert equal(found.params_, expected.params_)


@pytest.mark.usefixtures("small_tiles")
def test_rows_that_are_too_many_at_once_go_tile_by_tile(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    params, x = mixture(device, learner="em").fit(blobs()).params_, blobs()
    backend = Gpu(MixtureModel(Gaussian(), 3, 2), device)
    sums, tile = GpuKernel.sums, backend.tile
    expected = backend.fold(params, Rows(x), np.zeros(backend.model.n_sums))

    def scarce(kernel: Any, prepared: Any, some: Any, *others: Any) -> Any:
        return sums(kernel, prepared, some, *others) if len(some) <= tile else short_of_memory()

    monkeypatch.setattr(GpuKernel, "sums", scarce)
    with pytest.warns(RuntimeWarning, match="too little memory"):
        found = backend.fold(params, Rows(x), np.zeros(backend.model.n_sums))
    assert equal(found, expected)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples", "bic"])
def test_predictions_of_rows_that_are_too_many_at_once(
    method: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = mixture(device, learner="em").fit(blobs())
    rows = torch.tensor(blobs(), device=device)
    expected = getattr(model, method)(rows)
    posterior, tile = GpuKernel.posterior, Gpu(MixtureModel(Gaussian(), 3, 2), device).tile

    def scarce(kernel: Any, prepared: Any, some: Any, *others: Any) -> Any:
        if len(some) > tile:
            return short_of_memory()
        return posterior(kernel, prepared, some, *others)

    monkeypatch.setattr(GpuKernel, "posterior", scarce)
    with pytest.warns(RuntimeWarning, match="too little memory") as said_once:
        found = getattr(model, method)(rows)
    assert len(said_once) == 1
    torch.testing.assert_close(found, expected)
    getattr(model, method)(rows)


# bad input


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    model = Mixture(engine="gpu")
    with pytest.raises(MissingExtraError) as caught:
        model.fit(blobs())
    assert "mixfold[gpu]" in str(caught.value)
    assert "engine='cpu'" in str(caught.value)
    assert not hasattr(model, "means_")
    assert Mixture(engine="cpu").fit(blobs()).converged_


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for engine in ("gpu", "cuda:1", "torch:cuda"):
        with pytest.raises(InvalidInputError, match=f"'{engine}'.*no GPU.*engine='cpu'"):
            Mixture(engine=engine).fit(blobs())


@pytest.mark.parametrize("engine", ["abacus", 3, "torch:", "meta"])
def test_engines_that_are_none(engine: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"engine is.*'gpu'"):
        Mixture(engine=engine).fit(blobs())


def test_a_cluster_has_no_device_of_this_process() -> None:
    with pytest.raises(InvalidInputError, match="cluster"):
        mixture("cpu", cluster="serial").fit(blobs())


def said(estimator: Any, method: str, *data: Any, **more: Any) -> str:
    with pytest.raises(ValueError) as caught:
        getattr(estimator, method)(*data, **more)
    return str(caught.value)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "score"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(method: str, value: float, device: str) -> None:
    x = blobs()
    x[70, 1] = value
    model = mixture(device, missing="error").fit(blobs())
    learned = model._learned
    found = said(model, method, torch.tensor(x, device=device))
    assert model._learned is learned
    here = mixture(device, engine=None, missing="error").fit(blobs())
    assert found == said(here, method, x)


@pytest.mark.parametrize(("family", "value"), [("poisson", 2.5), ("exponential", -1.0)])
def test_values_outside_the_support(family: str, value: float, device: str) -> None:
    x = rng().poisson(3.0, size=(300, 2)).astype(np.float64)
    x[150, 1] = value
    for method in ("fit", "partial_fit"):
        found = said(mixture(device, family=family), method, torch.tensor(x, device=device))
        assert found == said(mixture(device, engine=None, family=family), method, x)
        assert "row 151, column 2" in found


@pytest.mark.parametrize(
    "shape", [(5,), (0, 2), (5, 0), (2, 2, 2)], ids=["1-d", "no rows", "no columns", "3-d"]
)
def test_shapes(shape: tuple[int, ...], device: str) -> None:
    found = said(mixture(device), "fit", torch.zeros(shape, device=device))
    expected = said(mixture(device, engine=None), "fit", np.zeros(shape, dtype=np.float32))
    assert found.splitlines()[0] == expected.splitlines()[0]


def test_other_things_that_do_not_fit(device: str) -> None:
    x = torch.tensor(blobs(), device=device)
    model, here = mixture(device).fit(x), mixture(device, engine=None).fit(blobs())
    assert said(model, "predict", x[:, :1]) == said(here, "predict", blobs()[:, :1])
    assert "Complex data not supported" in said(model, "fit", x * 1j)
    for weight in (-np.ones(1500), np.full(1500, np.nan), np.ones(3), np.zeros(1500)):
        tensor = torch.tensor(weight, device=device)
        found = said(model, "fit", x, sample_weight=tensor)
        assert found == said(here, "fit", blobs(), sample_weight=weight)
    for settings in ({"columns": ["a"]}, {}):
        more = {} if settings else {"sample_weight": "w"}
        assert "column names" in said(mixture(device, **settings), "fit", x, **more)


def test_torch_is_imported_only_where_it_is_needed() -> None:
    program = (
        "import sys, mixfold; mixfold.Mixture().fit(mixfold.datasets.load_faithful());"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
