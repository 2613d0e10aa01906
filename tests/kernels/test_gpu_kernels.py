"""Fused GPU kernels, through Triton's interpreter; with `pytest -m gpu` the same on a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mixfold import EM, AnnealedSGD, Gaussian, Mixture
from mixfold.backends import gpu
from mixfold.backends.gpu import Gpu
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import GaussianParams
from mixfold.kernels import (
    _iterations,
    _triton_diagonal,
    _triton_pairs,
    _triton_quadratic,
    _triton_responsibilities,
    _triton_small,
    _triton_spherical,
    reference,
)
from mixfold.kernels.gpu import GpuKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families

SMALL, QUADRATIC, PAIRS, DIAGONAL = (
    _triton_small.Small,
    _triton_quadratic.Quadratic,
    _triton_pairs.Pairs,
    _triton_diagonal.Diagonal,
)
CASES = [
    (SMALL, "full", 3, 2, 300),
    (SMALL, "full", 1, 1, 40),
    (SMALL, "diag", 3, 3, 130),
    (SMALL, "tied", 2, 3, 70),
    (SMALL, "spherical", 3, 2, 90),
    (PAIRS, "full", 4, 5, 80),
    (PAIRS, "full", 17, 5, 70),
    (PAIRS, "full", 2, 18, 40),
    (PAIRS, "tied", 5, 4, 70),
    (DIAGONAL, "diag", 5, 40, 140),
    (DIAGONAL, "spherical", 17, 9, 70),
    (QUADRATIC, "full", 4, 5, 80),
    (QUADRATIC, "tied", 18, 3, 150),
    (QUADRATIC, "full", 2, 9, 70),
    (PAIRS, "full", 70, 3, 150),
    (PAIRS, "tied", 130, 2, 40),
    (DIAGONAL, "diag", 90, 5, 150),
    (DIAGONAL, "spherical", 65, 3, 200),
]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several programs to a tile, several tiles."""
    for kind, rows in (
        (_triton_small, 32),
        (_triton_quadratic, 32),
        (_triton_pairs, 32),
        (_triton_diagonal, 64),
        (_triton_spherical, 64),
    ):
        monkeypatch.setattr(kind, "SPAN", rows)
        if hasattr(kind, "ROWS"):
            monkeypatch.setattr(kind, "ROWS", 32)
    monkeypatch.setattr(_triton_responsibilities, "ROWS", 32)
    for made in (SMALL, QUADRATIC, PAIRS, DIAGONAL):
        monkeypatch.setattr(made, "span", 64)
    monkeypatch.setattr(_triton_small, "LANES", 32)
    monkeypatch.setattr(gpu, "MOST_ROWS", 64)
    monkeypatch.setattr(_iterations, "MOST_PASSES", 3)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def example(
    covariance: str, k: int, d: int, n: int, far: float = 0.0
) -> tuple[MixtureModel, MixtureParams, Any]:
    model, params, x = families.example_mixture(Gaussian(covariance), k, d, n, rng())
    components = replace(params.components, means=params.components.means + far)
    return model, replace(params, components=components), (x + far).astype(np.float32)


def backend(model: MixtureModel, device: torch.device) -> Gpu:
    made = Gpu(model, device)
    made.on_device = GpuKernel(model, made.device, fused=True)
    return made


def near(found: Any, expected: Any, tolerance: float) -> None:
    """Statistics, relative to the largest of their kind."""
    (block,), (other,) = found.blocks, expected.blocks
    pairs = [(name, found, expected) for name in ("weight", "count", "log_likelihood")]
    pairs += [(name, block, other) for name in ("weight", "mean", "scatter")]
    for name, one, two in pairs:
        a, b = np.asarray(getattr(one, name)), np.asarray(getattr(two, name))
        assert np.abs(a - b).max() <= tolerance * np.abs(b).max(), name


