"""Covariances of which components share volume, shape or orientation."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize
from sklearn.datasets import load_iris

from mixfold import EM, Gaussian, Mixture, datasets
from mixfold.core.rows import Rows
from mixfold.core.statistics import Block, pack
from mixfold.families._common_axes import rotated, rotated_in_python
from mixfold.families._covariance_shapes import (
    CONSTRAINED,
    NAMES,
    SAME,
    VARIANCES,
    ConstrainedFull,
)
from mixfold.families._gaussian_params import GaussianParams
from mixfold.models.mixture_model import MixtureParams, count_spurious

FIXTURES = Path(__file__).parents[1] / "fixtures" / "mclust.csv"
K, D = 3, 3


def matrices(family: Gaussian, params: GaussianParams) -> np.ndarray:
    """Covariances (K, d, d)."""
    covariances = np.asarray(family.covariances(params))
    k, d = params.means.shape
    if covariances.shape == (d, d) and family.covariance == "EEE":
        return np.tile(covariances, (k, 1, 1))
    if covariances.ndim == 1:
        return covariances[:, None, None] * np.eye(d)
    return covariances[:, :, None] * np.eye(d) if covariances.ndim == 2 else covariances


def from_vector(name: str, vector: np.ndarray) -> np.ndarray:
    """lambda D A D' from free numbers, in the order volumes, shapes, orientations."""
    numbers = iter(vector.tolist())

    def take(n: int) -> np.ndarray:
        return np.array([next(numbers) for _ in range(n)])

    volumes = np.exp(take(K) if name[0] == "V" else np.repeat(take(1), K))
    logs = np.zeros((K, D - 1))
    if name[1] != "I":
        logs = take(K * (D - 1)).reshape(K, -1) if name[1] == "V" else np.tile(take(D - 1), (K, 1))
    shapes = np.exp(np.hstack([logs, -logs.sum(axis=1, keepdims=True)]))

    def orientation() -> np.ndarray:
        skew = np.zeros((D, D))
        skew[np.tril_indices(D, -1)] = take(D * (D - 1) // 2)
        return np.asarray(expm(skew - skew.T))

    own: dict[str, Callable[[], list[np.ndarray]]] = {
        "I": lambda: [np.eye(D)] * K,
        "E": lambda: [orientation()] * K,
        "V": lambda: [orientation() for _ in range(K)],
    }
    axes = own[name[2]]()
    return np.stack([volumes[k] * (axes[k] * shapes[k]) @ axes[k].T for k in range(K)])


def loss(weight: np.ndarray, scatter: np.ndarray, covariances: np.ndarray) -> float:
    """Minus twice the expected log-likelihood, but for a constant."""
    traces = np.trace(np.linalg.solve(covariances, scatter), axis1=1, axis2=2)
    return float(weight @ (np.linalg.slogdet(covariances)[1] + traces))


@pytest.mark.parametrize("name", sorted(CONSTRAINED))
def test_an_m_step_is_the_maximum_found_by_a_general_optimiser(name: str) -> None:
    rng = np.random.default_rng(1)
    weight = np.array([0.5, 0.3, 0.2])
    rows = rng.normal(size=(K, 30, D)) @ rng.normal(size=(K, D, D))
    scatter = np.stack([np.cov(each.T, ddof=0) for each in rows])
    family = Gaussian(name)
    packed = pack(scatter) if name[2] != "I" else np.diagonal(scatter, axis1=1, axis2=2)
    params, n_degenerate = family.maximize((Block(weight, np.zeros((K, D)), packed),))
    number = family.structure.n_parameters(K, D)

    def of_vector(vector: np.ndarray) -> float:
        return loss(weight, scatter, from_vector(name, vector))

    found = [minimize(of_vector, 0.3 * rng.normal(size=number)).fun for _ in range(6)]
    assert loss(weight, scatter, matrices(family, params)) == pytest.approx(min(found), abs=1e-8)
    assert n_degenerate == 0


def mclust() -> list[dict[str, str]]:
    """What mclust 6.0 has found from the same labels."""
    with FIXTURES.open() as file:
        return list(csv.DictReader(file))


def labelled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and the labels that EM begins with."""
    if name == "faithful":
        x = np.asarray(datasets.load_faithful())
        return x, (x[:, 0] > 3.0).astype(int)
    iris = load_iris()
    return iris.data, iris.target


@pytest.mark.parametrize("one", mclust(), ids=lambda one: f"{one['data']}-{one['model']}")
def test_em_reaches_the_log_likelihood_of_mclust(one: dict[str, str]) -> None:
    x, labels = labelled(one["data"])
    k, family = int(one["components"]), Gaussian(one["model"], floor=0.0)
    responsibilities = np.eye(k)[labels]
    components, _ = family.maximize(family.blocks_of(x, responsibilities))
    begin = MixtureParams(responsibilities.mean(axis=0), components)
    model = Mixture(family, k, learner=EM(tol=1e-9, max_iter=20_000), init=begin).fit(x)
    found, theirs = len(x) * model.score(x), float(one["log_likelihood"])
    if one["model"] == "VVE":  # whose M-steps in mclust end before the maximum
        assert found > theirs
    else:
        assert found == pytest.approx(theirs, rel=1e-8)
    assert k - 1 + family.n_parameters(k, x.shape[1]) == int(one["parameters"])


@pytest.mark.parametrize("name", sorted(CONSTRAINED))
def test_em_never_lowers_the_likelihood(name: str) -> None:
    x = load_iris().data
    model = Mixture(Gaussian(name), 3, learner=EM(max_iter=60, tol=0.0), random_state=3).fit(x)
    gains = np.diff(model.history_.log_likelihood)
    assert (gains > -1e-12).all()
    assert gains.max() > 1e-3


@pytest.mark.parametrize("name", ["EVI", "VEE", "VVE", "EVV"])
def test_a_component_of_one_row_or_of_equal_rows_is_degenerate(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.vstack([rng.normal(size=(50, 3)), np.full((4, 3), 9.0)])
    responsibilities = np.eye(2)[np.repeat([0, 1], [50, 4])]
    family = Gaussian(name)
    params, _ = family.maximize(family.blocks_of(x, responsibilities))
    assert np.isfinite(family.log_density(params, x)).all()
    assert (np.linalg.eigvalsh(matrices(family, params)) > 0.0).all()


def test_names_of_mclust_are_those_of_scikit_learn() -> None:
    x = load_iris().data
    for name, same in SAME.items():
        fits = [Mixture(Gaussian(each), 2, random_state=0).fit(x) for each in (name, same)]
        np.testing.assert_array_equal(fits[0].means_, fits[1].means_)


def test_an_unknown_name_is_refused_with_all_names() -> None:
    with pytest.raises(ValueError, match="VVX") as error:
        Gaussian("VVX")
    assert all(name in str(error.value) for name in NAMES)


# shared volumes, shapes and axes


def several_matrices(k: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(k, 3 * d, d)) * rng.uniform(0.1, 5.0, size=(k, 1, d))
    return rng.uniform(1.0, 5.0, k), rows.swapaxes(1, 2) @ rows / (3 * d)


@pytest.mark.parametrize("one_volume", [False, True])
@pytest.mark.parametrize(("k", "d"), [(1, 3), (3, 4), (5, 9)])
def test_compiled_rotations_are_the_readable_ones(k: int, d: int, one_volume: bool) -> None:
    weight, covariance = several_matrices(k, d)
    begin = np.linalg.eigh(covariance.mean(axis=0))[1]
    for most in (1, 30):
        found = rotated(weight, covariance, begin, one_volume, most)
        readable = rotated_in_python(weight, covariance, begin, one_volume, most)
        assert found[0] == pytest.approx(readable[0], rel=1e-10)
        np.testing.assert_allclose(found[1], readable[1], atol=1e-6)
        np.testing.assert_allclose(found[1] @ found[1].T, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e12])
@pytest.mark.parametrize("name", ["VEI", "VEE"])
def test_volumes_and_their_common_shape_are_those_of_each_other(name: str, scale: float) -> None:
    # given the shape, volumes are traces; given volumes, the shape is a weighted mean
    weight, covariance = several_matrices(4, 6)
    covariance *= np.array([1.0, scale, 1.0 / scale, 3.0])[:, None, None]
    if name == "VEI":
        found = VARIANCES["VE"](weight, np.diagonal(covariance, axis1=1, axis2=2))
        found = found[:, :, None] * np.eye(6)
        covariance = covariance * np.eye(6)
    else:
        found = ConstrainedFull("VEE")._constrained(weight, covariance)
    volumes = np.exp(np.linalg.slogdet(found)[1] / 6)
    shape = found[0] / volumes[0]
    np.testing.assert_allclose(found, volumes[:, None, None] * shape, rtol=1e-8)
    traces = np.trace(np.linalg.solve(shape, covariance), axis1=1, axis2=2) / 6
    np.testing.assert_allclose(traces, volumes, rtol=1e-9)
    mean = np.tensordot(weight / weight.sum() / volumes, covariance, 1)
    np.testing.assert_allclose(mean, shape, rtol=1e-8)


def test_volumes_of_components_without_weight_are_finite() -> None:
    _, covariance = several_matrices(3, 4)
    found = ConstrainedFull("VEE")._constrained(np.array([1.0, 0.0, 2.0]), covariance)
    assert np.isfinite(found).all()


def spurious(name: str, x: np.ndarray, k: int) -> int:
    learned = Mixture(Gaussian(name), k, learner=EM(), random_state=0).fit(x)._learned
    return count_spurious(learned.model, learned.params, [Rows(x)])


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.LearningWarning")
def test_components_of_fewer_rows_than_their_matrix_needs_are_spurious() -> None:
    x = np.random.default_rng(0).normal(size=(25, 10))
    for name in ("EVE", "VVE", "EVV"):  # one component has 6 or 7 rows
        assert spurious(name, x, 2) == 1
    for name in ("EEV", "VEV"):
        assert spurious(name, x, 4) == 4
        assert spurious(name, x, 2) == 0  # one component has 15 rows, and the shape is common
    assert spurious("VEE", x, 4) == 0  # all rows have 21 dimensions
    assert spurious("VEE", np.random.default_rng(0).normal(size=(25, 30)), 2) == 2


def test_few_rows_are_enough_where_other_components_determine_the_axes() -> None:
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    many = rng.normal(size=(1000, 6)) * [6.0, 4.0, 3.0, 2.0, 1.0, 0.5]
    few = rng.normal(size=(5, 6)) * [1.0, 0.7, 2.0, 1.0, 0.5, 2.0]
    x = np.vstack([many @ axes.T, few @ axes.T + 30.0])
    for name in ("VEE", "EVE", "VVE"):
        assert spurious(name, x, 2) == 0
