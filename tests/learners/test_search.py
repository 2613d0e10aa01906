"""The search of auto for initial parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.errors import DegenerateComponentsWarning
from mixfold.core.rows import Rows
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.initializers.k_mle_plus_plus import KMlePlusPlus
from mixfold.initializers.random_rows import RandomRows
from mixfold.learners._em_in_memory import learn
from mixfold.learners._moves import (
    TRIAL,
    Merge,
    _applied,
    _disjoint,
    _moves,
    improve,
    left_out,
)
from mixfold.learners._splits import Split, Splits
from mixfold.learners.auto import Auto
from mixfold.learners.candidates import draw
from mixfold.learners.search import _finalists
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def grid(side: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(side * side, size=n)
    centers = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    return 8.0 * centers[labels] + rng.normal(size=(n, 2)), labels


@pytest.mark.parametrize("seed", range(3))
def test_moves_never_lower_the_likelihood_and_mend_a_grid(seed: int) -> None:
    x, _ = grid(4, 1600, seed)
    backend = Threads(MixtureModel(Gaussian(), 16, 2), 1)
    start = learn(TRIAL, backend, draw(backend, RandomRows(), Rows(x), [seed]), Rows(x))
    after = improve(backend, start, Rows(x), [seed])
    assert after[1] >= start[1]
    truth = Mixture(n_components=16, init=8.0 * np.indices((4, 4)).reshape(2, -1).T, learner="em")
    assert after[1] > truth.fit(x).score(x) - 1e-3 > start[1]


@pytest.mark.parametrize("seed", range(3))
def test_splits_of_a_normal_component_are_not_expected_to_help(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = Rows(rng.normal(size=(6000, 10)))
    backend = Threads(MixtureModel(Gaussian(), 1, 10), 1)
    params, score = learn(TRIAL, backend, draw(backend, RandomRows(), rows, [seed]), rows)
    density = backend.posterior(params, rows, False)[0]
    assert density.mean() == pytest.approx(score, abs=1e-6)
    (split,) = Splits(backend, rows).best(params, np.ones((6000, 1)), density, rng)
    assert split.gain < 0.0


def test_components_that_have_not_changed_keep_their_splits() -> None:
    x, _ = grid(2, 2000, 0)
    rows = Rows(x)
    backend = Threads(MixtureModel(Gaussian(), 3, 2), 1)
    params, _ = learn(TRIAL, backend, draw(backend, RandomRows(), rows, [0]), rows)
    density, found = backend.posterior(params, rows)
    splits, rng = Splits(backend, rows), np.random.default_rng(0)
    first = splits.best(params, np.asarray(found), np.asarray(density), rng)
    changed = np.asarray(found)[:, [1, 0, 2]]
    params = MixtureParams(params.weights[[1, 0, 2]], params.components)
    second = splits.best(params, changed, np.asarray(density), rng)
    same = {id(split) for split in first} & {id(split) for split in second}
    assert same == {id(split) for split in first if split.component == 2}
    # what was found again is the split of the other component before
    gains = [{split.component: split.gain for split in each} for each in (first, second)]
    assert gains[1][0] == pytest.approx(gains[0][1], rel=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_auto_finds_a_small_cluster_beside_long_ones(seed: int) -> None:
    """Two clusters and a part of a third: no skewness or kurtosis where they differ."""
    rng = np.random.default_rng(seed)
    weights, lengths = [0.5, 0.3, 0.15, 0.05], np.array([10.0, 30.0, 15.0, 20.0])
    labels = rng.choice(4, 6000, p=weights)
    x = rng.normal(size=(6000, 10))
    x[:, 1] *= lengths[labels]
    x[:, 0] += 5.0 * labels
    x = x @ np.linalg.qr(rng.normal(size=(10, 10)))[0]
    fitted = Mixture(n_components=4, random_state=seed).fit(x)
    assert sorted(fitted.weights_) == pytest.approx(sorted(weights), abs=0.02)


def test_moves_serve_other_families() -> None:
    rng = np.random.default_rng(0)
    x = rng.poisson(np.array([1.0, 20.0, 100.0, 300.0])[rng.integers(4, size=500)])[:, None]
    rows = Rows(x.astype(float))
    backend = Threads(MixtureModel(Poisson(), 4, 1), 1)
    start = learn(TRIAL, backend, draw(backend, KMlePlusPlus(), rows, [0]), rows)
    assert improve(backend, start, rows, [0])[1] >= start[1]


def rough(n: int, d: int, seed: int) -> np.ndarray:
    """Rows without clear clusters, whose likelihood has many maxima."""
    rng = np.random.default_rng(seed)
    wide = rng.normal(size=(n, d)) * rng.gamma(4.0, size=(n, 1))
    return np.asarray(wide + rng.integers(9, size=(n, d)))


@pytest.mark.parametrize(
    ("form", "k", "n", "d", "prior_strength"),
    [
        ("full", 4, 300, 2, 1.0),
        ("diag", 5, 200, 3, 1.0),
        ("full", 3, 600, 4, 0.0),
        ("diag", 4, 900, 2, 0.0),
    ],
)
def test_more_starts_never_end_below(
    form: str, k: int, n: int, d: int, prior_strength: float
) -> None:
    """Neither in what is maximised nor in the likelihood alone."""
    x = rough(n, d, k)
    few, more = (
        Mixture(
            Gaussian(form),
            k,
            learner=Auto(starts=starts, prior_strength=prior_strength),
            random_state=d,
        ).fit(x)
        for starts in (10, 30)
    )
    assert more.lower_bound_ >= few.lower_bound_ - 1e-12
    assert more.score(x) >= few.score(x) - 1e-4


@pytest.mark.parametrize(
    ("form", "k", "n", "d", "seed"),
    [("full", 4, 40, 2, 0), ("full", 4, 40, 2, 14), ("full", 3, 50, 3, 13), ("diag", 5, 60, 3, 5)],
)
@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_a_higher_sum_with_the_prior_does_not_replace_a_higher_likelihood(
    form: str, k: int, n: int, d: int, seed: int
) -> None:
    x = rough(n, d, seed)
    few, more = (
        Mixture(
            Gaussian(form), k, learner=Auto(starts=s, prior_strength=1.0), random_state=seed
        ).fit(x)
        for s in (10, 30)
    )
    assert more.score(x) >= few.score(x) - 1e-4
    assert more.lower_bound_ >= few.lower_bound_ - 1e-12


def test_moves_of_few_components_are_tried_with_every_merge() -> None:
    """Of three components each can be split, and the others merged, or one of them left out."""
    x, _ = grid(2, 800, 0)
    backend = Threads(MixtureModel(Gaussian(), 3, 2), 1)
    params, _ = learn(TRIAL, backend, draw(backend, RandomRows(), Rows(x), [0]), Rows(x))
    moves = _moves(Splits(backend, Rows(x)), params, np.random.default_rng(0))
    among_others = [each for each in moves if each[0].component not in each[1].pair]
    merged = [each for each in among_others if len({*each[1].pair}) == 2]
    assert sorted(split.component for split, _ in merged) == [0, 1, 2]
    own = [each for each in moves if each[0].component in each[1].pair]
    assert sorted(split.component for split, _ in own) == [0, 1, 2]
    assert all(len({*merge.pair}) == 2 for _, merge in own)


def two_in_a_column(seed: int) -> np.ndarray:
    """Column 0 holds 0 and 3 often, and is otherwise normal; column 1 is normal."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3000, 2))
    x[:, 0] = np.select([rng.random(3000) < 0.2, rng.random(3000) < 0.2], [0.0, 3.0], 4.0 * x[:, 0])
    return x


