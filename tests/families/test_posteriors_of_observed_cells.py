"""Posteriors of columns with missing cells, against those of the observed cells alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conjugates import close
from mixfold import (
    Bernoulli,
    Categorical,
    Gaussian,
    Mixture,
    MomentMatching,
    OnlineVB,
    Poisson,
    Prior,
)
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import join_columns, take_columns
from mixfold.core.rows import Array, Rows
from mixfold.core.statistics import Statistics
from mixfold.core.value import equal
from mixfold.families._product_posteriors import ProductPosterior
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.product import Product
from mixfold.kernels.reference import match
from mixfold.learners._prior import no_prior
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior
from mixfold.models.mixture_model import MixtureModel
from mixfold.testing.families import example_mixture

LEARNERS = [MomentMatching(), OnlineVB(batch_size=50), OnlineVB("streaming", batch_size=50)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def example(family: Family, k: int, d: int, n: int) -> tuple[BayesianMixture, Any, Array]:
    model, params, x = example_mixture(family, k, d, n, rng(3))
    mixture = BayesianMixture(model)
    return mixture, mixture.prior(params, Prior(kappa=0.7)), x


def learned(mixture: BayesianMixture, posterior: Any, x: Array) -> tuple[MixturePosterior, float]:
    return match(mixture.model, posterior, Rows(x))[:2]


def table(n: int = 400) -> Array:
    """Counts, a real column, levels and yes or no, of two components."""
    z, draws = rng().integers(2, size=n), rng(1)
    levels = np.where(draws.random(n) < 0.8, z, 2)
    counts, reals = draws.poisson(2.0 + 8.0 * z), draws.normal(4.0 * z, 1.0)
    return np.column_stack([counts, reals, levels, draws.random(n) < 0.2 + 0.6 * z])


def with_holes(x: Array) -> Array:
    found = np.where(rng(5).random(x.shape) < 0.25, np.nan, x)
    found[0] = np.nan
    return found


def test_a_missing_cell_leaves_the_posterior_of_its_column() -> None:
    family = Product({0: Poisson(), 1: Gaussian(), 2: Categorical(3)})
    mixture, prior, x = example(with_missing(family), 1, 3, 60)
    holes = with_holes(x)
    posterior, log_density = learned(mixture, prior, holes)
    total = 0.0
    for j, (factor, part) in enumerate(zip(family.factors, prior.components.parts, strict=True)):
        column = holes[:, j : j + 1]
        column = column[~np.isnan(column[:, 0])]
        alone = BayesianMixture(MixtureModel(factor.family, 1, 1))
        found, own = learned(alone, MixturePosterior(prior.alpha, part), column)
        close(posterior.components.parts[j], found.components)
        total += own
    assert log_density == pytest.approx(total, rel=1e-10)
    blocks = mixture.model.family.to_blocks(
        mixture.expected(prior).components,
        mixture.model.family.sums(mixture.expected(prior).components, holes, np.ones((60, 1))),
    )
    close(mixture.absorb(prior, Statistics.of(blocks, np.array([60.0]))), posterior)


@pytest.mark.parametrize("family", [Gaussian("diag"), Poisson(), Categorical(3)], ids=repr)
def test_several_columns_are_a_product_of_columns(family: Family) -> None:
    mixture, prior, x = example(with_missing(family), 3, 3, 60)
    parts = tuple(take_columns(prior.components, [j]) for j in range(3))
    product = with_missing(Product(dict.fromkeys(range(3), family)))
    split = MixturePosterior(prior.alpha, ProductPosterior(parts))
    holes = with_holes(x)
    whole, log_density = learned(mixture, prior, holes)
    found, total = learned(BayesianMixture(MixtureModel(product, 3, 3)), split, holes)
    assert total == pytest.approx(log_density, rel=1e-10)
    close(join_columns(found.components.parts), whole.components)


@pytest.mark.parametrize("family", [Gaussian("diag"), Poisson(), Categorical(3)], ids=repr)
def test_predictive_densities_are_those_of_the_observed_cells(family: Family) -> None:
    mixture, prior, x = example(family, 3, 2, 80)
    posterior = learned(mixture, prior, x)[0]
    incomplete = BayesianMixture(MixtureModel(with_missing(family), 3, 2))
    close(learned(incomplete, prior, x)[0], posterior)
    row, ends = x[:1].copy(), np.arange(300.0)[:, None]
    row[0, 1] = np.nan
    (found,) = incomplete.predictive(posterior, row)
    grid = np.arange(3.0)[:, None] if family.has_categories else ends
    step = 1.0
    if isinstance(family, Gaussian):
        grid, step = np.linspace(-1e3, 1e3, 100_001)[:, None], 0.02
    rows = np.hstack([np.repeat(x[:1, :1], len(grid), axis=0), grid])
    total = step * np.exp(mixture.predictive(posterior, rows)).sum()
    assert found == pytest.approx(np.log(total), abs=1e-6)
    nothing = incomplete.predictive(posterior, np.full((1, 2), np.nan))
    np.testing.assert_allclose(nothing, 0.0, atol=1e-12)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_tables_with_holes_have_posteriors(learner: Any) -> None:
    family = Product({0: Poisson(), 1: Gaussian(), 2: Categorical(3), 3: Bernoulli()})
    x = with_holes(table(1000))
    model = Mixture(family, 2, learner=learner, random_state=0).fit(x)
    np.testing.assert_allclose(np.sort(model.means_[:, 0]), [2.0, 10.0], atol=0.5)
    np.testing.assert_allclose(np.sort(model.means_[:, 1]), [0.0, 4.0], atol=0.3)
    assert np.isfinite(model.posterior_predictive(x)).all()
    assert model.score_samples(x)[0] == pytest.approx(0.0, abs=1e-12)


def test_moment_matching_continues_with_its_posterior_at_the_first_missing_cell() -> None:
    family, x = Product({0: Poisson(), 1: Gaussian()}), table()[:, :2]
    holes = x.copy()
    holes[300:] = with_holes(x[300:])
    start = Mixture(family, 2, random_state=0).fit(x).params_
    model = Mixture(family, 2, learner=MomentMatching(), init=start)
    for block in np.array_split(holes, 4):
        model.partial_fit(block)
    mixture = BayesianMixture(MixtureModel(with_missing(family), 2, 2))
    expected = learned(mixture, mixture.prior(start, Prior()), holes)[0]
    close(model.posterior_, expected)


@pytest.mark.parametrize("form", ["stochastic", "streaming"])
def test_online_vb_continues_with_its_posterior_at_the_first_missing_cell(form: Any) -> None:
    family, x = Product({0: Poisson(), 1: Gaussian()}), table()[:, :2]
    model = Mixture(family, 2, learner=OnlineVB(form, batch_size=64), random_state=0)
    before = model.partial_fit(x[:300]).posterior_
    after = model.partial_fit(with_holes(x[300:])).posterior_
    assert before.alpha.sum() == pytest.approx(302.0)
    assert after.alpha.sum() == pytest.approx(402.0)
    rates = [posterior.components.parts[0].rate.sum() for posterior in (before, after)]
    # three quarters of a hundred cells are observed; averages of the stochastic form, whose total
    # is that of all rows, give these latest rows more than their share
    least = 65.0 if form == "streaming" else 50.0
    assert least < rates[1] - rates[0] < 85.0


@pytest.mark.parametrize("learner", [MomentMatching(), OnlineVB()], ids=repr)
@pytest.mark.parametrize("family", [Gaussian(), Product({(0, 1): Gaussian()})], ids=repr)
def test_full_gaussians_with_missing_cells_have_no_conjugate_prior(
    family: Family, learner: Any
) -> None:
    x = table()[:, :2]
    holes = with_holes(x)
    incomplete = MixtureModel(with_missing(family), 2, 2)
    why = no_prior(incomplete)
    assert why is not None
    assert "with missing cells" in why
    model = Mixture(family, 2, learner=learner, random_state=0).partial_fit(x)
    before = model.posterior_
    for call in (
        lambda: model.partial_fit(holes),
        lambda: model.learn_one(np.array([np.nan, 1.0])),
        lambda: model.posterior_predictive(holes),
        lambda: Mixture(family, 2, learner=learner, random_state=0).fit(holes),
    ):
        with pytest.raises(InvalidInputError, match=r"with missing cells.*: use diagonal"):
            call()
    assert equal(model.posterior_, before)
    assert np.isfinite(model.score_samples(holes)).all()
