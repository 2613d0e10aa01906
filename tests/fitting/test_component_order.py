"""The order of components: the same from any start, after any learner, on any processor."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mixfold import (
    SEM,
    AnnealedSGD,
    DriftAware,
    Gaussian,
    GaussianMixture,
    Mixture,
    MomentMatching,
    MonteCarloEM,
    OnlineEM,
    OnlineKMLE,
    Prior,
    datasets,
    load,
    merge,
)
from mixfold.backends.threads import Threads
from mixfold.core.learner import Learner
from mixfold.core.ranking import levels, ranked
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import GaussianParams
from mixfold.fitting.component_order import component_order, reorder
from mixfold.models.mixture_model import MixtureModel, MixtureParams

FAITHFUL = datasets.load_faithful()


def clusters(n: int = 600, k: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = np.stack([5.0 * np.arange(k), rng.normal(size=k)], axis=1)
    which = rng.permutation(np.arange(n) % k)
    return np.asarray(centers[which] + rng.normal(0.0, 0.5, (n, 2)))


def in_order(means: np.ndarray) -> bool:
    return bool((np.diff(means[:, 0]) > 0).all())


# the order itself


def order_of(weights: Any, means: Any, deviations: Any) -> list[int]:
    model = MixtureModel(Gaussian("diag"), len(means), 2)
    parts = GaussianParams(np.asarray(means, dtype=float), np.asarray(deviations, dtype=float))
    found: list[int] = component_order(model, MixtureParams(np.array(weights), parts)).tolist()
    return found


def test_by_means_then_weights_then_the_rest() -> None:
    thirds, ones = [1 / 3] * 3, np.ones((3, 2))
    assert order_of(thirds, [[2, 0], [1, 0], [0, 0]], ones) == [2, 1, 0]
    assert order_of(thirds, [[1, 3], [1, 2], [0, 9]], ones) == [2, 1, 0]
    same = [[1.0, 2.0]] * 3
    assert order_of([0.2, 0.5, 0.3], same, ones) == [1, 2, 0]
    assert order_of(thirds, same, [[2, 1], [1, 3], [1, 2]]) == [2, 1, 0]
    assert order_of(thirds, same, ones) == [0, 1, 2]


def test_rounding_does_not_decide() -> None:
    """Where a column has the same mean in all components, but for rounding, the next decides."""
    rng = np.random.default_rng(0)
    for size in (0.0, 1.0, 1e6, 1e-6):
        for _ in range(20):
            noise = 1e-12 * (size + 1.0) * rng.normal(size=3)
            means = np.stack([size + noise, [3.0, 1.0, 2.0]], axis=1)
            assert order_of([0.2, 0.5, 0.3], means, np.ones((3, 2))) == [1, 2, 0]


def test_levels_and_ranks() -> None:
    assert levels(np.array([3.0, 1.0, 1.0 + 1e-12, 2.0]), 1e-9).tolist() == [2, 0, 0, 1]
    assert ranked([1.0, 3.0 - 1e-13, 3.0, 2.0]) == [1, 2, 3, 0]
    assert ranked([np.nan, -np.inf, 0.0]) == [2, 0, 1]


# where components are in order, and where they keep their places


@pytest.mark.parametrize("learner", ["auto", "em", "online-em", "mini-batch-em", "online-vb"])
def test_every_seed_gives_one_order(learner: str) -> None:
    for seed in range(4):
        model = Mixture(n_components=3, learner=learner, random_state=seed).fit(clusters())
        assert in_order(model.means_), seed


def test_a_stream_begins_in_order_and_is_not_reordered() -> None:
    x = clusters()
    for seed in range(4):
        assert in_order(Mixture(n_components=3, random_state=seed).partial_fit(x[:200]).means_)
        model = Mixture(n_components=3, learner="online-em", random_state=seed)
        assert in_order(model.partial_fit(x[:200]).means_)
        moved = np.concatenate([x[200:400], x[200:400] * [-1.0, 1.0]])
        before = model._now().params
        model.partial_fit(moved)
        # components go where rows take them, and keep their numbers
        there = np.abs(model.means_[:, None, 1] - before.components.means[None, :, 1]).argmin(
            axis=1
        )
        assert there.tolist() == [0, 1, 2]


def test_what_is_given_keeps_its_order() -> None:
    x = clusters()
    start = np.array([[10.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    given = Mixture(n_components=3, init=start).fit(x)
    again = Mixture(n_components=3, init=given).fit(x)
    for model in (given, again, Mixture(n_components=3, init=given.params_).partial_fit(x)):
        assert np.argsort(model.means_[:, 0]).tolist() == [1, 2, 0]


def test_a_prior_of_each_component_keeps_its_order() -> None:
    means = np.array([[10.0, 0.0], [0.0, 0.0], [5.0, 0.0]])
    learner = MomentMatching(prior=Prior(means=means, covariance=np.eye(2), kappa=50.0))
    model = Mixture(n_components=3, learner=learner, random_state=0).fit(clusters())
    assert np.argsort(model.means_[:, 0]).tolist() == [1, 2, 0]


def test_a_grid_keeps_its_places() -> None:
    assert not AnnealedSGD().exchangeable
    assert not DriftAware(AnnealedSGD()).exchangeable
    assert DriftAware(OnlineEM()).exchangeable


def test_scikit_learn_has_its_own_order() -> None:
    from sklearn.mixture import GaussianMixture as Original

    for seed in range(2):
        ours, theirs = (
            kind(3, random_state=seed).fit(clusters()) for kind in (GaussianMixture, Original)
        )
        np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-6)


# all that belongs to a component goes with it


SERVED = [
    pytest.param(kind(), covariance, id=f"{name}-{covariance}")
    for name, kind in find_all("learners").items()
    for covariance in ("full", "tied")
    if kind().exchangeable and kind().serves(MixtureModel(Gaussian(covariance), 3, 2))
]


@pytest.mark.parametrize(("learner", "covariance"), SERVED)
def test_reordering_a_state_does_not_change_what_it_learns(
    learner: Learner, covariance: Any
) -> None:
    """A state that is reordered, then learns, is one that learns, then is reordered."""
    family, order = Gaussian(covariance), np.array([2, 0, 1])
    learner = learner.resolve(600, 2, False)
    model = MixtureModel(family, 3, 2)
    backend, rows = Threads(model, 1), Rows(clusters())
    params = Mixture(family, 3, random_state=0, learner="em", max_iter=1).fit(clusters()).params_
    state = learner.init(backend, params, 100)
    for _ in range(2):
        state = learner.end_pass(backend, learner.step(backend, state, rows)[0])[0]
    random = isinstance(learner, SEM | MonteCarloEM | OnlineKMLE)  # draws are of numbers
    state = learner.compact(state)
    turned = reorder(state, order)
    states = [(state, turned)]
    if not (learner.rereads or random):
        after = [learner.step(backend, one, rows)[0] for one in (state, turned)]
        states.append((after[0], after[1]))
    for one, other in states:
        expected = reorder(learner.estimate(backend, one), order)
        found = learner.estimate(backend, other)
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-9)
        a, b = found.components, expected.components
        np.testing.assert_allclose(a.means, b.means, rtol=1e-9)
        np.testing.assert_allclose(a.scale, b.scale, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
@pytest.mark.parametrize("family", ["poisson", "exponential", Gaussian("factor", rank=1)])
def test_families_go_with_their_components(family: Any) -> None:
    x = np.abs(np.round(clusters())) + 1.0
    if family == "exponential":  # one component describes rows that vary less best
        x = x**2 * np.random.default_rng(0).exponential(size=x.shape)
    model = Mixture(family, 3, random_state=1).fit(x)
    assert in_order(model.means_)
    order = np.array([1, 2, 0])
    mixed = Mixture(family, 3, init=reorder(model.params_, order), max_iter=1, learner="em").fit(x)
    assert np.argsort(mixed.means_[:, 0]).tolist() == [2, 0, 1]


def test_going_on_after_a_fit_and_through_a_file(tmp_path: Path) -> None:
    x = clusters()
    for learner in ("auto", "online-em", "online-vb", "moment-matching"):
        model = Mixture(n_components=3, learner=learner, random_state=2).fit(x)
        model.save(tmp_path / "model.mixfold")
        other = load(tmp_path / "model.mixfold").partial_fit(x[:300])
        model.partial_fit(x[300:])
        assert in_order(model.means_)
        assert in_order(other.means_)
        merged = merge([model, other])
        assert in_order(merged.means_)
        assert abs(merged.score(x) - model.score(x)) < 0.05


def test_a_resumed_fit_ends_in_the_same_order(tmp_path: Path) -> None:
    settings: Any = {"n_components": 3, "learner": "em", "random_state": 3}
    whole = Mixture(**settings).fit(clusters())
    for passes in (1, 2, None):
        kept = Mixture(**settings, checkpoint=tmp_path / "c", resume=True, max_iter=passes)
        assert in_order(kept.fit(clusters()).means_)
    assert equal(kept.params_, whole.params_)


# on any processor


FITS = """
import pickle, sys, warnings
import numpy as np
from mixfold import Gaussian, GaussianMixture, Mixture, datasets
warnings.simplefilter("ignore")
rng, found = np.random.default_rng(0), {}
data = {"faithful": datasets.load_faithful()}
for d in (1, 3):
    data[f"cross {d}"] = np.concatenate([a * np.eye(d)[i] + rng.normal(0.0, 0.2, (60, d))
                                         for i in range(d) for a in (-1.0, 1.0)])
