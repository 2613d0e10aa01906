"""Constant, tied and discrete columns: densities stay sane, the user is told, settings win."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mixfold
from mixfold import Gaussian, GaussianMixture, Mixture
from mixfold.backends.threads import Threads
from mixfold.core.errors import DegenerateComponentsWarning
from mixfold.core.rows import Rows
from mixfold.core.variance_floors import column_limits
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.em import EM
from mixfold.learners.online_em import OnlineEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams

RNG = np.random.default_rng(0)
CONTINUOUS = RNG.normal(size=(600, 2)) + np.repeat([[0.0, 0.0], [4.0, 1.0]], 300, axis=0)
CONSTANT = np.c_[CONTINUOUS, np.full(600, 7.0)]
STRUCTURES = ("full", "tied", "diag")
TOLD = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


def fitted(x: Any, k: int = 2, family: Any = "gaussian", **more: Any) -> Mixture:
    return Mixture(family, k, random_state=0, **more).fit(x)


def learn_in_blocks(model: Mixture, size: int = 50) -> None:
    for first in range(0, len(CONSTANT), size):
        model.partial_fit(CONSTANT[first : first + size])


# the limits themselves


def test_steps_of_recorded_values_give_their_rounding_variance() -> None:
    rng = np.random.default_rng(1)
    steps = np.array([1.0, 0.25, 1e-3, 1.0 / 47.0])
    x = np.round(rng.normal(size=(5000, 4)) * 50.0 * steps / steps) * steps
    np.testing.assert_allclose(column_limits(x)[0], steps**2 / 12.0, rtol=1e-6)
    narrow = x.astype(np.float32)
    np.testing.assert_allclose(column_limits(narrow)[0], steps**2 / 12.0, rtol=1e-2)


def test_a_constant_column_has_a_thousandth_of_its_value() -> None:
    x = np.tile([0.0, 0.25, -7.0, 1e6], (50, 1))
    np.testing.assert_allclose(np.sqrt(column_limits(x)[0]), [1e-3, 1e-3, 7e-3, 1e3])
    np.testing.assert_allclose(np.sqrt(column_limits(x[:1])[0]), [1e-3, 1e-3, 7e-3, 1e3])


def test_continuous_columns_have_a_tiny_share_of_their_variance() -> None:
    x = np.random.default_rng(2).normal(size=(4000, 3)) * [1.0, 1e-30, 1e30]
    np.testing.assert_allclose(column_limits(x)[0], 1e-8 * x.var(axis=0), rtol=0.1)
    x[0] = 1e5 * x.max(axis=0)  # an outlier does not raise the limit
    np.testing.assert_allclose(column_limits(x)[0], 1e-8 * x[1:].var(axis=0), rtol=0.1)


def test_a_rare_value_keeps_its_variance() -> None:
    x = (np.random.default_rng(3).random((2000, 1)) < 0.01).astype(float)
    assert column_limits(x)[0][0] == pytest.approx(0.01 * x.var())
    zeros = np.where(
        np.random.default_rng(4).random((2000, 1)) < 0.3, 0.0, RNG.normal(size=2000)[:, None]
    )
    assert column_limits(zeros)[0][0] == pytest.approx(1e-6 * zeros.var(), rel=0.9)


def test_the_step_of_a_column_does_not_hang_on_few_rows() -> None:
    x = np.round(np.random.default_rng(5).normal(size=(4000, 1)) * 20.0)
    x[:2] = [[0.001], [0.002]]  # among 4,000 rows that are recorded in steps of one
    np.testing.assert_allclose(column_limits(x)[0], 1.0 / 12.0, rtol=1e-6)


def test_robust_variances_of_columns() -> None:
    x = np.random.default_rng(6).normal(size=(4000, 2)) * [1.0, 30.0]
    x[:40] *= 1e6
    np.testing.assert_allclose(column_limits(x)[1], [1.0, 900.0], rtol=0.1)


# what a user sees


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("rows", [1, 3, 100])
def test_far_rows_do_not_widen_the_other_components(covariance: str, rows: int) -> None:
    """The prior and the floors are fractions of robust variances: one component is lost at most."""
    rng = np.random.default_rng(7)
    centres = 6.0 * np.array([[-1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    x = rng.normal(size=(3000, 2)) + centres[rng.integers(3, size=3000)]
    kept, held_out = x[:2000], x[2000:]
    clean = Mixture(Gaussian(covariance), 3, random_state=0).fit(kept).score(held_out)
    kept[:rows] += 1e6 * rng.normal(size=(rows, 2))
    for model in (
        Mixture(Gaussian(covariance), 4, random_state=0).fit(kept),
        Mixture(Gaussian(covariance), 4, random_state=0).partial_fit(kept),
    ):
        assert model.score(held_out) > clean - 0.1


@pytest.mark.parametrize("covariance", STRUCTURES)
@pytest.mark.parametrize(
    "learner", ["auto", "em", "k-mle", "online-em", "mini-batch-em", "incremental-em"]
)
def test_rows_that_differ_by_little_have_densities_that_differ_by_little(
    learner: str, covariance: str
) -> None:
    with pytest.warns(DegenerateComponentsWarning, match=r"column 2 \(2 of 2 components\)") as said:
        model = fitted(CONSTANT, family=Gaussian(covariance), learner=learner)
    assert len(said) == 1
    assert model.n_degenerate_ == 2
    rows = CONSTANT[[0, 0]]
    rows[1, 2] += 1e-3
    near, far = model.score_samples(rows)
    assert -10.0 < far < near < 10.0
    assert near - far < 1.0


def test_the_warning_names_the_columns_and_the_remedy() -> None:
    table = pd.DataFrame(CONSTANT, columns=["a", "b", "site"])
    with pytest.warns(DegenerateComponentsWarning, match="'site'") as said:
        fitted(table)
    text = str(said[0].message)
    assert "reg_covar" in text
    assert "floor" in text
    assert "'a'" not in text
    assert said[0].filename == __file__


@TOLD
def test_components_on_integers_are_not_narrower_than_rounding() -> None:
    x = np.random.default_rng(5).integers(0, 6, size=(500, 2)).astype(float)
    model = fitted(x, 12, Gaussian("diag"), learner=EM(max_iter=60))
    assert model.covariances_.min() >= 0.99 * min(1.0 / 12.0, 0.01 * x.var(axis=0).min())
    assert model.score_samples(x).max() < 5.0


@TOLD
def test_degenerate_components_are_counted_once() -> None:
    model = Mixture(n_components=3, learner="online-em", random_state=0)
    learn_in_blocks(model)
    assert model.n_degenerate_ == 3


def test_a_stream_warns_once() -> None:
    model = Mixture(n_components=2, random_state=0)
    learn_in_blocks(model)
    with pytest.warns(DegenerateComponentsWarning):
        assert model.n_degenerate_
    learn_in_blocks(model)
    assert model.n_degenerate_


@TOLD
@pytest.mark.parametrize("learner", ["auto", "mini-batch-em"])
def test_a_column_that_begins_to_vary_late(learner: str) -> None:
    """As in electricity prices: a constant for thousands of rows, then values around it."""
    rng = np.random.default_rng(6)
    x = np.c_[rng.normal(size=4000), np.full(4000, 0.0035)]
    x[2000:, 1] = rng.normal(0.4, 0.1, size=2000)
    model, scores = Mixture(n_components=2, learner=learner, random_state=0), []
    for first in range(0, 4000, 500):
        rows = x[first : first + 500]
        if first:
            scores.append(model.score(rows))
        model.partial_fit(rows)
    assert min(scores) > -2e5  # scikit-learn's reg_covar of 1e-6 gives -8.5e4
    assert scores[-1] > -3.0


def test_a_weight_of_two_is_a_row_twice() -> None:
    weight = np.arange(600) % 3
    whole = fitted(np.repeat(CONTINUOUS, weight, axis=0))
    model = Mixture(n_components=2, random_state=0).fit(CONTINUOUS, sample_weight=weight)
    np.testing.assert_array_equal(
        model._learned.model.family.column_floors, whole._learned.model.family.column_floors
    )


# what a user sets


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_settings_of_the_user_win(covariance: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(CONSTANT, family=Gaussian(covariance, reg_covar=1e-6), learner="em")
        other = fitted(CONSTANT, family=Gaussian(covariance, floor=1e-4), learner="em")
    sigma = model.covariances_
    third = sigma[..., 2] if covariance == "diag" else sigma[..., 2, 2]
    np.testing.assert_allclose(third, 1e-6)
    assert other._learned.model.family.column_floors is None


def test_the_drop_in_takes_no_limits() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GaussianMixture(2, random_state=0).fit(CONSTANT)
    np.testing.assert_allclose(model.covariances_[:, 2, 2], 1e-6)


@pytest.mark.parametrize("covariance", [*STRUCTURES, "spherical"])
def test_continuous_data_are_learned_as_before(covariance: str) -> None:
    model = fitted(CONTINUOUS, family=Gaussian(covariance))
    plain = fitted(CONTINUOUS, family=Gaussian(covariance, floor=1e-8))
    np.testing.assert_array_equal(model.covariances_, plain.covariances_)
    np.testing.assert_array_equal(model.means_, plain.means_)
    assert model.n_degenerate_ == 0
    single = fitted(CONTINUOUS, 1)
    np.testing.assert_allclose(single.covariances_[0], np.cov(CONTINUOUS.T, ddof=0))


def test_one_component_keeps_the_variance_of_a_rare_value() -> None:
    x = np.zeros((400, 1))
    x[:4] = 1.0
    np.testing.assert_allclose(fitted(x, 1).covariances_[0, 0, 0], x.var())


# limits are part of what is learned


@TOLD
@pytest.mark.parametrize("learner", [OnlineEM(), OnlineEM(batch_size=32)])
def test_limits_do_not_depend_on_how_rows_are_cut(learner: Any) -> None:
    found = []
    for size in (1, 7, 600):
        model = Mixture(n_components=2, learner=learner, random_state=0)
        learn_in_blocks(model, size)
        found.append(model)
    for model in found[1:]:
        np.testing.assert_array_equal(model.covariances_, found[0].covariances_)
        np.testing.assert_array_equal(
            model._learned.model.family.column_floors,
            found[0]._learned.model.family.column_floors,
        )


@TOLD
def test_limits_are_saved(tmp_path: Path) -> None:
    model = fitted(CONSTANT)
    model.save(tmp_path / "model")
    other = mixfold.load(tmp_path / "model")
    for one in (model, other):
        one.partial_fit(CONSTANT[::-1].copy())
    np.testing.assert_array_equal(model.covariances_, other.covariances_)
    np.testing.assert_allclose(model._learned.model.family.column_floors[2], 4.9e-5)


@TOLD
def test_models_with_other_limits_are_merged() -> None:
    start = fitted(CONSTANT)
    varied = CONSTANT + [[0.0, 0.0, 1.0]] * np.arange(600)[:, None]
    parts = [fitted(x, init=start) for x in (CONSTANT, varied)]
    one, two = (mixfold.merge(order) for order in (parts, parts[::-1]))
    np.testing.assert_array_equal(one.covariances_, two.covariances_)
    lowest = [part._learned.model.family.column_floors for part in parts]
    np.testing.assert_array_equal(one._learned.model.family.column_floors, np.minimum(*lowest))


@pytest.mark.parametrize("covariance", [*STRUCTURES, "spherical"])
def test_rows_one_by_one_have_the_limits_of_the_reference(covariance: str) -> None:
    """The native M-step is given the same numbers as the readable one."""
    family = Gaussian(covariance).with_limits(CONSTANT)
    model = MixtureModel(family, 2, 3)
    rng = np.random.default_rng(0)
    start = model.maximize(model.expected(mixture(model, rng)))[0]
    ends = []
    for backend in (Threads(model, 1), Threads(model, 1, ReferenceKernel(model))):
        learner = OnlineEM(batch_size=1, warmup=0)
        state, _ = learner.step(backend, learner.init(backend, start), Rows(CONSTANT[:200]))
        assert isinstance(state.params, MixtureParams)
        ends.append((state.params.components.scale, state.n_degenerate))
    np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=1e-6)
    assert ends[0][1] == ends[1][1]


def mixture(model: MixtureModel, rng: np.random.Generator) -> Any:
    return MixtureParams(np.full(model.k, 1.0 / model.k), model.family.example(model.k, 3, rng))
