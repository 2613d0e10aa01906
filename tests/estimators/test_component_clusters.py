"""Components merged into clusters, against mclust's clustCombi and a few lines of NumPy."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import xlogy
from sklearn.datasets import load_iris

from mixfold import AutoMixture, Gaussian, Mixture, datasets
from mixfold.core.errors import InvalidInputError
from mixfold.estimators import _clustering
from mixfold.estimators.component_clusters import ComponentClusters
from mixfold.families.gaussian import GaussianParams
from mixfold.learners.em import EM
from mixfold.models.merged_components import change_point
from mixfold.models.mixture_model import MixtureParams

FIXTURE = Path(__file__).parents[1] / "fixtures" / "mclust_combi.csv"
NAMES = ("faithful", "iris")


def rows_of(name: str) -> np.ndarray:
    return np.asarray(datasets.load_faithful()) if name == "faithful" else load_iris().data


def fixture(name: str, kind: str) -> list[dict[str, str]]:
    with FIXTURE.open() as file:
        return [r for r in csv.DictReader(file) if (r["data"], r["kind"]) == (name, kind)]


def mixture_of_mclust(name: str) -> Mixture:
    """The mixture that mclust merged, in which EM takes no step."""
    x = rows_of(name)
    d = x.shape[1]
    numbers = np.array([r["values"].split(";") for r in fixture(name, "parameters")], dtype=float)
    roots = np.linalg.cholesky(numbers[:, d + 1 :].reshape(-1, d, d))
    params = MixtureParams(numbers[:, 0], GaussianParams(numbers[:, 1 : d + 1].copy(), roots))
    return Mixture("gaussian", len(numbers), init=params, learner=EM(max_iter=0)).fit(x)


def merged_by_hand(r: np.ndarray, weight: np.ndarray) -> list[tuple[float, list[set[int]]]]:
    """Entropy and clusters after each merge, by computing the entropy of every union anew."""

    def entropy(clusters: list[set[int]]) -> float:
        t = np.stack([r[:, list(c)].sum(axis=1) for c in clusters], axis=1)
        return -float(weight @ xlogy(t, t).sum(axis=1))

    clusters = [{k} for k in range(r.shape[1])]
    found = [(entropy(clusters), clusters)]
    while len(clusters) > 1:
        tried = []
        for a, b in combinations(range(len(clusters)), 2):
            union = [c for i, c in enumerate(clusters) if i not in (a, b)]
            tried.append(sorted([*union, clusters[a] | clusters[b]], key=min))
        clusters = min(tried, key=entropy)
        found.append((entropy(clusters), clusters))
    return found


def check_by_hand(clusters: ComponentClusters, r: np.ndarray, weight: np.ndarray) -> None:
    k = r.shape[1]
    for n, (entropy, members) in zip(range(k, 0, -1), merged_by_hand(r, weight), strict=True):
        assert clusters.entropies[n - 1] == pytest.approx(entropy, rel=1e-9, abs=1e-9)
        labels = clusters.labels(n)
        assert [set(np.flatnonzero(labels == c)) for c in range(n)] == members


@pytest.mark.parametrize("name", NAMES)
def test_merges_are_those_of_mclust(name: str) -> None:
    x = rows_of(name)
    clusters = mixture_of_mclust(name).component_clusters(x)
    for row in fixture(name, "clusters"):
        n = int(row["number"])
        theirs = np.array(row["values"].split(";"), dtype=int) - 1
        assert clusters.labels(n).tolist() == theirs.tolist()
        assert clusters.entropies[n - 1] == pytest.approx(float(row["entropy"]), abs=1e-7)
        assert (clusters.n_clusters == n) == (row["chosen"] == "1")


@pytest.fixture(scope="module")
def fitted() -> Mixture:
    return Mixture(Gaussian("VVI"), 5, random_state=0).fit(rows_of("iris"))


def test_weights_and_missing_cells(fitted: Mixture) -> None:
    x = rows_of("iris").copy()
    x[::7, 1], x[3::11, 0] = np.nan, np.nan
    weight = np.random.default_rng(0).integers(0, 4, size=len(x)).astype(float)
    clusters = fitted.component_clusters(x, sample_weight=weight)
    check_by_hand(clusters, fitted.predict_proba(x), weight)
    repeated = fitted.component_clusters(np.repeat(x, weight.astype(int), axis=0))
    np.testing.assert_allclose(clusters.entropies, repeated.entropies, rtol=1e-12, atol=1e-12)


def test_other_families() -> None:
    rng = np.random.default_rng(1)
    x = rng.poisson(np.repeat([[2.0, 3.0], [4.0, 3.5], [15.0, 9.0], [19.0, 9.0]], 80, axis=0))
    auto = AutoMixture([4], family="poisson", random_state=0).fit(x)
    check_by_hand(auto.component_clusters(x), auto.predict_proba(x), np.ones(len(x)))


def test_predictions_add_responsibilities(fitted: Mixture) -> None:
    x = rows_of("iris")
    clusters, r = fitted.component_clusters(x), fitted.predict_proba(x)
    for n in range(1, 6):
        labels = clusters.labels(n)
        assert labels.max() == n - 1
        expected = np.stack([r[:, labels == c].sum(axis=1) for c in range(n)], axis=1)
        np.testing.assert_allclose(clusters.predict_proba(x, n), expected, atol=1e-14)
        assert (clusters.predict(x, n) == expected.argmax(axis=1)).all()
    assert (clusters.predict(x) == clusters.predict(x, clusters.n_clusters)).all()
    fitted_on_others = Mixture(n_components=2).fit(x[:, :2])
    fitted_on_others.component_clusters(x[:, :2])
    assert clusters.mixture.n_components == 5


def test_any_blocks_give_the_same_bits(fitted: Mixture, tmp_path: Path) -> None:
    x = np.tile(rows_of("iris"), (300, 1))
    whole = fitted.component_clusters(x)

    def blocks() -> Iterator[np.ndarray]:
        yield x[:17]
        yield x[17:40_001]
        yield x[40_001:]

    table = tmp_path / "rows.parquet"
    pd.DataFrame(x, columns=list("abcd")).to_parquet(table)
    for data in (blocks(), table):
        found = fitted.component_clusters(data)
        assert found.entropies.tobytes() == whole.entropies.tobytes()
        assert (found.merges == whole.merges).all()


def test_rows_are_read_once_or_for_every_merge(
    fitted: Mixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = rows_of("iris")
    once = fitted.component_clusters(x)
    assert once.n_passes == 1
    monkeypatch.setattr(_clustering, "MOST_BYTES", 100)
    again = fitted.component_clusters(x)
    assert again.n_passes == 4
    assert (again.merges == once.merges).all()
    np.testing.assert_allclose(again.entropies, once.entropies, rtol=1e-12, atol=1e-12)
    with pytest.raises(InvalidInputError, match="read only once"):
        fitted.component_clusters(iter([x]))


def test_change_point_is_where_two_lines_fit_best() -> None:
    rng = np.random.default_rng(2)
    for k in range(3, 9):
        y = np.sort(rng.exponential(size=k))
        x, losses = np.arange(1.0, k + 1.0), {}
        for c in range(2, k):
            parts = (slice(0, c), slice(c - 1, k))
            fits = [np.polyval(np.polyfit(x[p], y[p], 1), x[p]) - y[p] for p in parts]
            losses[c] = sum(float(f @ f) for f in fits)
        assert change_point(y) == min(losses, key=lambda c: losses[c])
    assert change_point(np.array([0.0, 0.0, 0.0, 5.0, 10.0])) == 3
    assert [change_point(np.zeros(k)) for k in (1, 2)] == [1, 2]


def test_plot(fitted: Mixture) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots()
    clusters = fitted.component_clusters(rows_of("iris"))
    assert clusters.plot(axes) is axes
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), clusters.entropies)
    pyplot.close(figure)


@pytest.mark.parametrize("n_clusters", [0, 6, 1.5, "two", True])
def test_numbers_of_clusters_out_of_range(fitted: Mixture, n_clusters: Any) -> None:
    clusters = fitted.component_clusters(rows_of("iris"))
    with pytest.raises(InvalidInputError, match=r"n_clusters is .*"):
        clusters.predict(rows_of("iris"), n_clusters)


def test_a_single_component_and_bad_rows(fitted: Mixture) -> None:
    x = rows_of("iris")
    one = Mixture(n_components=1).fit(x).component_clusters(x)
    assert one.merges.shape == (0, 2)
    assert (one.n_clusters, one.entropies.tolist(), one.labels().tolist()) == (1, [0.0], [0])
    with pytest.raises(ValueError, match="features"):
        fitted.component_clusters(x[:, :2])
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.component_clusters(x, sample_weight=-np.ones(len(x)))