@pytest.mark.parametrize(
    ("kind", "covariance", "k", "d", "n", "far"),
    [(*case, 0.0) for case in CASES] + [(*case, 300.0) for case in CASES[::4] + CASES[11:12]],
)
def test_statistics_are_those_of_the_cpu(
    kind: Any, covariance: str, k: int, d: int, n: int, far: float, device: torch.device
) -> None:
    model, params, x = example(covariance, k, d, n, far)
    assert kind.supports(model)
    kernel = backend(model, device)
    kernel.on_device._fused = kind(model)
    weight: Any = rng().integers(0, 3, size=n) + 0.5
    for w in (None, weight):
        given = None if w is None else torch.tensor(w, device=device)
        rows = Rows(torch.tensor(x, device=device), given)
        found, expected = (
            model.statistics(params, p.fold(params, r, np.zeros(model.n_sums)))
            for p, r in ((kernel, rows), (Threads(model), Rows(x.astype(np.float64), w)))
        )
        near(found, expected, 1e-6)


@pytest.mark.parametrize(("kind", "covariance", "k", "d", "n"), CASES[0::5] + CASES[8:9])
def test_the_bits_of_a_tile_depend_on_its_rows_alone(
    kind: Any, covariance: str, k: int, d: int, n: int, device: torch.device
) -> None:
    model, params, x = example(covariance, k, d, 100)
    kernel = GpuKernel(model, device, fused=True)
    prepared, rows = kernel.prepare(params), torch.tensor(x, device=device)
    together = kernel.sums(prepared, rows, None, 64)
    for i in range(2):
        alone = kernel.sums(prepared, rows[64 * i : 64 * (i + 1)].clone(), None, 64)
        assert torch.equal(alone[0], together[i])


