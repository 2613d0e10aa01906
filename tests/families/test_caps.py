"""Precisions that have a largest value, the learner that bounds them, and the bound of a score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixfold
from mixfold import (
    EM,
    Constant,
    Floored,
    Gaussian,
    IncrementalEM,
    Mixture,
    OnlineEM,
    OnlineKMLE,
    StepwiseEM,
)
from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Block, pack
from mixfold.core.value import equal
from mixfold.families.gaussian import GaussianParams
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.mixture_model import MixtureModel, MixtureParams

CAP = 20.0
COVARIANCES = ["full", "tied", "diag", "spherical"]


def narrow(n: int = 300, d: int = 4, seed: int = 0) -> Array:
    """Three clusters, far narrower in some directions than a cap of 20 allows."""
    rng = np.random.default_rng(seed)
    x = 0.02 * rng.normal(size=(n, d)) + rng.integers(3, size=n)[:, None]
    x[:, -1] = 0.0
    x[:, 0] += 0.5 * rng.normal(size=n)
    return x


def least_eigenvalue(model: Any) -> float:
    found = model.covariances_
    return float(np.linalg.eigvalsh(found).min() if found.ndim == 3 else np.min(found))


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(
    "learner",
    [
        EM(accelerate=True),
        OnlineEM(warmup=0),
        OnlineEM(batch_size=20),
        OnlineKMLE(strategy="lookahead"),
        IncrementalEM(batch_size=1),
        "auto",
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_no_variance_falls_below_what_the_cap_allows(covariance: str, learner: Any) -> None:
    x = narrow()
    model = Mixture(Gaussian(covariance, cap=CAP), 3, learner=learner, random_state=0).fit(x)
    if covariance == "tied":
        model.covariances_ = model.covariances_[None]
    assert least_eigenvalue(model) >= (1.0 - 1e-9) / CAP
    assert model.n_degenerate_ == 0
    free = Mixture(Gaussian(covariance), 3, learner=learner, random_state=0).fit(x)
    if covariance != "spherical":
        assert np.abs(free.covariances_).min() < 1e-3


def test_a_capped_maximum_is_the_best_of_those_that_are_allowed() -> None:
    rng = np.random.default_rng(0)
    family, d = Gaussian("full", cap=2.0), 3
    root = rng.normal(size=(d, d)) * [2.0, 1.0, 0.1]
    scatter = root.T @ root
    block = Block(np.ones(1), np.zeros((1, d)), pack(scatter)[None])

    def expected_log_density(factor: Array) -> float:
        precision = np.linalg.inv(factor @ factor.T)
        return -0.5 * float(np.trace(precision @ scatter) - np.linalg.slogdet(precision)[1])

    best = expected_log_density(family.maximize((block,))[0].scale[0])
    for _ in range(200):
        other = rng.normal(size=(1, d, d)) * 0.3 + np.linalg.cholesky(scatter + 0.1 * np.eye(d))
        allowed = family.structure.widened(np.linalg.cholesky(other @ other.swapaxes(1, 2)), 0.5)
        assert expected_log_density(allowed[0]) <= best + 1e-12


def test_a_cap_that_is_not_reached_changes_no_bit() -> None:
    x = narrow()
    for covariance in COVARIANCES:
        ends = [
            Mixture(Gaussian(covariance, cap=cap), 2, learner="em", random_state=0).fit(x[:, :3])
            for cap in (None, 1e6)
        ]
        assert equal(ends[0].params_, ends[1].params_)


@pytest.mark.parametrize("covariance", ["diag", "spherical"])
def test_compiled_steps_have_the_same_cap(covariance: str) -> None:
    model = MixtureModel(Gaussian(covariance, cap=CAP), 3, 4)
    learner = OnlineEM(warmup=5, schedule=Constant(0.05))
    components = model.family.example(3, 4, np.random.default_rng(1))
    start = MixtureParams(np.full(3, 1.0 / 3.0), components)
    ends = []
    for backend in (Threads(model, 1), Threads(model, 1, ReferenceKernel(model))):
        state, _ = learner.step(backend, learner.init(backend, start), Rows(0.1 * narrow()))
        ends.append(state)
    assert (ends[0].n_degenerate, ends[1].n_degenerate) == (0, 0)
    found, expected = (end.params.components for end in ends)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-9)
    np.testing.assert_allclose(found.means, expected.means, rtol=1e-9)
    assert found.scale.min() == pytest.approx(CAP**-0.5)


def test_extrapolations_stay_below_the_cap() -> None:
    for covariance in COVARIANCES:
        family = Gaussian(covariance, cap=4.0)
        params = family.example(2, 3, np.random.default_rng(0))
        coordinates = family.unconstrained(params) - 3.0
        moved = family.constrained(coordinates, params)
        assert family.parameter_bounds(moved)[1] >= 0.25 * (1.0 - 1e-9)


def test_caps_are_positive_and_beliefs_have_none() -> None:
    for cap in (0.0, -1.0, float("inf"), "x"):
        with pytest.raises(InvalidInputError, match="cap is"):
            Gaussian(cap=cap)
        with pytest.raises(InvalidInputError, match="cap is"):
            StepwiseEM(cap=cap)
    for learner in ("moment-matching", "online-vb"):
        with pytest.raises(InvalidInputError, match="without a cap"):
            Mixture(Gaussian("diag", cap=CAP), 2, learner=learner).fit(narrow())


# stepwise EM


def test_steps_fall_to_a_floor() -> None:
    steps = Floored(first=0.05, alpha=0.25, least=0.001)(np.arange(1.0, 2000.0))
    np.testing.assert_allclose(steps[:10], 0.05 * np.arange(1.0, 11.0) ** -0.75)
    assert (np.diff(steps) <= 0.0).all()
    assert steps[-1] == 0.001
    with pytest.raises(InvalidInputError, match="least is"):
        Floored(first=0.1, least=0.5)


@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
def test_stepwise_em_alone_caps_precisions(batch_size: int, tmp_path: Path) -> None:
    x = narrow(600)
    learner = StepwiseEM(batch_size=batch_size)
    model = Mixture(Gaussian("diag"), 3, learner=learner, random_state=0).fit(x)
    assert model.covariances_.min() == pytest.approx(1.0 / CAP)
    assert model.covariances_.max() > 1.1 / CAP
    assert model.n_degenerate_ == 0
    model.save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m").partial_fit(narrow(50, seed=1))
    assert again.covariances_.min() == pytest.approx(1.0 / CAP)
    tighter = Mixture(Gaussian("diag", cap=5.0), 3, learner=learner, random_state=0).fit(x)
    assert tighter.covariances_.min() == pytest.approx(0.2)
    free = Mixture(Gaussian("diag"), 3, learner=replace(learner, cap=None), random_state=0).fit(x)
    assert free.covariances_.min() < 0.01


def test_stepwise_em_is_online_em_with_other_settings() -> None:
    x = narrow(400)
    stepwise = Mixture(Gaussian("diag"), 3, learner="stepwise-em", random_state=0).fit(x)
    begun = stepwise._learned.stream.state.start
    assert np.abs(begun.components.means).max() <= 0.1
    assert (begun.components.scale == np.sqrt(1.0 / CAP)).all()
    learner = OnlineEM(schedule=Floored(), warmup=40, max_iter=3)
    family = Gaussian("diag", cap=CAP)
    backend = Threads(MixtureModel(family, 3, 4), 1)
    state = learner.init(backend, begun)
    for _ in range(3):
        state, _ = learner.step(backend, state, Rows(x))
        state, _ = learner.end_pass(backend, state)
    given = Mixture(Gaussian("diag"), 3, learner="stepwise-em", init=begun).fit(x)
    assert equal(state.params, given.params_)
    np.testing.assert_allclose(stepwise.means_, given.means_, rtol=1e-9)


def test_stepwise_em_warms_up_once() -> None:
    x = narrow(400)
    model = Mixture(Gaussian("diag"), 3, learner="stepwise-em", random_state=0)
    learner: Any = model._learner().resolve(400, 4, False)
    assert learner.warmup == 40
    backend = Threads(MixtureModel(Gaussian("diag", cap=CAP), 3, 4), 1)
    components = GaussianParams(x[:3], np.full((3, 4), 0.3))
    state = learner.init(backend, MixtureParams(np.full(3, 1.0 / 3.0), components))
    held, _ = learner.step(backend, state, Rows(x[:40]))
    assert equal(held.params, state.params)
    assert not equal(held.statistics, state.statistics)
    model.fit(x)
    before = model.means_.copy()
    model.partial_fit(x[:1])
    assert not equal(model.means_, before)


# the bound


def test_the_bound_is_of_the_best_component(tmp_path: Path) -> None:
    x = narrow(500)
    model = Mixture(Gaussian("diag", cap=2.0), 4, random_state=0).fit(x)
    joint = model._learned.model.log_joint(model.params_, x)
    assert model.score_bound(x) == pytest.approx(joint.max(axis=1).mean())
    assert model.score(x) - np.log(4.0) <= model.score_bound(x) < model.score(x)
    one = Mixture(Gaussian("diag"), 1).fit(x[:, :3])
    assert one.score_bound(x[:, :3]) == pytest.approx(one.score(x[:, :3]))


def test_stepwise_em_says_when_rows_are_out_of_scale() -> None:
    x = np.random.default_rng(0).normal(70.0, 10.0, size=(200, 2))
    with pytest.warns(LearningWarning, match="within 30 of zero"):
        Mixture(Gaussian("diag"), 4, learner="stepwise-em", random_state=0).fit(x)