mirrored = rng.normal(size=(100, 2))
data["mirrored"] = np.concatenate([mirrored + 2.0, -mirrored - 2.0])
for name, x in data.items():
    for covariance in ("full", "diag"):
        for k in (2, 3):
            for learner in ("em", "online-vb") if k == 2 else ("auto", "em", "online-vb"):
                family = Gaussian(covariance)
                made = Mixture(family, k, learner=learner, random_state=k, n_threads=1).fit(x)
                parts = [made.weights_, made.means_, made.covariances_]
                found[name, covariance, k, learner] = parts
for family in ("poisson", "exponential"):
    counts = rng.poisson([[1.0], [9.0]], (2, 200)).reshape(-1, 1) + 0.0
    made = Mixture(family, 2, random_state=0).fit(counts)
    found[family] = [made.weights_, made.means_]
from mixfold._native import isa
pickle.dump((isa(), found), open(sys.argv[1], "wb"))
"""


def test_instruction_sets_agree(tmp_path: Path) -> None:
    """The same order, and numbers that are the same to 1e-9; a set that is not here is another."""
    pytest.importorskip("mixfold._native", reason="mixfold was built without a compiler")
    made: dict[str, Any] = {}
    children = []
    for name in ("avx512", "baseline"):
        command = [sys.executable, "-c", FITS, str(tmp_path / name)]
        children.append(subprocess.Popen(command, env={**os.environ, "MIXFOLD_ISA": name}))
    assert [child.wait(300) for child in children] == [0, 0]
    for name in ("avx512", "baseline"):
        with (tmp_path / name).open("rb") as file:
            isa, made[name] = pickle.load(file)
    assert isa == "baseline"
    for key, expected in made["avx512"].items():
        for a, b in zip(expected, made["baseline"][key], strict=True):
            close = 1e-9 * np.abs(a).max()
            np.testing.assert_allclose(b, a, rtol=1e-9, atol=close, err_msg=str(key))


# in any file


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_row_groups_do_not_show(tmp_path: Path) -> None:
    """A start is drawn from some rows of a long file: the same ones, however they lie in it."""
    x = np.sort(clusters(24_000), axis=0)
    table = pa.table({"a": x[:, 0], "b": x[:, 1]})
    files: list[Any] = []
    for size in (900, 5_000, 24_000):
        files.append(tmp_path / f"{size}.parquet")
        pq.write_table(table, files[-1], row_group_size=size)
    parts = []
    for a, b in pairwise((0, 7, 11_000, 24_000)):
        parts.append(tmp_path / f"part {a}.parquet")
        pq.write_table(table.slice(a, b - a), parts[-1], row_group_size=2_000)
    for learner in ("auto", "online-em"):
        found = [
            Mixture(n_components=3, learner=learner, random_state=0, n_threads=n).fit(data).params_
            for n, data in enumerate([*files, parts], 1)
        ]
        assert all(equal(one, found[0]) for one in found)


def test_kinds_of_sources_agree_where_a_start_sees_all_rows(tmp_path: Path) -> None:
    x = np.round(clusters(), 6)
    table = pa.table({"a": x[:, 0], "b": x[:, 1]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=70)
    np.save(tmp_path / "x.npy", x)
    lines = ["a,b", *(f"{a!r},{b!r}" for a, b in x.tolist())]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    data = [x, table, *(tmp_path / f"x.{kind}" for kind in ("parquet", "npy", "csv"))]
    for learner in ("em", "online-em", "auto"):
        how: Any = {"n_components": 3, "learner": learner, "random_state": 0}
        # a CSV file does not know its length, and auto wants to
        known = data[:-1] if learner == "auto" else data
        found = [Mixture(**how).fit(one).params_ for one in known]
        assert all(equal(one, found[0]) for one in found)
