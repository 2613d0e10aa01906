"""Credible intervals that allow for the components of rows being unknown."""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import numpy as np
import pytest

import mixfold
from mixfold import Gaussian, Mixture, MomentMatching, OnlineVB, Poisson
from mixfold.core.rows import Array, Rows
from mixfold.core.value import equal
from mixfold.families.gaussian import GaussianParams
from mixfold.fitting.component_order import reorder
from mixfold.models.corrected_intervals import corrected
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.models.score_information import (
    ALL_TILES,
    TILE,
    Path,
    ScoreInformation,
    WhitenedScores,
    spread,
)

LEARNERS = [MomentMatching(), OnlineVB(form="streaming"), OnlineVB(sparse=True)]


def pair(distance: float, n: int, seed: int, d: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    return distance * rng.integers(2, size=(n, 1)) + rng.normal(size=(n, d))


def fitted(learner: Any, x: Array, family: Any = "gaussian") -> Mixture:
    return Mixture(family, 2, learner=learner, random_state=0, n_threads=1).fit(x)


def information_of(model: Mixture) -> ScoreInformation:
    found: ScoreInformation = model._learned.stream.state.information
    return found


def true_params(distance: float) -> tuple[MixtureModel, MixtureParams]:
    means, scale = np.array([[0.0], [distance]]), np.ones((2, 1, 1))
    return MixtureModel(Gaussian(), 2, 1), MixtureParams(
        np.array([0.5, 0.5]), GaussianParams(means, scale)
    )


def test_the_information_left_is_that_of_second_derivatives() -> None:
    """I - M at the true parameters of many rows, against differences of the log density."""
    model, params = true_params(2.0)
    x = pair(2.0, 4000, 0)
    scores = WhitenedScores(model, params)
    left = np.eye(6) - scores.missing(x, np.ones(len(x))) / len(x)
    directions = np.vstack([scores.directions_of_weights()[:1], np.eye(6)[2:]])

    def log_density(place: Array) -> Array:
        """Coordinates: the first weight, and means and variances in units of their errors."""
        w = 0.5 + place[0] * 0.5
        means = np.array([place[1], 2.0 + place[3]])
        variances = 1.0 + np.sqrt(2.0) * np.array([place[2], place[4]])
        logs = -0.5 * np.square(x - means) / variances - 0.5 * np.log(2.0 * np.pi * variances)
        return np.asarray(np.logaddexp.reduce(logs + np.log([w, 1.0 - w]), axis=1))

    step, base = 1e-3, np.zeros(5)
    units = np.array([1.0, np.sqrt(2.0), np.sqrt(2.0), np.sqrt(2.0), np.sqrt(2.0)])
    found = np.zeros((5, 5))
    for a in range(5):
        for b in range(5):
            signs = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
            for one, other, sign in signs:
                moved = base.copy()
                moved[a] += one * step * units[a]
                moved[b] += other * step * units[b]
                found[a, b] -= sign * log_density(moved).mean() / (4.0 * step**2)
    # along the weights, and along each local coordinate of the components
    norm = np.linalg.norm(directions[0])
    basis = np.vstack([directions[0] / norm, directions[1:]])
    np.testing.assert_allclose(
        np.linalg.eigvalsh(basis @ left @ basis.T), np.linalg.eigvalsh(found), atol=0.08
    )


def test_separated_components_have_all_the_information() -> None:
    model, params = true_params(40.0)
    information = ScoreInformation.nothing(model, params, 1)
    assert information is not None
    found = information.after(model, lambda: params, Rows(pair(40.0, TILE, 0)))
    assert found.rows == TILE
    np.testing.assert_allclose(found.shares()[0], 1.0, atol=1e-9)


def test_the_spread_of_one_step_after_another() -> None:
    """Against a simulation of the recursion, error <- (1 - g R) error + g sqrt(R / rows) noise.

    The start is the estimate of highest likelihood from one row of every fourth step.
    """
    shares, steps, rows = np.array([0.3, 0.6, 1.0]), 200, 4
    path = Path(50.0, steps, rows, lambda t: 1.0 / (1.0 + t), steps * rows)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(steps, rows, 5_000, 3)) * np.sqrt(shares)
    error = noise[::4, 0].sum(axis=0) / (shares * 50.0)
    for t in range(1, steps + 1):
        error = error + (noise[t - 1].mean(axis=0) - shares * error) / (1.0 + t)
    simulated = error.var(axis=0) * steps * rows
    np.testing.assert_allclose(spread(shares, path), np.maximum(simulated, 1.0 / shares), rtol=0.05)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_separated_clusters_are_hardly_corrected(learner: Any) -> None:
    model = fitted(learner, pair(12.0, 1500, 0, d=2))
    for name, (low, high) in model.credible_intervals(0.9).items():
        plain = model.credible_intervals(0.9, corrected=False)[name]
        assert ((high - low) >= (plain[1] - plain[0]) * (1.0 - 1e-9)).all()
        assert ((high - low) <= (plain[1] - plain[0]) * 1.05).all()


