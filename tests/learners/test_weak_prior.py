"""The weak prior of covariances: its M-step, objective, invariances, and where it is off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from mixfold import Gaussian, GaussianMixture, Mixture
from mixfold.estimators.saving import load
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams

PRIOR = EM(tol=0.0, max_iter=400, prior_strength=1.0)
FORMS = ["full", "diag", "spherical", "tied"]


def few_rows(n: int = 60, d: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.normal(scale=2.0, size=(3, d))
    return centres[rng.integers(3, size=n)] + rng.normal(size=(n, d)) @ rng.normal(size=(d, d))


def fit(x: np.ndarray, learner: Any = "auto", form: str = "full", k: int = 3, **more: Any) -> Any:
    model = Mixture(Gaussian(form), k, learner=learner, random_state=0, n_threads=1)
    return model.fit(x, **more)


def target(x: np.ndarray, k: int) -> np.ndarray:
    return np.asarray(np.cov(x.T, ddof=0) / k ** (2.0 / x.shape[1]))


def objective(x: np.ndarray, weights: Any, means: Any, covariances: Any) -> float:
    """The log-likelihood, less the prior's rows times their divergence from the components."""
    k, d = means.shape
    parts = zip(weights, means, covariances, strict=True)
    joint = [np.log(w) + multivariate_normal.logpdf(x, m, c) for w, m, c in parts]
    rows, prior = k * d * (d + 1) / len(x), target(x, k)
    away = [
        0.5 * (np.trace(np.linalg.solve(c, prior)) - d + np.linalg.slogdet(c)[1])
        - 0.5 * np.linalg.slogdet(prior)[1]
        for c in covariances
    ]
    return float(np.logaddexp.reduce(joint).sum() - rows * np.sum(away))


def test_the_estimate_maximises_the_penalised_likelihood() -> None:
    x = few_rows(40, 2)
    model = fit(x, PRIOR, k=2)
    best = objective(x, model.weights_, model.means_, model.covariances_)
    assert model.lower_bound_ * len(x) == pytest.approx(best, abs=1e-6)

    def negative(theta: np.ndarray) -> float:
        weight = 1.0 / (1.0 + np.exp(-theta[0]))
        roots = np.zeros((2, 2, 2))
        roots[:, [0, 1, 1], [0, 0, 1]] = theta[5:].reshape(2, 3)
        covariances = roots @ roots.swapaxes(1, 2)
        return -objective(x, [weight, 1.0 - weight], theta[1:5].reshape(2, 2), covariances)

    w, roots = model.weights_[0], np.linalg.cholesky(model.covariances_)
    start = np.r_[np.log(w / (1 - w)), model.means_.ravel(), roots[:, [0, 1, 1], [0, 0, 1]].ravel()]
    found = minimize(negative, start + 0.02, method="BFGS", options={"gtol": 1e-6})
    assert -found.fun == pytest.approx(best, abs=1e-6)
    np.testing.assert_allclose(found.x, start, atol=1e-3)


@pytest.mark.parametrize("n", [50, 4000])
@pytest.mark.parametrize("form", FORMS)
def test_a_step_adds_the_rows_of_the_prior(form: str, n: int) -> None:
    """The M-step of equal responsibilities, in closed form."""
    x, k = few_rows(n, 3), 2
    d = x.shape[1]
    whole, means = np.cov(x.T, ddof=0), np.repeat(x.mean(axis=0, keepdims=True), k, axis=0)
    count = {"full": k * d * (d + 1) / 2, "diag": k * d, "spherical": k, "tied": d * (d + 1) / 2}
    rows, own = 5.0 * 2.0 * count[form] / n * min(1.0, 1000.0 / n) ** 2, n / k
    shrunk = (own + rows / k ** (2.0 / d)) / (own + rows)
    variances = {
        "full": np.stack([whole] * k),
        "diag": np.stack([np.diag(whole)] * k),
        "spherical": np.full(k, np.trace(whole) / d),
        "tied": whole,
    }
    start = MixtureParams(
        np.full(k, 1.0 / k), Gaussian(form).from_covariances(means, variances[form])
    )
    model = Mixture(Gaussian(form), k, init=start, learner=EM(max_iter=1, prior_strength=5.0))
    covariances = model.fit(x).covariances_
    np.testing.assert_allclose(covariances, shrunk * variances[form], rtol=1e-11)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("accelerate", [False, True])
def test_the_objective_does_not_decrease(form: str, accelerate: bool) -> None:
    learner = EM(tol=1e-8, max_iter=100, accelerate=accelerate, prior_strength=1.0)
    model = fit(few_rows(), learner, form)
    kept = np.maximum.accumulate(model.history_.bound)
    refused = model.history_.bound < kept - 1e-10
    assert model.converged_
    assert not refused[-1]
    assert accelerate or not refused.any()
    assert (model.history_.bound <= model.history_.log_likelihood).all()
    x = few_rows()
    assert model.score(x) == pytest.approx(model.history_.log_likelihood[-1], abs=1e-6)


