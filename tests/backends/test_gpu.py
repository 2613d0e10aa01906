"""The GPU engine, through torch on the CPU; with `pytest -m gpu` the same on a GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import mixfold
from mixfold import AnnealedSGD, Gaussian, GaussianMixture, MiniBatchEM, Mixture, OnlineEM
from mixfold.backends import _feeding, gpu
from mixfold.backends.gpu import Gpu, device_tile
from mixfold.cli.main import main
from mixfold.core.backend_capabilities import Annealer, required
from mixfold.core.capabilities import LatentFactors
from mixfold.core.errors import InvalidInputError, MissingExtraError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows, join
from mixfold.core.value import at_home, equal
from mixfold.fitting.fit import Fit
from mixfold.kernels import _products
from mixfold.kernels.gpu import GpuKernel
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.sources.tensor import Tensor
from mixfold.testing import backends, families, sources

FAMILIES: list[Family] = [
    variant
    for name in ("gaussian", "poisson", "exponential")
    for variant in find_all("families")[name].variants()
    if not isinstance(variant, LatentFactors)
]
LEARNERS: list[Learner] = [
    EM(),
    EM(accelerate=True),
    MiniBatchEM(batch_size=70, average_from=3),
    OnlineEM(batch_size=256, warmup=0),
    OnlineEM(warmup=0),
    *(find_all("learners")[name]() for name in ("k-mle", "sem", "incremental-em")),
]
CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    gpu.say_short_of_memory.cache_clear()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    return str(request.param)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks a tile, several tiles a piece, several pieces a block, several blocks."""
    monkeypatch.setattr(_products, "CHUNK_ELEMENTS", 160)
    monkeypatch.setattr(gpu, "MOST_ROWS", 64)
    monkeypatch.setattr(gpu, "PIECE_ELEMENTS", 300)
    monkeypatch.setattr(gpu, "BLOCK_ELEMENTS", 600)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def blobs(n: int = 1500) -> np.ndarray:
    return np.asarray(rng().normal(size=(n, 2)) + CENTRES[rng().integers(3, size=n)])


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


def mixture(device: str, **settings: Any) -> Mixture:
    given = {"n_components": 3, "random_state": 0, "engine": f"torch:{device}", **settings}
    return Mixture(**given)


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
    for learner in ("em", AnnealedSGD(batch_size=10)):
        with pytest.raises(InvalidInputError, match="engine='cpu'"):
            mixture(device, family=Gaussian("factor", rank=1), learner=learner).fit(blobs())


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
    rule = AnnealedSGD(batch_size=batch_size, precision=precision, epsilon=0.04, delta=2.0)
    backend = Gpu(model, device)
    start = rule.init(backend, params).annealed
    rows = Rows(x, weight)
    found = backend.anneal(start, placed(rows, device), rule.rule(4), batch_size)
    expected = required(backends.reference(backend), Annealer).anneal(
        start, rows, rule.rule(4), batch_size
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


def test_tensors_of_the_cpu_are_arrays_unless_an_engine_is_named() -> None:
    x = torch.tensor(blobs(), requires_grad=True)
    for estimator in (Mixture("gaussian", 3, random_state=0), GaussianMixture(3, random_state=0)):
        found = estimator.fit(x, sample_weight=torch.ones(len(x)))
        assert isinstance(found.predict(x), np.ndarray)
        expected = clone(found).fit(blobs(), sample_weight=np.ones(len(x)))
        assert equal(found.params_, expected.params_)
    half = Mixture("gaussian", 2, random_state=0).fit(torch.tensor(blobs()).bfloat16())
    assert half.means_.shape == (2, 2)


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
    model = mixture(device).fit(blobs())
    learned = model._learned
    found = said(model, method, torch.tensor(x, device=device))
    assert model._learned is learned
    assert found == said(mixture(device, engine=None).fit(blobs()), method, x)


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


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_rows_are_copied_by_several_threads(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_feeding, "PART_BYTES", 8)
    x = np.arange(6.0 * rows).reshape(rows, 6)[:, ::2]
    to = np.full_like(x, np.nan)
    _feeding.fill(to, x, 4)
    np.testing.assert_array_equal(to, x)
