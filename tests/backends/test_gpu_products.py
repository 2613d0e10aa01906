"""Products and missing cells on the GPU engine; with `pytest -m gpu` the same on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from gpu_products import COMPLETE, WITH_HOLES, example, on_device
from gpu_rows import mixture, rng
from mixfold import EM, Gaussian, MiniBatchEM, OnlineEM, Poisson, Product
from mixfold.backends import gpu
from mixfold.backends.gpu import Gpu
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical, ProbabilityParams
from mixfold.families.gaussian import GaussianParams
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.log_normal import LogNormal
from mixfold.families.mean_params import MeanParams
from mixfold.families.product import ProductParams
from mixfold.kernels.gpu import GpuKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import backends

LEARNERS: list[Learner] = [
    EM(),
    EM(accelerate=True),
    MiniBatchEM(batch_size=70),
    OnlineEM(batch_size=64, warmup=0),
    *(find_all("learners")[name]() for name in ("k-mle", "sem", "incremental-em")),
]


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("law", backends.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("family", COMPLETE + WITH_HOLES, ids=repr)
@pytest.mark.parametrize(("k", "n"), [(1, 1), (3, 257)])
def test_expectations_are_those_of_the_reference(
    law: Callable[..., None], family: Family, k: int, n: int, device: str
) -> None:
    model, params, x = example(family, k, n)
    backend, weight = Gpu(model, device), rng().integers(0, 3, size=n).astype(np.float64)
    for rows in (Rows(x), Rows(x, weight)):
        law(backend, params, rows, 1e-12)
        law(backend, params, on_device(rows, device), 1e-12)
    narrow = Rows(x.astype(np.float32), weight)
    law(backend, params, on_device(narrow, device), 1e-6)


@pytest.mark.parametrize("family", [COMPLETE[0], WITH_HOLES[0]], ids=["complete", "holes"])
def test_chunks_of_many_rows(family: Family, device: str) -> None:
    """More rows than one product of matrices takes, and a last one that is not full."""
    model, params, x = example(family, 3, 2500)
    backends.expectations_agree(Gpu(model, device), params, on_device(Rows(x), device), 1e-12)


def test_sums_are_those_of_scipy(device: str) -> None:
    """Columns out of order, and a missing cell in each."""
    family = with_missing(Product({1: Poisson(), 0: Gaussian(), 2: Categorical(3)}))
    x = np.array([[0.5, 3.0, 2.0], [np.nan, 1.0, 0.0], [-1.0, np.nan, 1.0], [0.1, 7.0, np.nan]])
    weights, means, scales = np.array([0.3, 0.7]), np.array([0.0, 1.0]), np.array([1.0, 2.0])
    rates, p = np.array([2.0, 5.0]), np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    parts = (
        MeanParams(rates[:, None]),
        GaussianParams(means[:, None], scales[:, None]),
        ProbabilityParams(p[:, None]),
    )
    params = MixtureParams(weights, ProductParams(parts))
    terms = [
        stats.norm.logpdf(x[:, [0]], means, scales),
        stats.poisson.logpmf(x[:, [1]], rates),
        np.log(p.T[np.nan_to_num(x[:, 2]).astype(int)]),
    ]
    joint = np.log(weights) + sum(
        np.where(np.isnan(x[:, [j]]), 0.0, term) for j, term in enumerate(terms)
    )
    total = np.logaddexp.reduce(joint, axis=1)
    r = np.exp(joint - total[:, None])
    model = MixtureModel(family, 2, 3)
    found = model.statistics(
        params, Gpu(model, device).fold(params, on_device(Rows(x), device), np.zeros(model.n_sums))
    )
    assert found.log_likelihood == pytest.approx(total.sum(), rel=1e-13)
    np.testing.assert_allclose(found.weight, r.sum(axis=0), rtol=1e-13)
    counts, numbers, levels = found.blocks
    for block, column in ((counts, 1), (numbers, 0)):
        there = ~np.isnan(x[:, column])
        mean = r[there].T @ x[there, column] / r[there].sum(axis=0)
        np.testing.assert_allclose(block.weight[:, 0], r[there].sum(axis=0), rtol=1e-13)
        np.testing.assert_allclose(block.mean[:, 0], mean, rtol=1e-13)
    there = ~np.isnan(x[:, 0])
    away = np.square(x[there, 0, None] - numbers.mean[:, 0])
    scatter = (r[there] * away).sum(axis=0) / r[there].sum(axis=0)
    np.testing.assert_allclose(numbers.scatter[:, 0], scatter, rtol=1e-13)
    known = r[:3].T @ (x[:3, [2]] == np.arange(3)) / r[:3].sum(axis=0)[:, None]
    np.testing.assert_allclose(levels.mean, known, rtol=1e-13)


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("family", [*COMPLETE, WITH_HOLES[0]], ids=repr)
def test_the_bits_of_a_tile_depend_on_its_rows_alone(family: Family, device: str) -> None:
    model, params, x = example(family, 3, 400)
    kernel = GpuKernel(model, torch.device(device))
    rows = on_device(Rows(x.astype(np.float32), rng().uniform(size=400)), device)
    prepared = kernel.prepare(params)
    together = kernel.sums(prepared, rows.x, rows.weight, 64)
    assert together.shape == (7, model.n_sums)
    for i in range(7):
        one = rows.cut(64 * i, 64 * (i + 1)).copy()
        assert torch.equal(kernel.sums(prepared, one.x, one.weight, 64)[0], together[i])


@pytest.mark.usefixtures("small_tiles")
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learning_does_not_depend_on_blocks(learner: Learner, device: str) -> None:
    model, params, x = example(WITH_HOLES[0], 2, 300)
    rule = learner.resolve(len(x), model.d, False)
    backend, cuts = Gpu(model, device), [1, 63, 64, 65, 200]
    backends.blocks_do_not_matter(backend, params, rule, on_device(Rows(x), device), cuts)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("family", [COMPLETE[0], WITH_HOLES[0]], ids=["complete", "holes"])
def test_learning_equals_that_of_threads(family: Family, learner: Learner, device: str) -> None:
    model, params, x = example(family, 3, 400)
    rule = learner.resolve(len(x), model.d, False)
    backends.learning_agrees(Gpu(model, device), params, rule, on_device(Rows(x), device), 1e-6)


# estimators


def table(n: int = 600, holes: float = 0.0) -> pd.DataFrame:
    z, draw = rng().integers(2, size=n), np.random.default_rng(1)
    found = pd.DataFrame(
        {
            "age": draw.normal(np.where(z, 68.0, 35.0), 7.0),
            "visits": draw.poisson(np.where(z, 8, 2)).astype(float),
            "region": draw.choice(["north", "south", "west"], n),
            "smoker": draw.random(n) < np.where(z, 0.7, 0.2),
        }
    )
    return found.mask(draw.random(found.shape) < holes) if holes else found


def matrix(n: int = 600, holes: float = 0.0) -> np.ndarray:
    codes = table(n, holes)
    codes["region"] = codes["region"].map({"north": 0, "south": 1, "west": 2})
    return np.asarray(codes.astype(np.float64))


def same_parameters(found: Any, expected: Any, tolerance: float) -> None:
    assert found.parameters_.keys() == expected.parameters_.keys()
    np.testing.assert_allclose(found.weights_, expected.weights_, rtol=tolerance)
    for column, known in expected.parameters_.items():
        for name, values in known.items():
            np.testing.assert_allclose(found.parameters_[column][name], values, rtol=tolerance)


OF_COLUMNS: Any = Product({0: Gaussian(), 1: Poisson(), 2: Categorical(3), 3: Bernoulli()})


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("learner", ["auto", "em", "mini-batch-em"])
def test_fits_equal_those_of_the_cpu(learner: str, holes: float, device: str) -> None:
    x, weight = matrix(holes=holes), rng().uniform(0.5, 2.0, size=600)
    settings: dict[str, Any] = {"family": OF_COLUMNS, "n_components": 2, "learner": learner}
    here = mixture(device, engine="cpu", **settings).fit(x, sample_weight=weight)
    array = mixture(device, **settings).fit(x, sample_weight=weight)
    there = mixture(device, **settings).fit(torch.tensor(x, device=device), sample_weight=weight)
    assert equal(array.params_, there.params_)
    same_parameters(there, here, 1e-6)
    assert there.score(torch.tensor(x, device=device)) == pytest.approx(here.score(x), rel=1e-9)
    found = there.predict(torch.tensor(x, device=device))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.cpu(), here.predict(x))


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_tables_with_chosen_families(holes: float, device: str) -> None:
    settings: dict[str, Any] = {"family": "auto", "n_components": 2}
    there = mixture(device, **settings).fit(table(holes=holes))
    here = mixture(device, engine="cpu", **settings).fit(table(holes=holes))
    assert [type(one.family) for one in there.chosen_families_] == [
        Gaussian,
        Poisson,
        Categorical,
        Bernoulli,
    ]
    same_parameters(there, here, 1e-6)
    assert there.bic(table(holes=holes)) == pytest.approx(here.bic(table(holes=holes)), rel=1e-9)


def test_files_with_missing_cells(device: str, tmp_path: Path) -> None:
    table(holes=0.2).to_csv(tmp_path / "x.csv", index=False)
    settings: dict[str, Any] = {"family": "auto", "n_components": 2, "learner": "em"}
    there = mixture(device, **settings).fit(tmp_path / "x.csv")
    here = mixture(device, engine="cpu", **settings).fit(tmp_path / "x.csv")
    same_parameters(there, here, 1e-6)


def test_missing_cells_may_come_later(device: str) -> None:
    """In later blocks of a stream, and in rows to predict."""
    x, holes = matrix(), matrix(holes=0.3)
    settings: dict[str, Any] = {"family": OF_COLUMNS, "n_components": 2, "learner": "em"}
    model = mixture(device, **settings).fit(x)
    here = mixture(device, engine="cpu", **settings).fit(x)
    given = torch.tensor(holes, device=device)
    np.testing.assert_allclose(
        model.score_samples(given).cpu(), here.score_samples(holes), rtol=1e-9, atol=1e-12
    )
    for one, wrap in ((model, lambda a: torch.tensor(a, device=device)), (here, np.array)):
        one.partial_fit(wrap(x)).partial_fit(wrap(holes))
    same_parameters(model, here, 1e-6)


@pytest.mark.usefixtures("small_tiles")
def test_rows_that_are_sent_in_pieces_give_the_same_bits(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"family": OF_COLUMNS, "n_components": 2, "learner": "em"}
    kept = mixture(device, **settings).fit(matrix(holes=0.1))
    monkeypatch.setattr(gpu, "free_memory", lambda device: 0)
    sent = mixture(device, **settings).fit(matrix(holes=0.1))
    assert equal(kept.params_, sent.params_)


# what is refused


def said(device: str, family: Any, x: Any) -> str:
    model = mixture(device, family=family, n_components=2)
    with pytest.raises(InvalidInputError) as caught:
        model.fit(x)
    assert not hasattr(model, "weights_")
    return str(caught.value)


def test_factors_without_a_kernel_are_named(device: str) -> None:
    x = np.abs(matrix()) + 1.0
    message = said(device, Product({0: LogNormal(), (1, 2, 3): Gaussian("diag")}), x)
    assert message.startswith("the family of column 0 is LogNormal(")
    assert "engine='cpu'" in message
    joint = said(device, Product({(0, 1): Gaussian("full"), 2: Poisson(), 3: Poisson()}), x)
    assert joint.startswith("the family of column (0, 1) is Gaussian(")
    x[5, 0] = np.nan
    joint = said(device, Product({(0, 1): Gaussian("full"), 2: Poisson(), 3: Poisson()}), x)
    assert joint.startswith("the family of column (0, 1) is Gaussian(")
    frame = table().assign(income=np.exp(rng().normal(size=600)))
    assert said(device, "auto", frame).startswith("the family of column 'income' is ")


def test_full_covariances_of_missing_cells_are_refused(device: str) -> None:
    x = np.where(rng().random((200, 2)) < 0.2, np.nan, rng().normal(size=(200, 2)))
    message = said(device, Gaussian(), torch.tensor(x, device=device))
    assert "with missing cells" in message
    assert "engine='cpu'" in message
    alone = said(device, LogNormal(), torch.tensor(np.exp(x), device=device))
    assert alone.startswith("LogNormal() has no kernel")


@pytest.mark.parametrize(("column", "value"), [(2, 3.0), (0, np.inf), (0, -np.inf)])
def test_cells_outside_the_support_are_named(column: int, value: float, device: str) -> None:
    x = matrix(holes=0.1)
    x[150, column] = value
    for method in ("fit", "partial_fit"):
        found = []
        for engine, rows in ((f"torch:{device}", torch.tensor(x, device=device)), ("cpu", x)):
            model = mixture(device, engine=engine, family=OF_COLUMNS)
            with pytest.raises(InvalidInputError, match=f"row 151, column {column + 1}") as caught:
                getattr(model, method)(rows)
            found.append(str(caught.value))
        assert found[0] == found[1]