@pytest.mark.parametrize("form", ["full", "diag"])
@pytest.mark.parametrize("seed", range(3))
def test_frequent_values_become_components(form: str, seed: int) -> None:
    x = two_in_a_column(seed)
    with pytest.warns(DegenerateComponentsWarning):
        fitted = Mixture(Gaussian(form), 3, random_state=seed).fit(x)
    narrow = np.sort(fitted.means_[np.argsort(fitted.weights_)[:2], 0])
    np.testing.assert_allclose(narrow, [0.0, 3.0], atol=0.01)


def test_a_move_that_leaves_out_a_component_loses_what_the_others_lose() -> None:
    x, _ = grid(2, 400, 0)
    backend, rows = Threads(MixtureModel(Gaussian(), 3, 2), 1), Rows(x)
    params, _ = learn(TRIAL, backend, draw(backend, RandomRows(), rows, [0]), rows)
    density, responsibilities = backend.posterior(params, rows)
    log_density = backend.model.family.log_density(params.components, x)
    for (k, _), loss in left_out(params, rows, np.asarray(responsibilities)):
        rest = np.delete(np.arange(3), k)
        share = params.weights[rest] / params.weights[rest].sum()
        without = np.log(np.exp(log_density[:, rest]) @ share)
        assert loss == pytest.approx(np.sum(density - without), rel=1e-6)