@pytest.mark.parametrize("learner", LEARNERS[:2], ids=repr)
def test_coverage_where_components_overlap(learner: Any) -> None:
    truth, held, plain, n = np.array([0.0, 3.0]), 0, 0, 16
    for seed in range(n):
        model = fitted(learner, pair(3.0, 1200, seed))
        for wide in (True, False):
            low, high = (e[:, 0] for e in model.credible_intervals(0.9, wide)["means"])
            inside = int(((low <= truth) & (truth <= high)).sum())
            held, plain = held + inside * wide, plain + inside * (not wide)
    assert held / (2 * n) > 0.75
    assert plain / (2 * n) < 0.7


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_intervals_do_not_depend_on_blocks(learner: Any, tmp_path: File) -> None:
    x = pair(3.0, 900, 1)
    whole, parts = (Mixture(n_components=2, learner=learner, random_state=0) for _ in range(2))
    whole.partial_fit(x)
    for i, first in enumerate(range(0, 900, 90)):
        parts.partial_fit(x[first : first + 90])
        if i == 4:
            parts.save(tmp_path / "half.mixfold")
            parts = mixfold.load(tmp_path / "half.mixfold")
    assert equal(information_of(whole), information_of(parts))
    for one, other in zip(
        whole.credible_intervals()["means"], parts.credible_intervals()["means"], strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_merged_models_have_the_sums_of_all(tmp_path: File) -> None:
    x = pair(3.0, 3 * TILE, 2)
    common = Mixture(n_components=2, learner=MomentMatching(), random_state=0)
    common.partial_fit(x[:TILE]).save(tmp_path / "common.mixfold")
    parts = [mixfold.load(tmp_path / "common.mixfold") for _ in range(2)]
    for part, first in zip(parts, (TILE, 2 * TILE), strict=True):
        part.partial_fit(x[first : first + TILE])
    before, merged = information_of(common), information_of(mixfold.merge(parts))
    assert (merged.rows, merged.weight) == (3 * TILE, 3.0 * TILE)
    added = sum(information_of(part).missing - before.missing for part in parts)
    np.testing.assert_allclose(merged.missing, before.missing + added, rtol=1e-12)


def test_rows_are_left_out_as_they_become_many() -> None:
    model, params = true_params(3.0)
    information = ScoreInformation.nothing(model, params, 1)
    assert information is not None
    x = pair(3.0, 60 * TILE, 3)
    for first in range(0, len(x), 100):
        rows = Rows(x[first : first + 100])
        while len(rows):
            some = rows.cut(0, information.rows_until_full)
            rows = rows.cut(len(some), len(rows))
            information = information.after(model, lambda: params, some)
    assert ALL_TILES < information.tiles < 30
    assert len(information.waiting) < TILE
    # each tile counts for the rows that were left out before it
    assert 50 * TILE < information.rows <= 60 * TILE
    every = WhitenedScores(model, params).missing(x, np.ones(len(x))) / len(x)
    np.testing.assert_allclose(information.missing / information.weight, every, atol=0.06)


@pytest.mark.parametrize("d", [1, 2])
def test_intervals_of_every_parameter_are_as_wide_as_its_error(d: int) -> None:
    """A learner at the highest likelihood, against the inverse of the information."""
    model = MixtureModel(Gaussian(), 2, d)
    means = 2.0 * np.arange(2.0)[:, None] * np.ones(d)
    params = MixtureParams(np.array([0.5, 0.5]), GaussianParams(means, np.array([np.eye(d)] * 2)))
    x, scores = pair(2.0, 8 * TILE, 6, d), WhitenedScores(model, params)
    information = ScoreInformation.nothing(model, params, 1)
    assert information is not None
    for first in range(0, len(x), TILE):
        information = information.after(model, lambda: params, Rows(x[first : first + TILE]))
    plain = {
        "weights": (np.full(2, 0.45), np.full(2, 0.55)),
        "means": (means - 0.1, means + 0.1),
        "covariances": (np.full((2, d, d), 0.9), np.full((2, d, d), 1.0 / 0.9)),
    }
    path = Path(np.inf, 0, 1.0, lambda t: 0.0, 1.0)
    found = corrected(plain, model, params, information, path, {"weights": 1.0})
    inverse = np.linalg.inv(np.eye(len(information.missing)) - information.missing / len(x))
    for shown in scores.local.shown():
        slopes = scores.directions(shown)
        ratio = np.einsum("ij,jk,ik->i", slopes, inverse, slopes) / np.square(slopes).sum(axis=1)
        where = (shown.components, *shown.columns.T)
        low, high = (end[where] for end in found[shown.name])
        before = [end[where] for end in plain[shown.name]]
        if shown.scale == "log":
            low, high, before = np.log(low), np.log(high), [np.log(end) for end in before]
        np.testing.assert_allclose(high - low, np.sqrt(ratio) * (before[1] - before[0]), rtol=1e-9)
    for end in found["covariances"]:
        np.testing.assert_array_equal(end, end.swapaxes(1, 2))
    half = corrected(plain, model, params, information, path, {"weights": 1.0, "means": 4.0})
    np.testing.assert_array_equal(half["covariances"], found["covariances"])
    assert (half["means"][1] < found["means"][1]).all()


def test_components_in_another_order() -> None:
    model = fitted(MomentMatching(), pair(3.0, 600, 4, d=2))
    information, order = information_of(model), np.array([1, 0])
    turned = reorder(information, order)
    assert equal(reorder(turned, order), information)
    found = np.linalg.eigvalsh(turned.missing)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(information.missing), atol=1e-9)
    np.testing.assert_array_equal(turned.missing[2:7, 2:7], information.missing[7:, 7:])


def test_counts_and_wide_tables() -> None:
    rng = np.random.default_rng(0)
    x = rng.poisson(np.where(rng.random(2000) < 0.4, 3.0, 7.0))[:, None].astype(float)
    model = fitted(MomentMatching(), x, Poisson())
    low, high = model.credible_intervals(0.9)["means"]
    plain = model.credible_intervals(0.9, corrected=False)["means"]
    assert ((high - low) > 1.3 * (plain[1] - plain[0])).all()
    assert (low > 0.0).all()
    wide = fitted(MomentMatching(), rng.normal(size=(300, 30)))
    assert information_of(wide) is None
    for name, ends in wide.credible_intervals().items():
        np.testing.assert_array_equal(ends, wide.credible_intervals(corrected=False)[name])


def test_complete_rows_count_where_others_are_incomplete() -> None:
    x = pair(3.0, 2 * TILE, 5, d=2)
    x[::4, 1] = np.nan
    model = fitted(MomentMatching(), x, Gaussian("diag"))
    assert information_of(model).rows == 3 * TILE // 2
    low, high = model.credible_intervals()["means"]
    plain = model.credible_intervals(corrected=False)["means"]
    assert ((high - low) > 1.05 * (plain[1] - plain[0]))[:, 0].all()
