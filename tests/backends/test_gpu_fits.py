"""Fits on the GPU engine, through torch on the CPU; with `pytest -m gpu` the same on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import mixfold
from gpu_rows import blobs, mixture, rng
from mixfold import (
    AnnealedSGD,
    BayesianGaussianMixture,
    Gaussian,
    GaussianMixture,
    MiniBatchEM,
    Mixture,
    OnlineEM,
)
from mixfold.backends import gpu
from mixfold.cli.main import main
from mixfold.core.value import equal
from mixfold.fitting.fit import Fit
from mixfold.learners.em import EM

# estimators


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fits_equal_those_of_the_cpu(covariance: str, dtype: Any, device: str) -> None:
    x, weight = blobs().astype(dtype), rng().uniform(0.5, 2.0, size=1500)
    settings = {"family": Gaussian(covariance), "learner": EM(tol=0.0, max_iter=6)}
    for given in (None, weight):
        here = mixture(device, engine=None, **settings).fit(x, sample_weight=given)
        array = mixture(device, **settings).fit(x, sample_weight=given)
        there = mixture(device, **settings)
        there.fit(torch.tensor(x, device=device), sample_weight=given)
        assert equal(array.params_, there.params_)
        precision = 1e-9 if dtype is np.float64 else 1e-4
        np.testing.assert_allclose(there.means_, here.means_, rtol=precision, atol=precision)
        np.testing.assert_allclose(there.covariances_, here.covariances_, precision, precision)
        assert there.n_seen_ == here.n_seen_


@pytest.mark.parametrize(
    "learner",
    [
        "auto",
        "mini-batch-em",
        OnlineEM(batch_size=256),
        AnnealedSGD(batch_size=100),
        AnnealedSGD(batch_size=100, scale=True),
        "online-em",
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:n_components=. is laid out")
def test_learners_equal_those_of_the_cpu(learner: Any, device: str) -> None:
    x = blobs() / 10.0
    settings = {"family": Gaussian("diag"), "learner": learner, "max_iter": 2}
    here = mixture(device, engine="cpu", **settings).fit(x)
    there = mixture(device, **settings).fit(torch.tensor(x, device=device))
    # which of two starts that differ by the order of components is the better is up to rounding
    found, expected = (m.means_[np.argsort(m.means_ @ [1.0, 2.0])] for m in (there, here))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(there.score(x), here.score(x), rtol=1e-6)
    assert len(there.history_) == len(here.history_)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("learner", ["em", "mini-batch-em", OnlineEM(batch_size=50)], ids=repr)
def test_rows_that_are_sent_in_pieces_give_the_same_bits(
    learner: Any, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, weight = blobs(), rng().uniform(size=1500)
    kept = mixture(device, learner=learner).fit(x, sample_weight=weight)
    monkeypatch.setattr(gpu, "free_memory", lambda device: 0)
    sent = mixture(device, learner=learner).fit(x, sample_weight=weight)
    assert equal(kept.params_, sent.params_)


def test_files_are_sent_in_pieces(device: str, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "x.csv", blobs(), delimiter=",", header="a,b", comments="")
    there = mixture(device, learner="em").fit(tmp_path / "x.csv")
    here = mixture(device, learner="em", engine="cpu").fit(tmp_path / "x.csv")
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-9, atol=1e-9)
    assert there.score(tmp_path / "x.csv") == pytest.approx(here.score(tmp_path / "x.csv"))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tensors_in_tensors_out(dtype: Any, device: str) -> None:
    x = blobs()
    rows = torch.tensor(x, dtype=dtype, device=device)
    model = mixture(device, learner="em").fit(rows)
    here = mixture(device, engine=None, init=model, max_iter=1).fit(x)
    here._remember(model._learned)
    for name in ("predict", "predict_proba", "score_samples"):
        found = getattr(model, name)(rows)
        assert isinstance(found, torch.Tensor)
        assert found.device.type == device
        assert isinstance(getattr(model, name)(x), np.ndarray)
        expected = getattr(here, name)(x)
        assert isinstance(expected, np.ndarray)
        np.testing.assert_allclose(found.cpu(), expected, rtol=1e-4, atol=1e-4)
    for name in ("score", "bic", "aic", "icl"):
        assert getattr(model, name)(rows) == pytest.approx(getattr(here, name)(x), rel=1e-5)
    assert isinstance(model.fit_predict(rows), torch.Tensor)


def test_tensors_of_the_cpu_are_computed_as_arrays_unless_an_engine_is_named() -> None:
    x = torch.tensor(blobs(), requires_grad=True)
    for estimator in (Mixture("gaussian", 3, random_state=0), GaussianMixture(3, random_state=0)):
        found = estimator.fit(x, sample_weight=torch.ones(len(x)))
        for name in ("predict", "predict_proba", "score_samples"):
            result = getattr(found, name)(x)
            assert isinstance(result, torch.Tensor)
            np.testing.assert_array_equal(result, getattr(found, name)(blobs()))
        expected = clone(found).fit(blobs(), sample_weight=np.ones(len(x)))
        assert equal(found.params_, expected.params_)
    half = Mixture("gaussian", 2, random_state=0).fit(torch.tensor(blobs()).bfloat16())
    assert half.means_.shape == (2, 2)


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("estimator", [GaussianMixture, BayesianGaussianMixture])
def test_the_estimators_of_scikit_learn(estimator: Any, covariance: str, device: str) -> None:
    settings = {"n_components": 3, "covariance_type": covariance, "random_state": 0, "tol": 1e-6}
    settings["max_iter"] = 500
    engine = device if device == "cuda" else "torch:cpu"
    here = estimator(**settings).fit(blobs())
    there = estimator(**settings, engine=engine).fit(blobs())
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-9, atol=1e-9)
    assert there.n_iter_ == here.n_iter_
    rows = torch.tensor(blobs(), device=device)
    # the start is drawn from a sample, so that components may have another order
    model = estimator(**settings, engine=engine).fit(rows)
    found, expected = (m.means_[np.argsort(m.means_ @ [1.0, 2.0])] for m in (model, here))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    for name in ("predict", "predict_proba", "score_samples"):
        result = getattr(there, name)(rows)
        assert result.device.type == device
        np.testing.assert_allclose(result.cpu(), getattr(here, name)(blobs()), atol=1e-7)
    assert there.score(rows) == pytest.approx(here.score(blobs()))
    assert clone(there).engine == engine


def test_blocks_may_be_tensors(device: str) -> None:
    x = torch.tensor(blobs(), device=device)
    for blocks in ([x[:500], x[500:]], iter([x[:500], x[500:]])):
        found = Mixture("gaussian", 3, learner="em", random_state=0, max_iter=1).fit(blocks)
        assert found.n_seen_ == len(x)


def test_the_drop_in_takes_device_tensors(device: str) -> None:
    x = torch.tensor(blobs(), device=device)
    drop_in = GaussianMixture(3, random_state=0)
    drop_in.engine = f"torch:{device}"
    drop_in.fit(x)
    expected = GaussianMixture(3, random_state=0, tol=1e-3).fit(blobs())
    assert drop_in.score(x) == pytest.approx(expected.score(blobs()), abs=1e-3)
    assert isinstance(drop_in.predict(x), torch.Tensor)


def test_what_is_no_float_becomes_one(device: str) -> None:
    counts = rng().poisson(4.0, size=(300, 2))
    for dtype in (torch.int32, torch.uint8, torch.float16):
        rows = torch.tensor(counts, dtype=dtype, device=device)
        found = mixture(device, family="poisson", n_components=1).fit(rows)
        np.testing.assert_allclose(found.means_[0], counts.mean(axis=0))


@pytest.mark.parametrize(
    "learner", [OnlineEM(batch_size=64, warmup=0), "online-em", "em"], ids=repr
)
def test_streams_go_on(learner: Any, device: str, tmp_path: Path) -> None:
    x = torch.tensor(blobs(), device=device)
    whole = mixture(device, learner=learner).partial_fit(x)
    parts = mixture(device, learner=learner).partial_fit(x[:50]).partial_fit(x[50:700])
    parts.save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m")
    assert again.engine is None
    again.set_params(engine=f"torch:{device}").partial_fit(x[700:])
    assert equal(again._now().stream.state, whole._now().stream.state)
    assert equal(again.params_, whole.params_)
    again.learn_one(blobs()[0])
    assert again.n_seen_ == len(x) + 1
    here = mixture(device, engine=None, learner=learner).partial_fit(blobs())
    np.testing.assert_allclose(here.means_, whole.means_, rtol=1e-6, atol=1e-6)


class Impatient:
    """Presses Ctrl-C when enough rows have been seen."""

    def update(self, fit: Fit, length: int | None) -> None:
        if fit.rows_seen > 1700:
            raise KeyboardInterrupt

    def close(self) -> None:
        return None


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("learner", ["em", MiniBatchEM(batch_size=50)], ids=repr)
@pytest.mark.parametrize("fits", [True, False])
def test_a_checkpoint_resumes(
    learner: Any, fits: bool, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fits:
        monkeypatch.setattr(gpu, "free_memory", lambda device: 0)
    settings = {"learner": learner, "max_iter": 4, "checkpoint": tmp_path / "kept"}
    stopped = mixture(device, **settings)
    stopped.progress = Impatient()
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(blobs())
    stopped.save(tmp_path / "m")
    resumed = mixture(device, resume=True, **settings).fit(blobs())
    straight = mixture(device, learner=learner, max_iter=4).fit(blobs())
    assert equal(resumed.params_, straight.params_)
    assert resumed.n_seen_ == straight.n_seen_


def test_command_line(device: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", blobs())
    out = str(tmp_path / "m.mixfold")
    arguments = ["fit", str(tmp_path / "x.npy"), "-k", "3", "-o", out]
    assert main([*arguments, "--engine", f"torch:{device}"]) == 0
    assert mixfold.load(out).engine is None
    assert main([*arguments, "--engine", "abacus"]) != 0
