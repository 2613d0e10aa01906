"""Posteriors of products of families, against those of their factors and closed forms."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import beta as beta_function
from scipy.stats import beta as beta_distribution
from scipy.stats import dirichlet, gamma, nbinom, poisson, t

import mixfold
from conjugates import close, numbers
from mixfold import (
    Bernoulli,
    Categorical,
    Gamma,
    Gaussian,
    Mixture,
    MomentMatching,
    OnlineVB,
    Poisson,
    Prior,
    StudentT,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Statistics
from mixfold.core.value import equal
from mixfold.families._normal_gamma import NormalGamma
from mixfold.families.exponential import Exponential
from mixfold.families.product import Product, ProductParams
from mixfold.kernels.reference import match
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing.families import example_mixture

MIXED: Any = {2: Gaussian(), 0: Poisson(), (4, 1): Gaussian(), 3: Categorical(3), 5: Bernoulli()}
LEARNERS = [MomentMatching(), OnlineVB(batch_size=50), OnlineVB("streaming", batch_size=50)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def example(family: Family, k: int, d: int, n: int) -> tuple[BayesianMixture, Any, Array]:
    model, params, x = example_mixture(family, k, d, n, rng(3))
    mixture = BayesianMixture(model)
    return mixture, mixture.prior(params, Prior(kappa=0.7)), x


def learned(mixture: BayesianMixture, posterior: Any, x: Array) -> tuple[MixturePosterior, float]:
    return match(mixture.model, posterior, Rows(x))[:2]


# one component: the exact posteriors of the factors


def test_one_component_has_the_exact_posteriors_of_its_factors() -> None:
    family = Product({1: Poisson(), 0: Gaussian(), 2: Bernoulli(), 3: Exponential()})
    mixture, prior, x = example(family, 1, 4, 60)
    counts, normal, successes, times = prior.components.parts
    posterior, log_density = learned(mixture, prior, x)
    n, (column, count, success, time) = len(x), x.T
    found_counts, found, found_successes, found_times = posterior.components.parts
    np.testing.assert_allclose(found_counts.shape, counts.shape + count.sum())
    np.testing.assert_allclose(found_counts.rate, counts.rate + n)
    np.testing.assert_allclose(found_successes.successes, successes.successes + success.sum())
    np.testing.assert_allclose(found_successes.failures, successes.failures + n - success.sum())
    np.testing.assert_allclose(found_times.shape, times.shape + n)
    np.testing.assert_allclose(found_times.rate, times.rate + time.sum())
    kappa = normal.kappa + n
    mean = (normal.kappa * normal.mean + column.sum()) / kappa
    between = normal.kappa * n / kappa * np.square(column.mean() - normal.mean)
    v = np.square(normal.scale) + n * column.var() + between
    close((found.mean, found.kappa, found.nu), (mean, kappa, normal.nu + n))
    np.testing.assert_allclose(found.scale, np.sqrt(v))
    # the evidence is the product of the predictive densities of all cells
    expected, a, b = 0.0, counts.shape.item(), counts.rate.item()
    m, c, f, s = (float(p.item()) for p in (normal.mean, normal.kappa, normal.nu, normal.scale**2))
    p, q = successes.successes.item(), successes.failures.item()
    e, r = times.shape.item(), times.rate.item()
    for real, y, z, w in x:
        expected += t.logpdf(real, f, m, np.sqrt(s * (c + 1) / (c * f)))
        expected += nbinom.logpmf(y, a, b / (b + 1.0))
        expected += np.log(beta_function(p + z, q + 1 - z) / beta_function(p, q))
        expected += np.log(e / r) - (e + 1.0) * np.log1p(w / r)  # of the Lomax distribution
        s, m, c, f = s + c / (c + 1) * (real - m) ** 2, (c * m + real) / (c + 1), c + 1, f + 1
        a, b, p, q, e, r = a + y, b + 1.0, p + z, q + 1.0 - z, e + 1.0, r + w
    assert log_density == pytest.approx(expected, rel=1e-10)


def test_one_row_gives_the_moments_of_the_exact_posterior() -> None:
    family = Product({0: Poisson(), 1: Bernoulli()})
    mixture, prior, _ = example(family, 2, 2, 1)
    counts, coins = prior.components.parts
    row, alpha = np.array([[4.0, 1.0]]), prior.alpha
    a, b = counts.shape[:, 0], counts.rate[:, 0]
    p, q = coins.successes[:, 0], coins.failures[:, 0]
    c = alpha / alpha.sum() * nbinom.pmf(4.0, a, b / (b + 1.0)) * p / (p + q)
    c = c / c.sum()
    found_counts, found_coins = learned(mixture, prior, row)[0].components.parts
    mean = c * (a + 4.0) / (b + 1.0) + (1.0 - c) * a / b
    second = c * (a + 4.0) * (a + 5.0) / (b + 1.0) ** 2 + (1.0 - c) * a * (a + 1.0) / b**2
    shape, rate = found_counts.shape[:, 0], found_counts.rate[:, 0]
    np.testing.assert_allclose(shape / rate, mean, rtol=1e-10)
    np.testing.assert_allclose(shape * (shape + 1.0) / rate**2, second, rtol=1e-10)
    s, f = found_coins.successes[:, 0], found_coins.failures[:, 0]
    total = p + q
    mean = c * (p + 1.0) / (total + 1.0) + (1.0 - c) * p / total
    second = c * (p + 1.0) * (p + 2.0) / ((total + 1.0) * (total + 2.0))
    second += (1.0 - c) * p * (p + 1.0) / (total * (total + 1.0))
    np.testing.assert_allclose(s / (s + f), mean, rtol=1e-10)
    np.testing.assert_allclose(s * (s + 1.0) / ((s + f) * (s + f + 1.0)), second, rtol=1e-10)


# independent columns: the same as their family over several columns


def joined(posterior: Any) -> list[Array]:
    """The arrays of the factors of a product of one family, side by side."""
    parts = [numbers(part) for part in posterior.components.parts]
    return [np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)]


@pytest.mark.parametrize(
    "family", [Poisson(), Gaussian("diag"), Bernoulli(), Categorical(3), Exponential()], ids=repr
)
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_a_product_of_columns_is_the_family_of_several_columns(
    family: Family, learner: Any
) -> None:
    _, params, x = example_mixture(family, 3, 2, 200, rng(3))
    one, two = (
        family.take_columns(params.components, [j])  # type: ignore[attr-defined]
        for j in (0, 1)
    )
    whole = Mixture(family, 3, learner=learner, init=params).fit(x)
    split = MixtureParams(params.weights, ProductParams((one, two)))
    product = Mixture(Product({0: family, 1: family}), 3, learner=learner, init=split).fit(x)
    np.testing.assert_allclose(product.posterior_.alpha, whole.posterior_.alpha, rtol=1e-9)
    for found, expected in zip(
        joined(product.posterior_), numbers(whole.posterior_.components), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(product.posterior_predictive(x), whole.posterior_predictive(x))
    np.testing.assert_allclose(product.score_samples(x), whole.score_samples(x))
    if not family.has_categories:
        intervals = (one.credible_intervals(0.8)["means"] for one in (product, whole))
        np.testing.assert_allclose(*intervals)  # type: ignore[call-overload]


# laws of posteriors


def test_parts_combine_to_the_whole() -> None:
    mixture, prior, x = example(Product(MIXED), 1, 6, 90)
    whole = learned(mixture, prior, x)[0]
    parts = [learned(mixture, prior, x[a:b])[0] for a, b in pairwise([0, 20, 50, 90])]
    close(mixture.combine(prior, parts), whole)
    close(mixture.combine(prior, parts[:1]), parts[0])
    blocks = mixture.model.family.blocks_of(x, np.ones((90, 1)))
    close(mixture.absorb(prior, Statistics.of(blocks, np.array([90.0]))), whole)
    close(learned(mixture, prior, np.repeat(x, 2, axis=0))[0], match_weighted(mixture, prior, x))


def test_a_component_that_is_degenerate_in_two_factors_counts_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mixture, prior, x = example(Product({0: Gaussian(), 1: Gaussian()}), 2, 2, 1)
    monkeypatch.setattr(NormalGamma, "match", lambda self, posterior, *_: (posterior, 2))
    assert mixture.match(prior, x[0], 1.0)[2] == 2


def match_weighted(mixture: BayesianMixture, prior: Any, x: Array) -> MixturePosterior:
    return match(mixture.model, prior, Rows(x, np.full(len(x), 2.0)))[0]


def test_expected_logs_are_those_of_drawn_parameters() -> None:
    family = Product({0: Poisson(), 1: Categorical(3)})
    mixture, prior, x = example(family, 2, 2, 40)
    posterior = learned(mixture, prior, x)[0]
    counts, levels = posterior.components.parts
    expected = mixture.model.log_joint(mixture.expected_log_params(posterior), x[:6])
    n, draws = 4000, rng(1)
    weights = dirichlet(posterior.alpha).rvs(n, draws)
    found = np.empty((n, 6, 2))
    for k in range(2):
        means = gamma(counts.shape[k, 0], scale=1.0 / counts.rate[k, 0]).rvs(n, draws)
        p = dirichlet(levels.counts[k, 0]).rvs(n, draws)
        density = poisson.logpmf(x[:6, 0], means[:, None]) + np.log(p[:, x[:6, 1].astype(int)])
        found[:, :, k] = np.log(weights[:, k])[:, None] + density
    error = found.std(axis=0) / np.sqrt(n)
    assert (np.abs(found.mean(axis=0) - expected) < 5.0 * error).all()


# estimators


def table(n: int = 400) -> Array:
    z = rng().integers(2, size=n)
    draws = rng(1)
    reals = draws.normal(4.0 * z[:, None], 1.0, (n, 3))
    levels = np.where(draws.random(n) < 0.8, z, 2)
    return np.column_stack(
        [draws.poisson(2.0 + 8.0 * z), reals, levels, draws.random(n) < 0.2 + 0.6 * z]
    )


COLUMNS: Any = {0: Poisson(), (1, 3): Gaussian(), 2: Gaussian(), 4: Categorical(3), 5: Bernoulli()}


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_estimators_show_the_posterior_of_a_product(learner: Any, tmp_path: Path) -> None:
    x = table()
    model = Mixture(Product(COLUMNS), 2, learner=learner, random_state=0).fit(x)
    intervals = model.credible_intervals(0.9, corrected=False)
    names = {"weights", "means", "covariances of 1, 3", "covariances of 2", "probabilities of 4"}
    assert set(intervals) == names
    low, high = intervals["means"]
    numeric = [0, 1, 2, 3, 5]
    assert (low[:, numeric] < model.means_[:, numeric]).all()
    assert (model.means_[:, numeric] < high[:, numeric]).all()
    assert np.isnan(low[:, 4]).all()
    counts, _, _, levels, _ = model.posterior_.components.parts
    expected = gamma(counts.shape, scale=1.0 / counts.rate).ppf([[[0.05]], [[0.95]]])
    np.testing.assert_allclose((low[:, :1], high[:, :1]), expected, rtol=1e-9)
    a, rest = levels.counts, levels.counts.sum(axis=2, keepdims=True) - levels.counts
    ends = beta_distribution(a, rest).ppf(np.reshape([0.05, 0.95], (2, 1, 1, 1)))
    np.testing.assert_allclose(intervals["probabilities of 4"], ends, rtol=1e-9)
    model.save(tmp_path / "m")
    again = mixfold.load(tmp_path / "m")
    assert equal(again.posterior_, model.posterior_)
    assert equal(again.partial_fit(x).posterior_, model.partial_fit(x).posterior_)


def test_priors_of_columns() -> None:
    x = table()
    covariance = np.diag([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    covariance[1, 3] = covariance[3, 1] = 0.5
    means = np.array([5.0, 1.0, 2.0, 3.0, np.nan, 0.4])
    learner = MomentMatching(prior=Prior(kappa=2.0, nu=9.0, means=means, covariance=covariance))
    family, params = Product(COLUMNS), Mixture(Product(COLUMNS), 2, random_state=0).fit(x).params_
    mixture = BayesianMixture(MixtureModel(family, 2, 6))
    assert isinstance(learner.prior, Prior)
    counts, pair, real, levels, coin = mixture.prior(params, learner.prior).components.parts
    np.testing.assert_allclose(counts.shape, np.full((2, 1), 10.0))
    np.testing.assert_allclose(pair.mean, [[1.0, 3.0]] * 2)
    part = np.array([[2.0, 0.5], [0.5, 4.0]])
    np.testing.assert_allclose(pair.scale @ pair.scale.swapaxes(1, 2), [part * 6.0] * 2)
    np.testing.assert_allclose(real.scale, np.full((2, 1), np.sqrt(3.0 * 7.0)))
    expected = 2.0 * params.components.parts[3].probabilities
    np.testing.assert_allclose(levels.counts, np.maximum(expected, 0.02 / 3.0))
    np.testing.assert_allclose(coin.successes, np.full((2, 1), 0.8))
    assert Mixture(family, 2, learner=learner, random_state=0).fit(x).n_seen_ == 400
    for prior, message in [
        (Prior(means=[1.0]), r"means of the prior has shape \(1,\): a product needs \(6,\) or"),
        (Prior(means=np.ones(6)), "column 4: it has categories, and their prior no mean: give NaN"),
        (Prior(covariance=np.ones(6)), r"covariance of the prior has shape \(6,\)"),
        (Prior(nu=1.5), "column 1, 3: nu of the prior is 1.5"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            mixture.prior(params, prior)


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB()], ids=repr)
def test_factors_without_a_conjugate_prior_are_named(learner: Any) -> None:
    x = table()
    for factors, message in [
        ({1: Gaussian(), 0: Gamma()}, r"Gamma\(\), the family of column 0: use full or diagonal"),
        ({(0, 1): StudentT()}, r"StudentT\(.*\), the family of columns \(0, 1\): use"),
        (
            {(0, 1): Gaussian("tied")},
            r"Gaussian\(covariance='tied'.*\), the family of columns \(0, 1\): use",
        ),
    ]:
        given: Any = factors
        model = Mixture(Product(given), 2, learner=learner, random_state=0)
        with pytest.raises(InvalidInputError, match=f"no conjugate prior here for {message}"):
            model.fit(np.abs(x[:, :2]) + 1.0)
        assert not hasattr(model, "posterior_")


def test_products_of_names_have_a_conjugate_prior_before_they_are_bound() -> None:
    assert Product({"a": Poisson()}).conjugate is not None
    assert Product({"a": Poisson(), "b": Gamma()}).conjugate is None
