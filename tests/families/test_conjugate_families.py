"""Posteriors of conjugate families, against Bayes rule and closed forms."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from conjugates import close, matched
from mixfold import (
    Bernoulli,
    Binomial,
    Categorical,
    Gaussian,
    Geometric,
    Laplace,
    LogNormal,
    Multinomial,
    NegativeBinomial,
    Prior,
    Rayleigh,
    Weibull,
)
from mixfold.backends.threads import Threads
from mixfold.core.family import Family
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Statistics
from mixfold.families._beta import BetaPosterior
from mixfold.families._dirichlet_posteriors import DirichletPosterior
from mixfold.families._failures import Failures
from mixfold.families._normal_wishart import NormalWishartPosterior
from mixfold.families._probabilities import ProbabilityParams
from mixfold.families._scales import ScaleParams, Scales
from mixfold.families._trials import Trials
from mixfold.families.exponential import Exponential
from mixfold.families.gaussian import GaussianParams
from mixfold.families.log_normal import LogNormalParams
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.families.transformed_gaussian import TransformedGaussian
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families

CONJUGATE: list[Family] = [
    Gaussian(),
    Gaussian("diag"),
    Poisson(),
    Exponential(),
    Bernoulli(),
    Binomial(12),
    Geometric(),
    NegativeBinomial(2.5),
    Multinomial(6),
    Categorical(4),
    Rayleigh(),
    Weibull(0.7),
    Laplace(-2.5),
    LogNormal(),
    TransformedGaussian((1,)),
]


def example(family: Family, k: int, d: int, n: int) -> tuple[BayesianMixture, Any, Array]:
    model, params, x = families.example_mixture(family, k, d, n, np.random.default_rng(11))
    mixture = BayesianMixture(model)
    return mixture, mixture.prior(params, Prior(kappa=0.7)), x


# laws of conjugate beliefs


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_one_component_is_bayes_rule(family: Family) -> None:
    mixture, prior, x = example(family, 1, 3, 50)
    one_by_one = matched(Threads(mixture.model, 1), prior, Rows(x))[0]
    statistics = Statistics.of(family.blocks_of(x, np.ones((50, 1))), np.array([50.0]))
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

    def means(posterior: MixturePosterior) -> Array:
        return family.sort_keys(mixture.expected(posterior).components)[0, :3]

    center = means(before)
    # a far row that may or may not be the component's
    far = [center * f + f for f in (20.0, 3.0, 500.0, 2.0, 1.0)]
    rows = family.into_support(np.array(far))
    doubt = [mixture.conjugate.match(before.components, r, 1.0, np.array([0.5]))[0] for r in rows]
    parts = [MixturePosterior(before.alpha, components) for components in doubt]
    together = mixture.combine(before, parts)
    moves = np.array([means(p) - center for p in parts])
    most = np.abs(moves).sum(axis=0)
    assert (np.abs(means(together) - center) <= most * (1.0 + 1e-9)).all()
    if isinstance(family, Gaussian):
        merged = mixture.expected(together).components
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
    b = posterior.components
    if isinstance(b, DirichletPosterior):
        draws = rng.gamma(b.counts)
        return ProbabilityParams(draws / draws.sum(axis=-1, keepdims=True))
    if isinstance(b, BetaPosterior):
        p, family = rng.beta(b.successes, b.failures), mixture.model.family
        if isinstance(family, Trials):
            return ProbabilityParams(p)
        assert isinstance(family, Failures)
        return MeanParams(family.successes * (1.0 - p) / p)
    if not isinstance(b, NormalWishartPosterior):
        rates, family = rng.gamma(b.shape, 1.0 / b.rate), mixture.model.family
        if isinstance(family, Scales):
            return ScaleParams(family.to_scales(1.0 / rates))
        return MeanParams(rates if isinstance(family, Poisson) else 1.0 / rates)
    normal = _normal(b, rng)
    family = mixture.model.family
    return family.from_normal(normal) if isinstance(family, LogNormal) else normal


def _normal(b: NormalWishartPosterior, rng: np.random.Generator) -> GaussianParams:
    if b.scale.ndim == 2:
        deviation = b.scale / np.sqrt(rng.chisquare(b.nu))
        return GaussianParams(rng.normal(b.mean, deviation / np.sqrt(b.kappa)), deviation)
    w = np.linalg.inv(b.scale @ b.scale.swapaxes(1, 2))
    precision = [stats.wishart(nu, s).rvs(random_state=rng) for nu, s in zip(b.nu, w, strict=True)]
    factor = np.linalg.cholesky(np.linalg.inv(np.array(precision)))
    noise = (factor @ rng.normal(size=(*b.mean.shape, 1)))[:, :, 0]
    return GaussianParams(b.mean + noise / np.sqrt(b.kappa)[:, None], factor)


def _probabilities(params: MixtureParams) -> Array:
    components: Any = params.components
    found: Array = components.probabilities
    return found


def _scales(params: MixtureParams) -> Array:
    assert isinstance(params.components, ScaleParams)
    return params.components.scales


def _log_normal(params: MixtureParams) -> LogNormalParams:
    assert isinstance(params.components, LogNormalParams)
    return params.components


@pytest.mark.parametrize("family", CONJUGATE, ids=repr)
def test_intervals_hold_what_is_drawn(family: Family) -> None:
    mixture, prior, x = example(family, 2, 2, 60)
    posterior = matched(Threads(mixture.model, 1), prior, Rows(x))[0]
    rng = np.random.default_rng(1)
    draws = drawn(mixture, posterior, 2000, rng)
    values = {
        "weights": np.array([p.weights for p in draws]),
        "means": np.array([family.sort_keys(p.components)[:, :2] for p in draws]),
    }
    if isinstance(family, Gaussian):
        covariances = family.structure.covariances
        values["covariances"] = np.array([covariances(p.components.scale) for p in draws])
    if isinstance(family, Multinomial | Categorical):
        values["probabilities"] = np.array([_probabilities(p) for p in draws])
    if isinstance(family, Scales):
        values["scales"] = np.array([_scales(p) for p in draws])
    if isinstance(family, LogNormal):
        normal = [family.to_normal(_log_normal(p)) for p in draws]
        values["log_means"] = np.array([p.means for p in normal])
        values["log_variances"] = np.array([np.square(p.scale) for p in normal])
    if isinstance(family, TransformedGaussian):
        attributes = [family.attributes(p.components) for p in draws]
        for name in ("transformed_means", "transformed_covariances"):
            values[name] = np.array([each[name] for each in attributes])
    if isinstance(family, Scales | LogNormal | TransformedGaussian):
        del values["means"]
    if isinstance(family, Categorical):  # the mean of a code has no interval
        del values["means"]
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
    shape = b.scale[0] @ b.scale[0].T * (b.kappa[0] + 1) / (b.kappa[0] * freedom)
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
        NormalWishartPosterior(b.mean * scale, b.kappa, b.nu, b.scale * scale[:, None]),
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
    v = before.scale[0] @ before.scale[0].T + gap.T @ gap
    v += before.kappa[0] * len(x) / b.kappa[0] * np.outer(offset, offset)
    found = b.scale[0] @ b.scale[0].T
    np.testing.assert_allclose(found, v, rtol=1e-11, atol=1e-11 * np.abs(v).max())
    w = np.linalg.inv(b.scale[0]).T @ np.linalg.inv(b.scale[0])
    assert np.abs(w @ v - np.eye(6)).max() < 1e-8