def test_a_part_of_a_component_is_exchanged_with_another() -> None:
    """The light part takes the other's place, and the sums of the statistics stay."""
    x, _ = grid(2, 400, 0)
    backend, rows = Threads(MixtureModel(Gaussian(), 3, 2), 1), Rows(x)
    params, _ = learn(TRIAL, backend, draw(backend, RandomRows(), rows, [0]), rows)
    moves = _moves(Splits(backend, rows), params, np.random.default_rng(0))
    split, merge = next(each for each in moves if each[0].component in each[1].pair)
    after = _applied(backend.model, params, [(split, merge)])
    (other,) = {*merge.pair} - {split.component}
    light = int(np.argmin(split.blocks[0].weight))
    np.testing.assert_allclose(after.components.means[other], split.blocks[0].mean[light])
    (third,) = {0, 1, 2} - {*merge.pair}
    np.testing.assert_allclose(after.weights[third], params.weights[third])
    assert after.weights.sum() == pytest.approx(1.0)


def test_moves_that_are_made_at_once_concern_different_components() -> None:
    moves = [
        (Split(0, 5.0, ()), Merge((1, 2), 0.0)),
        (Split(3, 4.0, ()), Merge((2, 4), 0.0)),
        (Split(4, 3.0, ()), Merge((5, 6), 1.0)),
    ]
    assert _disjoint(moves) == [moves[0], moves[2]]


def test_candidates_that_begin_slowly_are_followed() -> None:
    """The best two of those within the margin are kept, equal ones once, in their order."""
    backend = Threads(MixtureModel(Gaussian(), 2, 2), 1)
    rows = Rows(grid(2, 100, 0)[0])
    params = draw(backend, RandomRows(), rows, [0])
    tried = [(params, score) for score in (-3.0, -1.5, -1.0, -1.0 + 1e-5, -1.2)]
    scores = [score for _, score in _finalists(backend, tried, rows, 2, 1.0)]
    assert scores == [-1.0 + 1e-5, -1.2]
    scores = [score for _, score in _finalists(backend, tried, rows, 5, 0.2)]
    assert scores == [-1.0 + 1e-5, -1.2]


def test_auto_finds_elongated_sphered_and_nested_clusters() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=2000)
    turn = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    long = rng.normal(size=(2000, 10)) * np.r_[40.0, np.ones(9)]
    long[:, 1] += 6.0 * labels
    fitted = Mixture(n_components=3, random_state=0).fit_predict(long @ turn)
    assert adjusted_rand_score(labels, fitted) > 0.95
    nested = rng.normal(size=(2000, 4)) * (8.0**labels)[:, None]
    fitted = Mixture(n_components=3, random_state=0).fit_predict(nested)
    assert adjusted_rand_score(labels, fitted) > 0.8


def test_a_sorted_file_gives_the_same_quality(tmp_path: Path) -> None:
    x, labels = grid(3, 6000, 0)
    x = x[np.argsort(labels, kind="stable")]
    path = tmp_path / "sorted.csv"
    table = pd.DataFrame(x, columns=["a", "b"])
    table.to_csv(path, index=False)
    auto = Auto(sample_size=900)
    from_file = Mixture(n_components=9, learner=auto, random_state=0).fit(path)
    in_memory = Mixture(n_components=9, learner=auto, random_state=0).fit(x)
    assert from_file.score(table) > in_memory.score(x) - 1e-3
