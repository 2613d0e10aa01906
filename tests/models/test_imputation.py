"""Missing cells filled from a mixture, against conditional distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, ks_1samp

from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import Gaussian
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.inverse_gamma import InverseGamma
from mixfold.families.multinomial import Multinomial
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.families.student_t import StudentT
from mixfold.models.conditioning import conditional, conditional_means, conditional_probabilities
from mixfold.models.imputation import METHODS, impute
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing.families import example_mixture

GIVEN: Any = {
    (1, 3): Gaussian(),
    0: Categorical(3),
    2: Poisson(),
    4: Bernoulli(),
    5: Gamma(),
}
MIXED = Product(GIVEN)
FAMILIES: list[Family] = [
    Gaussian(),
    Gaussian("tied"),
    Gaussian("spherical"),
    Gaussian("factor", rank=2),
    StudentT(),
    StudentT("diag"),
    Poisson(),
    Categorical(3),
    MIXED,
]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def example(family: Family, n: int = 60) -> tuple[MixtureModel, MixtureParams, np.ndarray]:
    model, params, x = example_mixture(family, 3, 6, n, rng())
    x[rng(1).random(x.shape) < 0.4] = np.nan
    x[0] = np.nan
    x[1:6] = model.sample(params, 5, rng(2))[0]
    return model, params, x


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("family", [*FAMILIES, with_missing(MIXED)], ids=repr)
def test_all_cells_are_filled_and_the_observed_ones_kept(
    family: Family, dtype: Any, method: str
) -> None:
    model, params, x = example(family)
    x = x.astype(dtype)
    before = x.copy()
    found = impute(model, params, x, method, rng())
    assert found.dtype == dtype
    assert found is not x
    assert x.tobytes() == before.tobytes()
    assert found[1:6].tobytes() == x[1:6].tobytes()
    there = ~np.isnan(x)
    assert found[there].tobytes() == x[there].tobytes()
    assert np.isfinite(found).all()
    if method != "mean":  # means of counts are not whole numbers
        outside = family.out_of_support(found)
        assert outside is None or not outside.any()


def test_rows_without_missing_cells_are_returned_as_they_are() -> None:
    model, params, x = example(MIXED)
    for method in METHODS:
        assert impute(model, params, x[1:6], method).tobytes() == x[1:6].tobytes()
    assert impute(model, params, np.empty((0, 6))).shape == (0, 6)


def test_means_are_conditional_means_and_categories_modes() -> None:
    model, params, x = example(MIXED)
    found = impute(model, params, x)
    np.testing.assert_array_equal(found, conditional_means(model, params, x))
    p = conditional_probabilities(model, params, x, 0)
    missing = np.isnan(x[:, 0])
    np.testing.assert_array_equal(found[missing, 0], p[missing].argmax(axis=1))
    ones = found[np.isnan(x[:, 4]), 4]
    assert ((ones > 0.0) & (ones < 1.0)).all()


def test_a_row_of_which_nothing_is_observed_gets_the_centre_of_the_mixture() -> None:
    model, params, _ = example(MIXED)
    (found,) = impute(model, params, np.full((1, 6), np.nan))
    means = params.weights @ model.family.attributes(params.components)["means"]
    p = params.weights @ params.components.parts[1].probabilities[:, 0]
    np.testing.assert_allclose(found[1:], means[1:], rtol=1e-12)
    assert found[0] == p.argmax()


def test_modes_are_centres_of_the_most_probable_component() -> None:
    model, params, x = example(MIXED)
    found = impute(model, params, x, "mode")
    for row, own in zip(x, found, strict=True):
        given = {int(j): float(row[j]) for j in np.flatnonzero(~np.isnan(row))}
        missing = np.isnan(row)
        if not missing.any():
            continue
        small, rest = conditional(model, params, given) if given else (model, params)
        one = MixtureParams(np.eye(3)[rest.weights.argmax()].clip(1e-300), rest.components)
        expected = conditional_means(small, one, np.full((1, small.d), np.nan))[0]
        whole = [support.whole for support in small.family.supports(small.d)]
        expected = np.where(whole, np.rint(expected), expected)
        np.testing.assert_allclose(own[missing], expected, rtol=1e-10, atol=1e-10)


# draws


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_draws_have_the_conditional_moments(covariance: str) -> None:
    model, params, _ = example_mixture(Gaussian(covariance), 3, 4, 1, rng())
    row = np.array([0.5, np.nan, 1.0, np.nan])
    drawn = impute(model, params, np.tile(row, (200_000, 1)), "draw", rng())[:, [1, 3]]
    small, found = conditional(model, params, {0: 0.5, 2: 1.0})
    weights, means = found.weights, found.components.means
    scale = found.components.scale
    if scale.ndim == 2:
        scale = np.broadcast_to(scale, (3, 2))[:, :, None] * np.eye(2)
    mean = weights @ means
    second = scale @ scale.swapaxes(1, 2) + means[:, :, None] * means[:, None]
    covariances = np.einsum("k,kij->ij", weights, np.broadcast_to(second, (3, 2, 2)))
    covariances -= np.outer(mean, mean)
    spread = np.sqrt(np.diag(covariances))
    assert (np.abs(drawn.mean(axis=0) - mean) < 5.0 * spread / np.sqrt(len(drawn))).all()
    gap = np.abs(np.cov(drawn.T) - covariances) / np.outer(spread, spread)
    assert gap.max() < 0.02
    assert small.d == 2


def test_draws_of_a_real_column_have_the_conditional_distribution() -> None:
    from scipy.stats import norm

    model, params, _ = example_mixture(Gaussian(), 3, 3, 1, rng(4))
    x = np.tile([0.0, np.nan, np.nan], (20_000, 1))
    drawn = impute(model, params, x, "draw", rng())[:, 1]
    small, found = conditional(model, params, {0: 0.0})
    one = found.components.means[:, 0], np.linalg.norm(found.components.scale[:, 0], axis=1)
    cdf = lambda v: norm.cdf(np.asarray(v)[:, None], *one) @ found.weights  # noqa: E731
    assert ks_1samp(drawn, cdf).pvalue > 1e-3
    assert small.d == 2


def test_draws_of_categories_and_counts_have_the_conditional_distribution() -> None:
    model, params, _ = example_mixture(MIXED, 3, 6, 1, rng())
    row = np.array([np.nan, 0.3, np.nan, np.nan, 1.0, np.nan])
    drawn = impute(model, params, np.tile(row, (50_000, 1)), "draw", rng())
    p = conditional_probabilities(model, params, row[None], 0)[0]
    assert chisquare(np.bincount(drawn[:, 0].astype(int), minlength=3), 50_000 * p).pvalue > 1e-3
    small, found = conditional(model, params, {1: 0.3, 4: 1.0})
    levels = np.arange(8.0)  # both columns at once: they depend on one another
    table = np.zeros((3, 9))
    for level in range(3):
        cells = np.full((8, 4), np.nan)
        cells[:, 0], cells[:, 1] = level, levels
        observed = MixtureModel(with_missing(small.family), 3, 4)
        table[level, :8] = np.exp(observed.log_joint(found, cells)).sum(axis=1)
        table[level, 8] = p[level] - table[level, :8].sum()
    counts = np.zeros_like(table)
    np.add.at(counts, (drawn[:, 0].astype(int), np.minimum(drawn[:, 2], 8).astype(int)), 1)
    assert chisquare(counts.ravel(), 50_000 * table.ravel()).pvalue > 1e-3


def test_draws_of_rows_of_which_nothing_is_observed_are_rows_of_the_mixture() -> None:
    model, params, _ = example_mixture(Gaussian(), 3, 2, 1, rng())
    drawn = impute(model, params, np.full((100_000, 2), np.nan), "draw", rng())
    rows = model.sample(params, 100_000, rng(1))[0]
    np.testing.assert_allclose(drawn.mean(axis=0), rows.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(rows.T), rtol=0.03, atol=0.1)


def test_draws_are_determined_by_the_generator() -> None:
    model, params, x = example(MIXED)
    one, same, other = (impute(model, params, x, "draw", rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert np.isfinite(impute(model, params, x, "draw")).all()


# errors


def test_unknown_methods_are_refused() -> None:
    model, params, x = example(MIXED)
    with pytest.raises(InvalidInputError, match=r"unknown method 'means'\. Did you mean 'mean'"):
        impute(model, params, x, "means")


def test_infinite_means_are_refused() -> None:
    family = InverseGamma()
    params = MixtureParams(np.full(2, 0.5), family.example(2, 1, rng()))
    params.components.shapes[1] = 0.5
    model, x = MixtureModel(family, 2, 1), np.array([[np.nan]])
    assert conditional_means(model, params, x)[0, 0] == np.inf
    with pytest.raises(InvalidInputError, match="column 0 has no finite mean"):
        impute(model, params, x)
    assert np.isfinite(impute(model, params, x, "draw", rng())).all()


def test_values_outside_the_support_and_other_families_are_refused() -> None:
    model, params, x = example(MIXED)
    x[3, 4] = 2.0
    with pytest.raises(InvalidInputError, match="column 4 has the value 2: values must be whole"):
        impute(model, params, x)
    model, params, x = example_mixture(Multinomial(), 2, 3, 4, rng())
    with pytest.raises(InvalidInputError, match="is not known in rows of Multinomial"):
        impute(model, params, x)
