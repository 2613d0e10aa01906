"""Initial parameters of many components: cells of rows, groups of rows, and the whole search."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from mixfold import Mixture
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.initializers.k_means_plus_plus import KMeansPlusPlus
from mixfold.learners.auto import Auto
from mixfold.models import assignment, near_centers
from mixfold.models.assignment import from_groups, from_labels, spread_centers
from mixfold.models.clustering import cells_of, k_means
from mixfold.models.mixture_model import MixtureModel
from mixfold.models.near_centers import Cells, NearCenters, nearest

START = Auto(max_iter=0)


def grid(side: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Round clusters of deviation 1 on a grid, 8 apart, and the places of their means."""
    rng = np.random.default_rng(seed)
    places = 8.0 * np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    return places[rng.integers(len(places), size=n)] + rng.normal(size=(n, 2)), places


def exact(x: np.ndarray, centers: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * ((x[:, None] - centers) ** 2).sum(axis=2))


@pytest.mark.parametrize(("d", "offset"), [(3, 0.0), (12, 0.0), (12, 1e7)])
def test_cells_find_the_nearest_of_all_centres(d: int, offset: float) -> None:
    rng = np.random.default_rng(d)
    x = rng.normal(size=(900, d)) + offset
    cells = cells_of(x, np.ones(900), 300, rng)
    centers = x[rng.permutation(900)[:300]]
    distances, labels = cells.nearest(centers, 2)
    all_distances = exact(x, centers)
    row = np.arange(900)[:, None]
    smallest = np.sort(all_distances, axis=1)[:, :2]
    np.testing.assert_allclose(all_distances[row, labels], smallest, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(distances, all_distances[row, labels], rtol=1e-9, atol=1e-9)


def test_of_very_many_centres_nearly_all_nearest_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_centers, "MANY_TO_COMPARE", 100)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 10)) + 6.0 * rng.normal(size=(50, 10))[rng.integers(50, size=4000)]
    cells = cells_of(x, np.ones(4000), 400, rng)
    centers = x[rng.permutation(4000)[:400]]
    found = cells.nearest(centers)[0][:, 0]
    least = exact(x, centers).min(axis=1)
    assert np.isclose(found, least).mean() > 0.95
    assert found.sum() < 1.05 * least.sum()
    compared = [len(near) for near in cells._near(centers)]
    assert max(compared) < 300


def test_blocks_of_distances_do_not_change_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    x, centers = rng.normal(size=(50, 20)), rng.normal(size=(30, 20))
    whole = nearest(x, centers, 2)
    monkeypatch.setattr(near_centers, "NUMBERS_TOGETHER", 70)
    for one, other in zip(whole, nearest(x, centers, 2), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_draws_of_cells_are_different_rows_in_all_clusters() -> None:
    x, places = grid(16, 6000)
    rng = np.random.default_rng(3)
    centers = cells_of(x, np.ones(len(x)), 256, rng).draw(np.ones(len(x)), 256, rng)
    assert len(np.unique(centers, axis=0)) == 256
    assert (x[:, None] == centers[:3]).all(axis=2).any(axis=0).all()
    found = len(np.unique(NearCenters(centers).nearest(places)[1]))
    assert found > 170  # of 256 drawn uniformly, 162 clusters have one in the mean


def test_rows_without_weight_are_not_drawn() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1000, 3))
    weight = np.where(np.arange(1000) < 600, 0.0, 1.0)
    centers = Cells(x, x[600:610]).draw(weight, 50, rng)
    assert (x[600:, None] == centers).all(axis=2).any(axis=0).all()


def test_all_clusters_of_a_grid_are_found_by_k_means() -> None:
    x, places = grid(16, 8000)
    labels = k_means(x, np.ones(len(x)), 256, np.random.default_rng(5))
    means = np.stack([x[labels == k].mean(axis=0) for k in range(256)])
    assert (exact(places, means).min(axis=1) < 1.0).mean() > 0.97


@pytest.mark.parametrize("family", [Gaussian(), Gaussian("diag"), Poisson()])
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_of_some_components_at_a_time_are_those_of_all(
    family: Gaussian | Poisson, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(6)
    x = rng.poisson(3.0, size=(800, 3)).astype(float)
    labels = rng.integers(150, size=800)
    labels[(labels >= 64) & (labels < 128)] = 2  # so that no row belongs to some of them
    rows = Rows(x, rng.uniform(0.5, 2.0, 800) if weighted else None)
    model = MixtureModel(family, 150, 3)  # type: ignore[arg-type]
    draw = from_groups if isinstance(family, Gaussian) else from_labels
    whole = model.expected(draw(model, rows, labels))
    monkeypatch.setattr(assignment, "MOST_NUMBERS", 1)
    parts = model.expected(draw(model, rows, labels))
    for one, other in zip(whole.blocks, parts.blocks, strict=True):
        np.testing.assert_allclose(one.weight, other.weight, rtol=1e-9)
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(one.scatter, other.scatter, rtol=1e-9, atol=1e-12)


def test_centres_some_at_a_time_have_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    rows = Rows(rng.normal(size=(500, 3)) * [1.0, 10.0, 0.1])
    model = MixtureModel(Gaussian("diag"), 40, 3)
    whole = KMeansPlusPlus().draw(model, rows, np.random.default_rng(0))
    monkeypatch.setattr(assignment, "MOST_NUMBERS", 1500)
    parts = KMeansPlusPlus().draw(model, rows, np.random.default_rng(0))
    np.testing.assert_allclose(whole.components.means, parts.components.means)
    np.testing.assert_array_equal(whole.weights > 0, parts.weights > 0)


def test_more_rows_than_centres_are_drawn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "ENOUGH_FOR_CENTERS", 100)
    rng = np.random.default_rng(8)
    rows = Rows(rng.normal(size=(1000, 1)))
    drawn = spread_centers(Gaussian().divergence, 150, rows, rng)
    assert len(np.unique(drawn)) == 150


def started(x: np.ndarray, k: int, **settings: object) -> Mixture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged
        return Mixture(Gaussian("diag"), k, learner=START, random_state=0, **settings).fit(x)


def test_a_grid_of_many_clusters_is_found_and_bits_do_not_depend_on_threads() -> None:
    x, _ = grid(17, 9000)
    held, places = grid(17, 3000, 1)
    model = started(x, 289, n_threads=1)
    log_density = -np.log(289) - np.log(2.0 * np.pi) - exact(held, places)
    best = np.logaddexp.reduce(log_density, axis=1).mean()
    single = Mixture(Gaussian("diag"), 1).fit(x).score(held)
    # estimates of four numbers from 31 rows lose 4 / (2 * 31) nats, which is 4% of this gain
    assert model.score(held) - single > 0.92 * (best - single)
    other = started(x, 289, n_threads=2)
    np.testing.assert_array_equal(model.means_, other.means_)
    np.testing.assert_array_equal(model.weights_, other.weights_)


def test_many_components_of_counts_and_of_tied_rows() -> None:
    rng = np.random.default_rng(9)
    counts = rng.poisson(rng.gamma(1.0, 20.0, size=(1500, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it has not converged
        model = Mixture(Poisson(), 260, learner=START, random_state=0).fit(counts)
    assert np.isfinite(model.score(counts))
    tied = rng.integers(5, size=(2000, 2)).astype(float)  # fewer different rows than components
    assert np.isfinite(started(tied, 260).score(tied))
