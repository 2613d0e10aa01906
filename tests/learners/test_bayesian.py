"""Beliefs: against exact posteriors, closed forms and each other."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import mixfold
from mixfold import Gaussian, Mixture, MomentMatching, OnlineVB, Power, Prior
from mixfold.backends.threads import Threads
from mixfold.core.backend_capabilities import MomentMatcher, required
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Block, Statistics, pack
from mixfold.core.value import equal, field_names
from mixfold.families._normal_wishart import NormalWishartPosterior
from mixfold.families.exponential import Exponential
from mixfold.families.poisson import Poisson
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families

CONJUGATE: list[Family] = [Gaussian(), Gaussian("diag"), Poisson(), Exponential()]


def matched(backend: Threads, posterior: Any, rows: Rows) -> tuple[Any, float, int]:
    return required(backend, MomentMatcher).match(posterior, rows)


def close(a: Any, b: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(a.alpha, b.alpha, rtol)
    for name in field_names(a.components):
        found, expected = getattr(a.components, name), getattr(b.components, name)
        np.testing.assert_allclose(found, expected, rtol, 1e-12, err_msg=name)


def example(family: Family, k: int, d: int, n: int) -> tuple[BayesianMixture, Any, Array]:
    model, params, x = families.example_mixture(family, k, d, n, np.random.default_rng(11))
    mixture = BayesianMixture(model)
    return mixture, mixture.prior(params, Prior(kappa=0.7)), x


# the exact posterior of two Gaussians in one column


def two_gaussians() -> tuple[BayesianMixture, MixturePosterior]:
    components = NormalWishartPosterior(
        np.array([[-1.0], [2.0]]),
        np.array([0.7, 1.3]),
        np.array([5.0, 6.5]),
        np.sqrt([[[2.0]], [[3.1]]]),
    )
    model = MixtureModel(Gaussian(), 2, 1)
    return BayesianMixture(model), MixturePosterior(np.array([1.5, 2.0]), components)


def moments(alpha: Array, mean: Array, kappa: Array, nu: Array, v: Array) -> dict[str, Array]:
    """First and second moments of weights, means and precisions, components on the last axis."""
    total = alpha.sum(axis=-1, keepdims=True)
    return {
        "weight": alpha / total,
        "weight squared": alpha * (alpha + 1) / (total * (total + 1)),
        "mean": mean,
        "mean squared": mean**2 + v / (kappa * (nu - 2)),
        "precision": nu / v,
        "precision squared": (nu**2 + 2 * nu) / v**2,
    }


def exact_moments(prior: MixturePosterior, x: Array) -> dict[str, Array]:
    """Moments of the exact posterior: a sum over all ways to label the rows."""
    b = prior.components
    labels = (np.arange(2 ** len(x))[:, None] >> np.arange(len(x))) & 1
    one = labels[:, None, :] == np.arange(2)[None, :, None]
    n = one.sum(axis=2)
    sums, squares = (one * x).sum(axis=2), (one * x**2).sum(axis=2)
    mean0, v0 = b.mean[:, 0], b.factor[:, 0, 0] ** 2
    alpha, kappa, nu = prior.alpha + n, b.kappa + n, b.nu + n
    mean = (b.kappa * mean0 + sums) / kappa
    v = v0 + squares + b.kappa * mean0**2 - kappa * mean**2
    log_weight = gammaln(alpha) + gammaln(nu / 2) - 0.5 * np.log(kappa) - 0.5 * nu * np.log(v)
    log_chance = log_weight.sum(axis=1)
    chance = np.exp(log_chance - logsumexp(log_chance))
    return {name: chance @ m for name, m in moments(alpha, mean, kappa, nu, v).items()}


def found_moments(posterior: MixturePosterior) -> dict[str, Array]:
    b = posterior.components
    return moments(posterior.alpha, b.mean[:, 0], b.kappa, b.nu, b.factor[:, 0, 0] ** 2)


@pytest.mark.parametrize("x", [0.4, -3.0, 5.0])
def test_one_row_has_the_moments_of_the_exact_posterior(x: float) -> None:
    mixture, prior = two_gaussians()
    backend = Threads(mixture.model, 1)
    found = found_moments(matched(backend, prior, Rows(np.array([[x]])))[0])
    for name, exact in exact_moments(prior, np.array([x])).items():
        np.testing.assert_allclose(found[name], exact, rtol=1e-10, atol=1e-10, err_msg=name)


def test_twenty_rows_stay_close_to_the_exact_posterior() -> None:
    rng = np.random.default_rng(2)
    x = np.where(rng.random(20) < 0.4, rng.normal(-2.0, 1.0, 20), rng.normal(3.0, 0.7, 20))
    mixture, prior = two_gaussians()
    found = found_moments(matched(Threads(mixture.model, 1), prior, Rows(x[:, None]))[0])
    exact = exact_moments(prior, x)
    spread = np.sqrt(exact["mean squared"] - exact["mean"] ** 2)
    assert (np.abs(found["mean"] - exact["mean"]) < 0.25 * spread).all()
    np.testing.assert_allclose(found["weight"], exact["weight"], atol=0.02)
    np.testing.assert_allclose(found["precision"], exact["precision"], rtol=0.15)
    np.testing.assert_allclose(
        np.sqrt(found["mean squared"] - found["mean"] ** 2), spread, rtol=0.15
    )


# laws of conjugate beliefs


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_one_component_is_bayes_rule(family: Family) -> None:
    mixture, prior, x = example(family, 1, 3, 50)
    one_by_one = matched(Threads(mixture.model, 1), prior, Rows(x))[0]
    gap = x - x.mean(axis=0)
    scatter = {"full": pack(gap.T @ gap / 50)[None], "diag": (gap**2).mean(axis=0)[None]}
    spread = scatter.get(getattr(family, "covariance", ""), np.empty((1, 0)))
    block = Block(np.array([50.0]), x.mean(axis=0)[None], spread)
    statistics = Statistics.of((block,), np.array([50.0]))
    close(one_by_one, mixture.absorb(prior, statistics))


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_parts_combine_to_the_whole(family: Family) -> None:
    mixture, prior, x = example(family, 1, 3, 90)
    backend = Threads(mixture.model, 1)
    whole = matched(backend, prior, Rows(x))[0]
    parts = [matched(backend, prior, Rows(x[a:b]))[0] for a, b in pairwise([0, 20, 50, 90])]
    close(mixture.combine(prior, parts), whole)
    close(mixture.combine(prior, parts[:1]), parts[0])


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_parts_that_came_to_doubt_combine_to_what_they_can_mean(family: Family) -> None:
    mixture, prior, x = example(family, 1, 3, 40)
    before = matched(Threads(mixture.model, 1), prior, Rows(x))[0]
    center = mixture.expected(before).components.means[0]
    # a far row that may or may not be the component's
    rows = [center * f + f for f in (20.0, 3.0, 500.0, 2.0, 1.0)]
    doubt = [mixture.conjugate.match(before.components, r, 1.0, np.array([0.5]))[0] for r in rows]
    parts = [MixturePosterior(before.alpha, components) for components in doubt]
    merged = mixture.expected(mixture.combine(before, parts)).components
    moves = np.array([mixture.expected(p).components.means[0] - center for p in parts])
    most = np.abs(moves).sum(axis=0)
    assert (np.abs(merged.means[0] - center) <= most * (1.0 + 1e-9)).all()
    if isinstance(family, Gaussian):
        sizes = [family.log_determinant(mixture.expected(p).components) for p in parts]
        assert family.log_determinant(merged) > np.min(sizes) - 3.0


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_weight_two_is_a_row_twice_for_one_component(family: Family) -> None:
    mixture, prior, x = example(family, 1, 2, 30)
    backend = Threads(mixture.model, 1)
    twice = matched(backend, prior, Rows(np.repeat(x, 2, axis=0)))
    weighted = matched(backend, prior, Rows(x, np.full(30, 2.0)))
    close(twice[0], weighted[0])
    assert twice[1] == pytest.approx(weighted[1], rel=1e-10)


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_surrogates_give_the_expected_log_density(family: Family) -> None:
    mixture, prior, x = example(family, 2, 2, 60)
    posterior = matched(Threads(mixture.model, 1), prior, Rows(x))[0]
    rng = np.random.default_rng(0)
    draws = [mixture.model.log_joint(p, x[:5]) for p in drawn(mixture, posterior, 4000, rng)]
    expected_log_params = mixture.model.log_joint(mixture.expected_log_params(posterior), x[:5])
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    assert (np.abs(np.mean(draws, axis=0) - expected_log_params) < 5.0 * error).all()


def drawn(
    mixture: BayesianMixture, posterior: MixturePosterior, n: int, rng: np.random.Generator
) -> list[MixtureParams]:
    """Parameters drawn from beliefs."""
    return [
        MixtureParams(rng.dirichlet(posterior.alpha), _one(mixture, posterior, rng))
        for _ in range(n)
    ]


def _one(mixture: BayesianMixture, posterior: MixturePosterior, rng: np.random.Generator) -> Any:
    from mixfold.families.gaussian import GaussianParams
    from mixfold.families.mean_params import MeanParams

    b = posterior.components
    if not isinstance(b, NormalWishartPosterior):
        rates = rng.gamma(b.shape, 1.0 / b.rate)
        poisson = isinstance(mixture.model.family, Poisson)
        return MeanParams(rates if poisson else 1.0 / rates)
    if b.factor.ndim == 2:
        deviation = b.factor / np.sqrt(rng.chisquare(b.nu))
        return GaussianParams(rng.normal(b.mean, deviation / np.sqrt(b.kappa)), deviation)
    w = np.linalg.inv(b.factor @ b.factor.swapaxes(1, 2))
    precision = [stats.wishart(nu, s).rvs(random_state=rng) for nu, s in zip(b.nu, w, strict=True)]
    factor = np.linalg.cholesky(np.linalg.inv(np.array(precision)))
    noise = (factor @ rng.normal(size=(*b.mean.shape, 1)))[:, :, 0]
    return GaussianParams(b.mean + noise / np.sqrt(b.kappa)[:, None], factor)


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_intervals_hold_what_is_drawn(family: Family) -> None:
    mixture, prior, x = example(family, 2, 2, 60)
    posterior = matched(Threads(mixture.model, 1), prior, Rows(x))[0]
    rng = np.random.default_rng(1)
    draws = drawn(mixture, posterior, 2000, rng)
    values = {
        "weights": np.array([p.weights for p in draws]),
        "means": np.array([p.components.means for p in draws]),
    }
    if isinstance(family, Gaussian):
        covariances = family.structure.covariances
        values["covariances"] = np.array([covariances(p.components.factor) for p in draws])
    intervals = mixture.intervals(posterior, 0.9)
    assert set(intervals) == set(values)
    for name, (low, high) in intervals.items():
        inside = ((values[name] >= low) & (values[name] <= high)).mean(axis=0)
        np.testing.assert_allclose(inside, 0.9, atol=0.03, err_msg=name)


def test_the_predictive_density_is_a_t_distribution() -> None:
    mixture, prior, x = example(Gaussian(), 1, 3, 40)
    posterior = matched(Threads(mixture.model, 1), prior, Rows(x))[0]
    b = posterior.components
    freedom = b.nu[0] - 2
    shape = b.factor[0] @ b.factor[0].T * (b.kappa[0] + 1) / (b.kappa[0] * freedom)
    t = stats.multivariate_t(b.mean[0], shape, df=freedom)
    np.testing.assert_allclose(mixture.predictive(posterior, x), t.logpdf(x), rtol=1e-10)


def test_foreseen_densities_of_rows_are_their_evidence() -> None:
    mixture, prior, x = example(Gaussian("diag"), 1, 2, 40)
    backend = Threads(mixture.model, 1)
    foreseen, posterior = 0.0, prior
    for row in x:
        foreseen += float(mixture.predictive(posterior, row[None])[0])
        posterior = matched(backend, posterior, Rows(row[None]))[0]
    assert matched(backend, prior, Rows(x))[1] == pytest.approx(foreseen, rel=1e-12)


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
@pytest.mark.parametrize(("k", "d"), [(2, 1), (3, 2), (5, 5), (9, 3), (4, 17)])
def test_compiled_matching_is_the_readable_one(family: Family, k: int, d: int) -> None:
    mixture, prior, x = example(family, k, d, 120)
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.5], size=120)
    for rows in (Rows(x), Rows(x.astype(np.float32), weight)):
        fast = matched(Threads(mixture.model, 1), prior, rows)
        slow = ReferenceKernel(mixture.model).match(prior, rows)
        close(fast[0], slow[0], 1e-8)
        assert fast[1:] == pytest.approx(slow[1:], rel=1e-9)


def test_units_of_columns_do_not_matter() -> None:
    mixture, prior, x = example(Gaussian(), 3, 2, 200)
    scale = np.array([1e3, 1e-4])
    b = prior.components
    scaled = MixturePosterior(
        prior.alpha,
        NormalWishartPosterior(b.mean * scale, b.kappa, b.nu, b.factor * scale[:, None]),
    )
    backend = Threads(mixture.model, 1)
    found, plain = (
        matched(backend, scaled, Rows(x * scale))[0],
        matched(backend, prior, Rows(x))[0],
    )
    np.testing.assert_allclose(found.components.kappa, plain.components.kappa, rtol=1e-7)
    np.testing.assert_allclose(found.components.nu, plain.components.nu, rtol=1e-7)
    np.testing.assert_allclose(found.components.mean, plain.components.mean * scale, rtol=1e-7)


def test_factors_do_not_drift() -> None:
    rng = np.random.default_rng(4)
    root = np.tril(rng.normal(size=(6, 6))) + 3.0 * np.eye(6)
    x = rng.normal(size=(200_000, 6)) @ root.T + 50.0
    model = MixtureModel(Gaussian(), 1, 6)
    params = MixtureParams(np.ones(1), model.family.example(1, 6, rng))
    mixture = BayesianMixture(model)
    prior = mixture.prior(params, Prior())
    b = matched(Threads(model, 1), prior, Rows(x))[0].components
    before = prior.components
    gap, offset = x - x.mean(axis=0), x.mean(axis=0) - before.mean[0]
    v = before.factor[0] @ before.factor[0].T + gap.T @ gap
    v += before.kappa[0] * len(x) / b.kappa[0] * np.outer(offset, offset)
    found = b.factor[0] @ b.factor[0].T
    np.testing.assert_allclose(found, v, rtol=1e-11, atol=1e-11 * np.abs(v).max())
    w = np.linalg.inv(b.factor[0]).T @ np.linalg.inv(b.factor[0])
    assert np.abs(w @ v - np.eye(6)).max() < 1e-8


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB(form="streaming")], ids=repr)
def test_the_error_falls_like_one_over_the_root_of_n(learner: Any) -> None:
    means = np.array([[-4.0, 0.0], [4.0, 1.0], [0.0, 6.0]])
    errors = []
    for n in (1_000, 10_000, 100_000):
        runs = []
        for seed in range(4):
            rng = np.random.default_rng([n, seed])
            x = means[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])] + rng.normal(size=(n, 2))
            model = Mixture(n_components=3, learner=learner, init=means + 1.0).fit(x)
            runs.append(np.square(model.means_ - means).mean())
        errors.append(np.sqrt(np.mean(runs)))
    slope = np.polyfit(np.log([1e3, 1e4, 1e5]), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35
    assert errors[-1] < 0.02


# estimators


def rows(n: int = 900) -> Array:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(c, 1.0, size=(n // 3, 2)) for c in (-6.0, 0.0, 6.0)])[
        rng.permutation(n // 3 * 3)
    ]


@pytest.mark.parametrize("learner", ["moment-matching", "online-vb"])
def test_an_estimator_shows_its_beliefs(learner: str, tmp_path: Path) -> None:
    x = rows()
    model = Mixture(n_components=3, learner=learner, random_state=0).fit(x)
    assert isinstance(model.posterior_, MixturePosterior)
    assert equal(model.expected_parameters(), model.params_)
    low, high = model.credible_intervals(0.9)["means"]
    assert ((low < model.means_) & (model.means_ < high)).all()
    assert set(model.credible_intervals()) == {"weights", "means", "covariances"}
    wide, narrow = model.posterior_predictive(x), model.score_samples(x)
    np.testing.assert_allclose(wide.mean(), narrow.mean(), atol=0.01)
    far = np.array([[100.0, 0.0]])
    assert model.posterior_predictive(far) > model.score_samples(far)
    model.save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m")
    assert equal(again.posterior_, model.posterior_)
    assert equal(again.partial_fit(x).posterior_, model.partial_fit(x).posterior_)


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB(form="streaming", batch_size=1)])
def test_learning_goes_on_where_a_fit_has_ended(learner: Any) -> None:
    x, start = rows(), np.array([[-5.0, -5.0], [0.0, 1.0], [5.0, 5.0]])
    whole = Mixture(n_components=3, learner=learner, init=start).fit(x)
    # the start's covariance is that of the rows it is given
    given = Mixture(n_components=3, learner=learner, init=whole).fit(x)
    halves = Mixture(n_components=3, learner=learner, init=whole).fit(x[:400]).partial_fit(x[400:])
    single = Mixture(n_components=3, learner=learner, init=whole).partial_fit(x[:899])
    single.learn_one(x[899])
    assert equal(halves.posterior_, given.posterior_)
    assert equal(single.posterior_, given.posterior_)
    assert halves.n_seen_ == given.n_seen_ == 900


def test_a_posterior_is_the_next_prior() -> None:
    x = rows()
    first = Mixture(n_components=3, learner="moment-matching", random_state=0).fit(x[:300])
    after = MomentMatching(prior=first.posterior_)
    second = Mixture(n_components=3, learner=after, init=first).fit(x[300:])
    assert equal(second.posterior_, first.partial_fit(x[300:]).posterior_)


def test_stochastic_and_streaming_agree_where_they_must() -> None:
    x = rows()
    start = Mixture(n_components=3, random_state=0).fit(x)
    one_batch = {"batch_size": 900, "schedule": Power(1.0, 1.0)}
    stochastic = Mixture(n_components=3, learner=OnlineVB(**one_batch), init=start).fit(x)
    streaming = OnlineVB(form="streaming", batch_size=900)
    other = Mixture(n_components=3, learner=streaming, init=start).fit(x)
    close(stochastic.posterior_, other.posterior_)


def test_stochastic_inference_comes_to_the_fixed_point_of_batches() -> None:
    x = rows()
    start = Mixture(n_components=3, random_state=0).fit(x)
    whole = OnlineVB(batch_size=900, schedule=Power(1e-9, 1.0), max_iter=50)
    batch = Mixture(n_components=3, learner=whole, init=start).fit(x)
    small = OnlineVB(batch_size=30, schedule=Power(0.8, 1.0, 5.0), max_iter=40)
    stochastic = Mixture(n_components=3, learner=small, init=start).fit(x)
    np.testing.assert_allclose(stochastic.weights_, batch.weights_, atol=0.005)
    np.testing.assert_allclose(stochastic.means_, batch.means_, atol=0.02)
    np.testing.assert_allclose(stochastic.covariances_, batch.covariances_, atol=0.05)


# bad input


def test_bad_priors_are_refused() -> None:
    x = rows()

    def fit(prior: Any, family: Any = "gaussian") -> None:
        learner = MomentMatching(prior=prior)
        Mixture(family, 3, learner=learner, random_state=0).fit(np.abs(x).round())

    for prior, family, message in [
        (Prior(nu=3.0), "gaussian", "nu of the prior is 3 for 2 columns: it must be above 3"),
        (Prior(covariance=-np.eye(2)), "gaussian", "positive-definite"),
        (Prior(covariance=[[1.0, 0.5], [0.0, 1.0]]), "gaussian", "symmetric"),
        (Prior(covariance=np.eye(3)), "gaussian", r"shape \(2, 2\)"),
        (Prior(covariance=[1.0, 0.0]), Gaussian("diag"), "variances above 0"),
        (Prior(means=[1.0, np.nan]), "gaussian", "finite"),
        (Prior(means=[1.0, -1.0]), "poisson", "above 0"),
        (None, Gaussian("tied"), "no conjugate prior"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            fit(prior, family)
    with pytest.raises(InvalidInputError, match="alpha is 0"):
        Prior(alpha=0)
    with pytest.raises(InvalidInputError, match="prior is 3"):
        MomentMatching(prior=3)
    with pytest.raises(InvalidInputError, match="stochastic"):
        OnlineVB(form="streaming", max_iter=2)
    with pytest.raises(InvalidInputError, match="form"):
        OnlineVB(form="streamin")
    other = Mixture(n_components=2, learner="moment-matching", random_state=0).fit(x)
    with pytest.raises(InvalidInputError, match="not of 3 components in 2 columns"):
        fit(other.posterior_)


def test_learners_without_beliefs_say_so() -> None:
    model = Mixture(n_components=3, random_state=0).fit(rows())
    assert not hasattr(model, "posterior_")
    for call in (
        model.credible_intervals,
        model.expected_parameters,
        lambda: model.posterior_predictive(rows()),
    ):
        with pytest.raises(InvalidInputError, match="moment-matching"):
            call()