def test_columns_may_have_any_units_and_order() -> None:
    x, scale, order = few_rows(), np.array([1e-3, 1.0, 50.0, 1e4]), [2, 0, 3, 1]
    start = fit(x, EM(max_iter=3))
    plain = Mixture("gaussian", 3, init=start, learner=PRIOR).fit(x)
    family = start.model_.family
    moved = family.from_covariances(
        (start.means_ * scale)[:, order],
        (start.covariances_ * scale * scale[:, None])[:, order][:, :, order],
    )
    init = type(start.params_)(start.weights_, moved)
    other = Mixture("gaussian", 3, init=init, learner=PRIOR).fit((x * scale)[:, order])
    np.testing.assert_allclose(other.means_, (plain.means_ * scale)[:, order], rtol=1e-6)
    wide = (plain.covariances_ * scale * scale[:, None])[:, order][:, :, order]
    np.testing.assert_allclose(other.covariances_, wide, rtol=1e-6)


def test_weights_are_repetitions_and_have_any_common_factor() -> None:
    x, times = few_rows(), np.random.default_rng(0).integers(0, 4, size=60)
    start = fit(x, EM(max_iter=3))
    repeated, *weighted = (
        Mixture("gaussian", 3, init=start, learner=PRIOR).fit(rows, sample_weight=weight)
        for rows, weight in (
            (np.repeat(x, times, axis=0), None),
            *((x, factor * times) for factor in (1.0, 1e-3, 1e3)),
        )
    )
    for model in weighted:
        np.testing.assert_allclose(model.covariances_, repeated.covariances_, rtol=1e-6)


def test_rows_in_any_order() -> None:
    x = few_rows()
    start = fit(x, EM(max_iter=3))
    one, other = (
        Mixture("gaussian", 3, init=start, learner=PRIOR).fit(rows) for rows in (x, x[::-1].copy())
    )
    np.testing.assert_allclose(one.covariances_, other.covariances_, rtol=1e-6)


def test_it_vanishes_with_the_number_of_rows() -> None:
    x = few_rows(10_000, 3)
    start = fit(x, EM(tol=1e-6, accelerate=True))
    with_prior, without = (
        Mixture("gaussian", 3, init=start, learner=EM(tol=1e-6, prior_strength=s)).fit(x)
        for s in (1.0, 0.0)
    )
    variances = np.diagonal(without.covariances_, axis1=1, axis2=2)
    errors = variances * np.sqrt(2.0 / (len(x) * without.weights_))[:, None]
    change = np.diagonal(with_prior.covariances_ - without.covariances_, axis1=1, axis2=2)
    assert (np.abs(change) < 0.05 * errors).all()


def test_held_out_rows_are_described_better() -> None:
    x = few_rows(4100, 8, seed=1)
    plain, prior = (fit(x[:100], Auto(prior_strength=s), k=4).score(x[100:]) for s in (0.0, 1.0))
    assert prior > plain + 0.5


@pytest.mark.parametrize("form", FORMS)
def test_one_component_is_the_moments_of_the_data(form: str) -> None:
    x = few_rows()
    model = fit(x, form=form, k=1)
    plain = fit(x, "em", form, k=1)
    np.testing.assert_allclose(model.means_[0], x.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(model.covariances_, plain.covariances_, rtol=1e-9)
    assert np.isnan(model.history_.bound).all()


def test_where_it_is_off() -> None:
    x = few_rows(300)
    for model in (fit(x, "em"), fit(x, Auto(prior_strength=0.0)), GaussianMixture(3).fit(x)):
        assert model.learner_.prior_strength == 0.0
        assert np.isnan(model.history_.bound).all()
    assert not np.isnan(fit(x).history_.bound).any()
    poisson = Mixture("poisson", 2, random_state=0).fit(np.round(np.abs(x)))
    assert np.isnan(poisson.history_.bound).all()


def test_the_best_of_several_fits_by_the_objective() -> None:
    x = few_rows(80, 6)
    learner = EM(tol=1e-6, accelerate=True, prior_strength=0.3)
    each = [
        Mixture("gaussian", 4, learner=learner, n_init=n, random_state=3).fit(x) for n in (1, 2, 8)
    ]
    reached = [model.lower_bound_ for model in each]
    assert reached == sorted(reached)
    assert reached[-1] > reached[0]


@pytest.mark.parametrize("strength", [-1.0, float("nan")])
def test_a_strength_is_not_negative(strength: float) -> None:
    with pytest.raises(ValueError, match="prior_strength"):
        Auto(prior_strength=strength)


def test_saved_and_resumed(tmp_path: Path) -> None:
    x, path = few_rows(), tmp_path / "fit.npz"
    whole = fit(x, PRIOR)
    part = Mixture(
        "gaussian", 3, learner=PRIOR, random_state=0, checkpoint=path, checkpoint_every=0.0
    )
    part.set_params(max_iter=5).fit(x)
    again = part.set_params(max_iter=None, resume=True).fit(x)
    np.testing.assert_array_equal(again.covariances_, whole.covariances_)
    again.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.learner_.prior_strength == 1.0
    np.testing.assert_array_equal(read.history_.bound, again.history_.bound)


def test_partitions(tmp_path: Path) -> None:
    import pandas as pd

    x = few_rows(90)
    for i, part in enumerate(np.array_split(x, 3)):
        pd.DataFrame(part, columns=list("abcd")).to_parquet(tmp_path / f"{i}.parquet")
    files = str(tmp_path / "*.parquet")
    here = Mixture("gaussian", 3, random_state=0).fit(files)
    spread = Mixture("gaussian", 3, random_state=0, cluster="serial").fit(files)
    np.testing.assert_allclose(spread.covariances_, here.covariances_, rtol=1e-4)
    np.testing.assert_allclose(spread.lower_bound_, here.lower_bound_, rtol=1e-6)