@pytest.mark.parametrize(("covariance", "d"), [("full", 5), ("diag", 9)])
def test_rows_taken_in_stretches_give_the_same_bits(
    covariance: str, d: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, params, x = example(covariance, 2, d, 100)
    rows = Rows(torch.tensor(x, device=device), torch.ones(len(x), device=device))
    found = []
    for _ in range(2):
        kernel = backend(model, device)
        made = kernel.run_passes(params, rows)
        assert made is not None
        sums = kernel.fold(params, rows, np.zeros(model.n_sums))
        found.append((made.log_likelihood, made.after(3), sums))
        monkeypatch.setattr(_triton_diagonal, "SHARE_ELEMENTS", 1)
        monkeypatch.setattr(_triton_pairs, "PARTIAL_ELEMENTS", 1)
    assert len(found[0][0]) == 3
    assert equal(*found)


@pytest.mark.parametrize(
    ("covariance", "k", "d"),
    [
        ("full", 3, 2),
        ("full", 2, 5),
        ("full", 2, 12),
        ("diag", 4, 9),
        ("diag", 2, 40),
        ("spherical", 3, 20),
    ],
)
def test_passes_on_the_device_are_those_of_the_cpu(
    covariance: str, k: int, d: int, device: torch.device
) -> None:
    """Several runs of several passes, and one that goes back."""
    model, params, x = example(covariance, k, d, 100)
    kernel, home = backend(model, device), Threads(model)
    rows = Rows(
        torch.tensor(x, device=device), torch.tensor(rng().uniform(size=200), device=device)
    )
    wide = Rows(x.astype(np.float64), rng().uniform(size=200))
    expected, means = [params], []
    for _ in range(6):
        sums = home.fold(expected[-1], wide, np.zeros(model.n_sums))
        statistics = model.statistics(expected[-1], sums)
        means.append(statistics.log_likelihood / statistics.count)
        expected.append(model.maximize(statistics)[0])
    now, heard = params, list[float]()
    for _ in range(2):
        made = kernel.run_passes(now, rows)
        assert made is not None
        heard.extend(made.log_likelihood)
        now = made.after(3)
    np.testing.assert_allclose(heard, np.array(means), rtol=1e-6)
    np.testing.assert_allclose(now.components.means, expected[6].components.means, atol=1e-5)
    np.testing.assert_allclose(now.components.scale, expected[6].components.scale, atol=1e-5)
    np.testing.assert_allclose(now.weights, expected[6].weights, atol=1e-6)
    again = kernel.run_passes(params, rows)
    assert again is not None
    np.testing.assert_array_equal(again.log_likelihood, heard[:3])
    np.testing.assert_allclose(again.after(1).weights, expected[1].weights, atol=1e-6)


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_passes_of_many_components_are_those_of_the_cpu(
    covariance: str, device: torch.device
) -> None:
    """More than one program of Triton holds; all are near all rows."""
    k, d = 66, 2
    model, x = MixtureModel(Gaussian(covariance), k, d), rng().normal(size=(240, d))
    components = GaussianParams(rng().normal(size=(k, d)), unit_scale(covariance, k, d))
    start = MixtureParams(np.full(k, 1.0 / k), components)
    x = x.astype(np.float32)
    made = backend(model, device).run_passes(start, Rows(torch.tensor(x, device=device)))
    assert made is not None
    assert len(made.log_likelihood) == 3
    found, exact = made.after(3), home_after(model, start, x, 3)
    np.testing.assert_allclose(found.components.means, exact.components.means, atol=1e-5)
    np.testing.assert_allclose(found.components.scale, exact.components.scale, atol=1e-5)
    np.testing.assert_allclose(found.weights, exact.weights, atol=1e-6)


@pytest.mark.parametrize(("covariance", "k"), [("full", 2), ("diag", 9)])
def test_a_pass_that_must_mend_is_left_to_the_cpu(
    covariance: str, k: int, device: torch.device
) -> None:
    model, params, x = example(covariance, k, 2, 100)
    x[:, 1] = 1.0
    kernel = backend(model, device)
    made = kernel.run_passes(params, Rows(torch.tensor(x, device=device)))
    assert made is not None
    assert len(made.log_likelihood) == 0


@pytest.mark.parametrize("family", [Gaussian("tied"), Gaussian("diag", cap=3.0)])
def test_other_m_steps_are_made_at_home(family: Gaussian, device: torch.device) -> None:
    model = MixtureModel(family, 2, 2)
    rows = Rows(torch.zeros((5, 2), device=device))
    assert backend(model, device).run_passes(None, rows) is None


def test_a_fit_that_leaps(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    chosen = GpuKernel.__init__
    monkeypatch.setattr(
        GpuKernel, "__init__", lambda self, model, device: chosen(self, model, device, True)
    )
    run_passes = EM.run_passes

    def counted(*given: Any) -> Any:
        leapt = run_passes(*given)
        made.append(0 if leapt is None else len(leapt[1]))
        return leapt

    monkeypatch.setattr(EM, "run_passes", counted)
    _, _, x = example("full", 2, 2, 200)
    settings: dict[str, Any] = {"n_components": 2, "random_state": 0}
    learner = EM(tol=1e-4)
    there = Mixture(learner=learner, engine=f"torch:{device}", **settings).fit(x)
    here = Mixture(learner=learner, **settings).fit(x)
    assert sum(made) == len(there.history_) - 1 > 1
    assert there.converged_
    assert len(there.history_) == len(here.history_)
    assert there.n_seen_ == here.n_seen_ == 200 * len(here.history_)
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-4)
    np.testing.assert_allclose(
        there.history_.log_likelihood, here.history_.log_likelihood, rtol=1e-6
    )
    few = Mixture(learner=learner, max_iter=3, engine=f"torch:{device}", **settings).fit(x)
    assert len(few.history_) == 3
    assert equal(few.history_.log_likelihood, there.history_.log_likelihood[:3])


@pytest.mark.parametrize("weighted", [False, True])
def test_annealing_in_batches_is_that_of_the_cpu(weighted: bool, device: torch.device) -> None:
    """Over looks at the loss, recorded batches, single ones, and one that is not full."""
    k, d, n = 9, 150, 250
    model = MixtureModel(Gaussian("diag"), k, d)
    learner = AnnealedSGD(batch_size=15, epsilon=0.02)
    x = rng().uniform(size=(n, d)).astype(np.float32)
    components = GaussianParams(rng().uniform(-0.1, 0.1, size=(k, d)), np.full((k, d), 0.3))
    params = MixtureParams(np.full(k, 1.0 / k), components)
    start = replace(learner.init(Threads(model), params).annealed, wait=12)
    weight: Any = rng().integers(1, 3, size=n).astype(np.float64) if weighted else None
    given: Any = None if weight is None else torch.tensor(weight, device=device)
    kernel = backend(model, device)
    rule, rows = learner.options(k), Rows(x, weight)
    found, *shown = kernel.anneal(start, Rows(torch.tensor(x, device=device), given), rule, 15)
    assert kernel.on_device._kept is not None
    expected, *heard = reference.anneal(start, rows, rule, 15)
    np.testing.assert_allclose(found.means, expected.means, atol=1e-6)
    np.testing.assert_allclose(found.roots, expected.roots, atol=5e-6)
    np.testing.assert_allclose(found.logits, expected.logits, atol=1e-6)
    np.testing.assert_allclose(shown, heard, rtol=1e-6)
    assert (found.wait, found.looks, found.sigma) == (expected.wait, expected.looks, expected.sigma)


def test_batches_that_weigh_nothing_are_passed_over(device: torch.device) -> None:
    model, params, x = example("diag", 4, 9, 60)
    learner = AnnealedSGD(batch_size=20)
    start = learner.init(Threads(model), params).annealed
    weight = np.repeat([1.0, 0.0, 1.0], 20)
    given: Any = Rows(torch.tensor(x, device=device), torch.tensor(weight, device=device))
    found = backend(model, device).anneal(start, given, learner.options(4), 20)[0]
    expected = reference.anneal(start, Rows(x, weight), learner.options(4), 20)[0]
    np.testing.assert_allclose(found.means, expected.means, atol=1e-6)
    assert found.wait == expected.wait


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, in which the interpreter works
@pytest.mark.parametrize(("kind", "covariance", "k", "d", "n"), [CASES[0], CASES[5], CASES[9]])
def test_a_row_beyond_float32_spoils_nothing(
    kind: Any, covariance: str, k: int, d: int, n: int, device: torch.device
) -> None:
    model, params, x = example(covariance, k, d, n)
    x[1, 0] = 1e21
    kernel = backend(model, device)
    sums = kernel.fold(params, Rows(torch.tensor(x, device=device)), np.zeros(model.n_sums))
    assert np.isfinite(sums[0])
    weights = sums[1:].reshape(k, -1)[:, 0]
    assert weights.sum() == pytest.approx(n)


@pytest.mark.parametrize(("covariance", "d"), [("full", 12), ("diag", 4), ("spherical", 4)])
def test_passes_that_need_more_digits_get_them(
    covariance: str, d: int, device: torch.device
) -> None:
    """Components part while many passes are made at once: those of few digits end there."""
    model, _, x = example(covariance, 2, d, 100)
    x = (rng().normal(size=(100, d)) + np.repeat([0.0, 40.0], 50)[:, None]).astype(np.float32)
    rows = Rows(torch.tensor(x, device=device))
    components = GaussianParams(
        np.repeat([[0.0], [40.0]], d, axis=1), 10.0 * unit_scale(covariance, 2, d)
    )
    start = MixtureParams(np.full(2, 0.5), components)
    kernel = backend(model, device)
    made = kernel.run_passes(start, rows)
    assert made is not None
    assert len(made.log_likelihood) == 1
    after = home_after(model, start, x, 1)
    again = kernel.run_passes(after, rows)
    assert again is not None
    assert len(again.log_likelihood) == 3
    found, exact = again.after(3), home_after(model, after, x, 3)
    np.testing.assert_allclose(found.components.scale, exact.components.scale, rtol=1e-6)


def unit_scale(covariance: str, k: int, d: int) -> np.ndarray:
    """Scales of components with unit covariances."""
    if covariance == "full":
        return np.tile(np.eye(d), (k, 1, 1))
    return np.ones((k, d if covariance == "diag" else 1))


def home_after(model: MixtureModel, params: MixtureParams, x: Any, passes: int) -> MixtureParams:
    """Parameters after passes on the CPU."""
    for _ in range(passes):
        sums = Threads(model).fold(params, Rows(x.astype(np.float64)), np.zeros(model.n_sums))
        params = model.maximize(model.statistics(params, sums))[0]
    return params


def test_passes_that_come_to_nothing_are_given_up(device: torch.device) -> None:
    model, params, x = example("full", 2, 2, 100)
    x[:, 1] = 1.0
    kernel, rows = backend(model, device), Rows(torch.tensor(x, device=device))
    made = [kernel.run_passes(params, rows) for _ in range(gpu.MOST_FAILURES + 1)]
    assert made[-1] is None
    assert all(m is not None for m in made[:-1])
