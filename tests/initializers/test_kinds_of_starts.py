"""Initializers of real columns find what k-means++ misses, and equal their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from mixfold import Mixture
from mixfold.core.errors import InvalidInputError
from mixfold.core.registry import find
from mixfold.core.rows import Rows
from mixfold.families.distances import squared_distances
from mixfold.families.gaussian import Gaussian
from mixfold.learners.em import EM
from mixfold.models.clustering import lloyd, sphered, standardized
from mixfold.models.directions import entropies, interesting_directions
from mixfold.models.merged_groups import merged
from mixfold.models.mixture_model import MixtureModel
from mixfold.models.near_centers import NearCenters, nearest

REAL = (
    "raw-k-means",
    "standardized-k-means",
    "sphered-k-means",
    "projection-pursuit",
    "hierarchical",
    "concentric",
    "directional",
    "narrow-groups",
)


def elongated(d: int, seed: int, n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    """Two parallel clusters, long in one direction and six deviations apart in another."""
    rng = np.random.default_rng(seed)
    labels, x = rng.integers(2, size=n), rng.normal(size=(n, d))
    x[:, 0] *= 30.0
    x[:, 1] += 6.0 * labels
    return x @ np.linalg.qr(rng.normal(size=(d, d)))[0], labels


def found(init: str, x: np.ndarray, k: int, seed: int = 0) -> np.ndarray:
    learner = EM(max_iter=30)
    model = Mixture(n_components=k, init=init, learner=learner, random_state=seed)
    return np.asarray(model.fit_predict(x))


@pytest.mark.parametrize("init", ["sphered-k-means", "projection-pursuit", "hierarchical"])
def test_elongated_clusters_are_found(init: str) -> None:
    reached = [adjusted_rand_score(y, found(init, x, 2)) for x, y in [elongated(2, 0)]]
    assert min(reached) > 0.95
    x, y = elongated(2, 0)
    assert adjusted_rand_score(y, found("k-means++", x, 2)) < 0.5


def test_one_direction_of_many_is_found_by_projection_pursuit() -> None:
    rng = np.random.default_rng(1)
    labels, x = rng.integers(2, size=4000), rng.normal(size=(4000, 20))
    x[:, 0] = (x[:, 0] + 5.0 * labels) / np.sqrt(1.0 + 6.25)  # the variance of the others
    x = x @ np.linalg.qr(rng.normal(size=(20, 20)))[0]
    assert adjusted_rand_score(labels, found("projection-pursuit", x, 2)) > 0.9
    others = [adjusted_rand_score(labels, found("standardized-k-means", x, 2, s)) for s in range(3)]
    assert min(others) < 0.1


def test_nested_components_are_found_by_concentric_starts() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=3000)
    x = rng.normal(size=(3000, 5)) * np.where(labels, 8.0, 1.0)[:, None]
    model = Mixture(n_components=2, init="concentric", learner="em", random_state=0).fit(x)
    spread = np.sqrt(np.sort([np.trace(c) / 5 for c in model.covariances_]))
    np.testing.assert_allclose(spread, [1.0, 8.0], rtol=0.05)


def test_crossed_components_are_found_by_directional_starts() -> None:
    rng = np.random.default_rng(3)
    labels, x = rng.integers(3, size=3000), rng.normal(size=(3000, 3))
    x[np.arange(3000), labels] *= 10.0
    assert adjusted_rand_score(labels, found("directional", x, 3)) > 0.6
    others = [adjusted_rand_score(labels, found("k-means++", x, 3, s)) for s in range(3)]
    assert min(others) < 0.4


def test_frequent_values_and_narrow_peaks_are_found_by_narrow_groups() -> None:
    rng = np.random.default_rng(4)
    labels, x = rng.choice(3, 3000, p=[0.6, 0.2, 0.2]), rng.normal(size=(3000, 3))
    x[labels == 1, 1] = 0.5
    x[labels == 2, 2] = -0.5 + 0.001 * x[labels == 2, 2]
    model = MixtureModel(Gaussian(), 3, 3)
    params = find("initializers", "narrow-groups")().draw(model, Rows(x), rng)
    assert sorted(params.weights) == pytest.approx([0.2, 0.2, 0.6], abs=0.03)


@pytest.mark.parametrize("init", REAL)
def test_other_families_are_refused_with_a_remedy(init: str) -> None:
    with pytest.raises(InvalidInputError, match=r"real columns.*k-mle\+\+"):
        Mixture("poisson", 2, init=init, learner="em").fit(np.ones((20, 2)))


@pytest.mark.parametrize("init", REAL)
def test_constant_columns_ties_weights_and_few_rows(init: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(3, size=(40, 4)).astype(float)
    x[:, 2] = 7.0
    for rows in (Rows(x), Rows(x, rng.uniform(0.0, 2.0, 40)), Rows(x[:6]), Rows(x[:, :1])):
        model = MixtureModel(Gaussian(), 5, rows.x.shape[1])
        params = find("initializers", init)().draw(model, rows, rng)
        model.check_params(params)


def test_sphered_rows_are_uncorrelated_with_variance_one() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 100.0
    x = np.hstack([x, x[:, :1], np.full((300, 1), 3.0)])  # a copy and a constant
    weight = rng.uniform(0.1, 2.0, size=300)
    z = sphered(Rows(x, weight))
    np.testing.assert_allclose(np.cov(z.T, aweights=weight, ddof=0), np.eye(4), atol=1e-8)
    np.testing.assert_allclose(np.average(z, axis=0, weights=weight), 0.0, atol=1e-8)
    s = standardized(Rows(x, weight))
    np.testing.assert_allclose(np.average(s**2, axis=0, weights=weight), [1, 1, 1, 1, 1, 0])


def test_lloyd_equals_its_definition() -> None:
    rng = np.random.default_rng(5)
    x, weight = rng.normal(size=(200, 3)), rng.uniform(0.5, 2.0, size=200)
    centers = x[:4]
    near = ((x[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    means = [np.average(x[near == k], axis=0, weights=weight[near == k]) for k in range(4)]
    np.testing.assert_allclose(lloyd(NearCenters(x), weight, centers, 1)[0], means)
    for d in (2, 30):
        a, b = rng.normal(size=(20, d)), rng.normal(size=(5, d))
        half = 0.5 * ((a[:, None] - b) ** 2).sum(axis=2)
        np.testing.assert_allclose(squared_distances(a, b), half, atol=1e-9)


@pytest.mark.parametrize(("d", "k"), [(2, 5), (2, 100), (30, 5)])
def test_nearest_centres_are_those_of_all_distances(d: int, k: int) -> None:
    rng = np.random.default_rng(k)
    x, centers = rng.normal(size=(300, d)), rng.normal(size=(k, d))
    half = 0.5 * ((x[:, None] - centers) ** 2).sum(axis=2)
    distances, labels = nearest(x, centers, 2)
    np.testing.assert_array_equal(labels, half.argsort(axis=1)[:, :2])
    np.testing.assert_allclose(distances, np.sort(half, axis=1)[:, :2], atol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_merged_groups_lose_the_least_likelihood(d: int) -> None:
    """Each merge against a search over all pairs, with the criterion written out."""
    rng = np.random.default_rng(d)
    x, weight = rng.normal(size=(120, d)), rng.uniform(0.5, 2.0, size=120)
    weight /= weight.mean()
    labels = rng.integers(8, size=120)

    def scatter(members: np.ndarray) -> np.ndarray:
        away = x[members] - np.average(x[members], axis=0, weights=weight[members])
        return np.asarray((weight[members, None] * away).T @ away)

    within = sum(scatter(labels == g) for g in range(8)) / weight.sum()
    prior = (d + 1) * (within + 1e-6 * np.eye(d) * np.trace(within) / d)

    def cost(members: np.ndarray) -> float:
        n = weight[members].sum() + d + 1
        return float(n * np.linalg.slogdet((scatter(members) + prior) / n)[1])

    groups = [labels == g for g in range(8)]
    while len(groups) > 3:
        pairs = [(i, j) for i in range(len(groups)) for j in range(i)]
        loss = [cost(groups[i] | groups[j]) - cost(groups[i]) - cost(groups[j]) for i, j in pairs]
        i, j = pairs[int(np.argmin(loss))]
        groups[j] = groups[j] | groups[i]
        del groups[i]
    expected = sum(g * k for k, g in enumerate(groups))
    assert adjusted_rand_score(expected, merged(x, weight, labels, 3)) == 1.0


def test_entropy_of_known_distributions() -> None:
    rng = np.random.default_rng(6)
    n = 20000
    u = np.column_stack([rng.normal(size=n), rng.uniform(size=n), rng.exponential(size=n)])
    normal = 0.5 * np.log(2.0 * np.pi * np.e)
    expected = [0.0, 0.5 * np.log(12.0) - normal, 1.0 - normal]  # of variance one
    np.testing.assert_allclose(entropies(u, np.full(n, 1.0 / n)), expected, atol=0.08)


def test_the_direction_far_from_normal_is_found() -> None:
    rng = np.random.default_rng(7)
    z = rng.normal(size=(4000, 10))
    z[:, 3] = np.sign(z[:, 3]) + 0.3 * rng.normal(size=4000)
    z = sphered(Rows(z))
    weight = np.full(4000, 1.0 / 4000)
    (direction,) = interesting_directions(z, weight, 3, rng).T  # others are close to normal
    u = z @ direction
    assert np.mean(u**4) / np.mean(u**2) ** 2 < 1.6  # 3 for a normal


@pytest.mark.parametrize("seed", range(3))
def test_an_axis_without_kurtosis_and_skewness_is_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(1000, 10))
    x[:, 4] += 5.0 * rng.choice(3, 1000, p=[0.11, 0.66, 0.23])
    z = standardized(Rows(x))
    (direction,) = interesting_directions(z, np.full(1000, 1e-3), 1, rng).T
    assert abs(np.corrcoef(z @ direction, x[:, 4])[0, 1]) > 0.95
