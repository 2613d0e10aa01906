"""The weak prior of products: its M-step, its objective, and columns that are not observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import rel_entr, softmax
from scipy.stats import norm, poisson

from mixfold import Mixture
from mixfold.families.categorical import Categorical
from mixfold.families.gaussian import Gaussian
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.families.transformed_gaussian import TransformedGaussian
from mixfold.learners.em import EM

N, K, LEVELS = 80, 3, 4
FAMILY = Product({0: Gaussian(), 1: Poisson(), 2: Categorical(LEVELS)})


def rows(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    z = rng.integers(K, size=N)
    level = np.where(rng.random(N) < 0.7, z, rng.integers(LEVELS, size=N))
    return np.column_stack([rng.normal(2.0 * z), rng.poisson(1.0 + 3.0 * z), level]).astype(float)


def fit(x: np.ndarray, strength: float = 1.0, **settings: Any) -> Mixture:
    learner = EM(tol=0.0, max_iter=settings.pop("passes", 200), prior_strength=strength)
    return Mixture(FAMILY, K, learner=learner, random_state=0, **settings).fit(x)


def responsibilities(model: Mixture, x: np.ndarray) -> np.ndarray:
    """Computed with scipy alone."""
    normal, counts, levels = model.params_.components.parts
    joint = np.log(model.params_.weights)
    joint = joint + norm.logpdf(x[:, :1], normal.means[:, 0], normal.scale[:, 0])
    joint = joint + poisson.logpmf(x[:, 1:2], counts.means[:, 0])
    return np.asarray(softmax(joint + np.log(levels.probabilities[:, 0].T[x[:, 2].astype(int)]), 1))


def test_a_step_adds_a_row_of_all_rows_to_every_component() -> None:
    x = rows()
    first = fit(x, passes=3)
    r = responsibilities(first, x)
    after = fit(x, passes=1, init=first.params_)
    normal, counts, levels = after.params_.components.parts
    n = r.sum(axis=0)
    np.testing.assert_allclose(counts.means[:, 0], (r.T @ x[:, 1] + x[:, 1].mean()) / (n + 1.0))
    one_hot = np.eye(LEVELS)[x[:, 2].astype(int)]
    expected = (r.T @ one_hot + one_hot.mean(axis=0)) / (n + 1.0)[:, None]
    np.testing.assert_allclose(levels.probabilities[:, 0], expected, rtol=1e-9)
    # of Gaussians the scale alone has a prior: that of all rows, divided among the components
    means = r.T @ x[:, 0] / n
    np.testing.assert_allclose(normal.means[:, 0], means)
    away = (r * np.square(x[:, :1] - means)).sum(axis=0)
    variances = (away + x[:, 0].var() / K ** (2.0 / 3.0)) / (n + 1.0)
    np.testing.assert_allclose(np.square(normal.scale[:, 0]), variances)


def test_the_bound_is_the_likelihood_less_the_divergence_from_all_rows() -> None:
    x = rows()
    model = fit(x, passes=5)
    model = fit(x, passes=1, init=model.params_)
    start = fit(x, passes=5).params_.components.parts
    normal, counts, levels = start
    variance, mean = x[:, 0].var() / K ** (2.0 / 3.0), x[:, 1].mean()
    ratio = variance / np.square(normal.scale[:, 0])
    frequencies = np.eye(LEVELS)[x[:, 2].astype(int)].mean(axis=0)
    away = 0.5 * (ratio - 1.0 - np.log(ratio))
    away = away + mean * np.log(mean / counts.means[:, 0]) - mean + counts.means[:, 0]
    away = away + rel_entr(frequencies, levels.probabilities[:, 0]).sum(axis=1)
    expected = model.history_.log_likelihood[0] - away.sum() / N
    assert model.history_.bound[0] == pytest.approx(expected, rel=1e-10)


def test_the_bound_never_falls() -> None:
    bound = np.asarray(fit(rows(), passes=60).history_.bound)
    assert len(bound) == 60
    assert (np.diff(bound) > -1e-12).all()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_row_of_large_counts_counts_less(share: float) -> None:
    rng = np.random.default_rng(0)
    z = rng.integers(K, size=N)
    x = rng.poisson(np.column_stack([1e5 * (1 + z), 1.0 + 3.0 * z])).astype(float)
    x[rng.random(x.shape) < share] = np.nan
    learner = EM(tol=0.0, max_iter=30, prior_strength=1.0)
    settings: Any = {"learner": learner, "random_state": 0}
    model = Mixture(Product({0: Poisson(), 1: Poisson()}), K, **settings).fit(x)
    for j in range(2):
        counts = x[:, j]
        overall, found = np.nanmean(counts), model.means_[:, j]
        worth = min(1.0, 10.0 / overall)
        for k in range(K):
            own = counts[(z == k) & ~np.isnan(counts)]
            expected = (own.sum() + worth * overall) / (len(own) + worth)
            if not share or j == 0:
                np.testing.assert_allclose(found[k], expected, rtol=1e-3 if share else 1e-9)
    bound = np.asarray(model.history_.bound)
    assert (np.diff(bound) > -1e-9).all()  # log x! of large counts loses digits


def test_a_column_that_a_component_never_has_is_distributed_as_in_all_rows() -> None:
    x = rows()
    x[:, 0] = np.where(np.arange(N) < 40, 0.0, 50.0) + np.random.default_rng(1).normal(size=N)
    x[:40, 1:] = np.nan
    learner = EM(prior_strength=1.0)
    model = Mixture(FAMILY, 2, learner=learner, random_state=0).fit(x)
    _, counts, levels = model.params_.components.parts
    assert counts.means[0, 0] == pytest.approx(x[40:, 1].mean(), rel=1e-6)
    overall = np.eye(LEVELS)[x[40:, 2].astype(int)].mean(axis=0)
    np.testing.assert_allclose(levels.probabilities[0, 0], overall, rtol=1e-6)


def test_groups_have_the_prior_of_their_covariances() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=(60, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    x = np.column_stack([np.exp(y[:, 0]), y[:, 1], rng.integers(2, size=60)])
    family = Product({(0, 1): TransformedGaussian((0,)), 2: "bernoulli"})
    start = Mixture(family, 2, learner="em", random_state=0, max_iter=2).fit(x).params_
    settings: Any = {"init": start, "random_state": 0}
    plain, shrunk = (
        Mixture(family, 2, learner=EM(max_iter=1, prior_strength=s), **settings).fit(x)
        for s in (0.0, 1.0)
    )
    n = plain.params_.weights * len(x)
    own, found = (m.params_.components.parts[0].scale for m in (plain, shrunk))
    total = np.cov(np.column_stack([np.log(x[:, 0]), x[:, 1]]).T, ddof=0) / 2.0 ** (2.0 / 3.0)
    before, after = (s @ s.swapaxes(1, 2) for s in (own, found))
    expected = (n[:, None, None] * before + 2.0 * total) / (n[:, None, None] + 2.0)
    np.testing.assert_allclose(after, expected, rtol=1e-8)


def test_the_default_learner_has_the_prior_and_em_has_not() -> None:
    x = rows()
    plain, default = (
        Mixture(FAMILY, 2, learner=learner, random_state=0).fit(x) for learner in ("em", "auto")
    )
    assert plain.lower_bound_ == pytest.approx(plain.history_.log_likelihood[-1])
    assert default.lower_bound_ < default.history_.log_likelihood[-1]
