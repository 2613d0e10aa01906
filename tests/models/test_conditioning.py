"""Marginal and conditional mixtures, against textbook formulas, integrals and sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, poisson

from mixfold.core.capabilities import ColumnMeans, MeanResultants
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.independent_columns import separable
from mixfold.families.categorical import Categorical
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import FactorGaussian, Gaussian, GaussianParams
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.mean_params import MeanParams
from mixfold.families.multinomial import Multinomial
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.families.student_t import StudentT
from mixfold.families.von_mises import VonMises
from mixfold.models.conditioning import (
    conditional,
    conditional_means,
    conditional_probabilities,
    contributions,
    log_density,
    marginal,
)
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing.families import all_variants, example_mixture

MIXED: Any = {0: Gaussian(), (1, 2): Gaussian(), 3: Poisson(), 4: Categorical(3)}
SHUFFLED: Any = {(3, 0, 4): Gaussian("tied"), 2: VonMises(), 1: Gamma()}
NAMED: Any = {("a", "e"): Gaussian(), "b": Poisson(), "d": Categorical(3), "c": Gaussian()}
STRUCTURES = ("full", "tied", "diag", "spherical")


def _is_known(family: Family) -> bool:
    return separable(family) is not None or isinstance(
        family, Gaussian | FactorGaussian | StudentT | Product
    )


FAMILIES = [
    *(family for family in all_variants(5) if _is_known(family)),
    Product(SHUFFLED),
    Product(NAMED).bound(["a", "b", "c", "d", "e"]),
]
ALL = [*FAMILIES, *(with_missing(family) for family in FAMILIES)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def log_p(model: MixtureModel, params: MixtureParams, x: np.ndarray) -> np.ndarray:
    return np.asarray(logsumexp(model.log_joint(params, np.atleast_2d(x)), axis=1))


def gaussians(covariance: str, k: int = 3, d: int = 5) -> tuple[MixtureModel, MixtureParams]:
    model, params, _ = example_mixture(Gaussian(covariance), k, d, 1, rng())
    return model, params


def dense(model: MixtureModel, params: MixtureParams) -> np.ndarray:
    """Covariance matrices of all components, (K, d, d)."""
    scale = params.components.scale
    if scale.ndim == 2:
        scale = np.broadcast_to(scale, (model.k, model.d))[:, :, None] * np.eye(model.d)
    return np.broadcast_to(scale @ scale.swapaxes(1, 2), (model.k, model.d, model.d))


def textbook(
    model: MixtureModel, params: MixtureParams, row: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, means and covariances of the missing columns given the others."""
    o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
    logs, means, covariances = np.log(params.weights), [], []
    for k, sigma in enumerate(dense(model, params)):
        mu = params.components.means[k]
        slope = sigma[np.ix_(m, o)] @ np.linalg.inv(sigma[np.ix_(o, o)])
        means.append(mu[m] + slope @ (row[o] - mu[o]))
        covariances.append(sigma[np.ix_(m, m)] - slope @ sigma[np.ix_(o, m)])
        if len(o):
            logs[k] += multivariate_normal.logpdf(row[o], mu[o], sigma[np.ix_(o, o)])
    return np.exp(logs - logsumexp(logs)), np.array(means), np.array(covariances)


# Gaussians, against the textbook


@pytest.mark.parametrize("covariance", STRUCTURES)
@pytest.mark.parametrize("k", [1, 3])
def test_marginal_gaussians_have_parts_of_means_and_covariances(covariance: str, k: int) -> None:
    model, params = gaussians(covariance, k)
    small, found = marginal(model, params, [4, 0, 2])
    small.check_params(found)
    np.testing.assert_array_equal(found.weights, params.weights)
    np.testing.assert_array_equal(found.components.means, params.components.means[:, [4, 0, 2]])
    expected = dense(model, params)[:, [4, 0, 2]][:, :, [4, 0, 2]]
    np.testing.assert_allclose(dense(small, found), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("covariance", STRUCTURES)
@pytest.mark.parametrize("k", [1, 3])
def test_conditional_gaussians_agree_with_the_textbook(covariance: str, k: int) -> None:
    model, params = gaussians(covariance, k)
    row = np.array([0.5, np.nan, -1.0, np.nan, 2.0])
    small, found = conditional(model, params, {4: 2.0, 0: 0.5, 2: -1.0})
    small.check_params(found)
    weights, means, covariances = textbook(model, params, row)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(found.components.means, means, rtol=1e-9)
    np.testing.assert_allclose(dense(small, found), covariances, rtol=1e-9, atol=1e-12)


def test_conditional_variances_of_nearly_collinear_columns_keep_their_digits() -> None:
    scale = np.array([[[1.0, 0.0], [1.0, 1e-9]]])
    params = MixtureParams(np.ones(1), GaussianParams(np.zeros((1, 2)), scale))
    model = MixtureModel(Gaussian(), 1, 2)
    _, found = conditional(model, params, {0: 3.0})
    assert found.components.means[0, 0] == pytest.approx(3.0, rel=1e-12)
    assert found.components.scale[0, 0, 0] == pytest.approx(1e-9, rel=1e-6)
    _, swapped = marginal(model, params, [1, 0])
    assert swapped.components.scale[0, 1, 1] == pytest.approx(1e-9, rel=1e-6)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_conditional_means_are_mixtures_of_regressions(covariance: str) -> None:
    model, params = gaussians(covariance)
    x = model.sample(params, 60, rng(1))[0]
    x[rng(2).random(x.shape) < 0.4] = np.nan
    x[0], x[1] = np.nan, 1.0
    before = x.copy()
    found = conditional_means(model, params, x)
    np.testing.assert_array_equal(x, before)
    for row, own in zip(x, found, strict=True):
        missing = np.isnan(row)
        np.testing.assert_array_equal(own[~missing], row[~missing])
        if missing.any():
            weights, means, _ = textbook(model, params, row)
            np.testing.assert_allclose(own[missing], weights @ means, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found[0], params.weights @ params.components.means, rtol=1e-12)


# conditional density = joint density / marginal density


def test_conditional_density_of_two_columns_is_the_joint_over_its_integral() -> None:
    model, params = gaussians("full", 2, 2)
    small, found = conditional(model, params, {1: 0.7})

    def joint(value: float) -> float:
        return float(np.exp(log_p(model, params, np.array([value, 0.7])))[0])

    centres = params.components.means[:, 0]
    ends = centres.min() - 20.0, centres.max() + 20.0
    total = quad(joint, *ends, points=list(centres), epsabs=1e-14, limit=500)[0]
    alone, rest = marginal(model, params, [1])
    assert np.exp(log_p(alone, rest, np.array([[0.7]])))[0] == pytest.approx(total, rel=1e-8)
    for value in (-3.0, 0.0, 0.4, 5.0):
        density = np.exp(log_p(small, found, np.array([[value]])))[0]
        assert density == pytest.approx(joint(value) / total, rel=1e-7)
    mean = quad(lambda v: v * joint(v), *ends, points=list(centres), epsabs=1e-14, limit=500)[0]
    predicted = conditional_means(model, params, np.array([[np.nan, 0.7]]))
    assert predicted[0, 0] == pytest.approx(mean / total, rel=1e-7)


def test_conditional_probabilities_are_sums_over_a_table_of_counts_and_categories() -> None:
    family = Product({0: Poisson(), 1: Categorical(3)})
    model, params, _ = example_mixture(family, 3, 2, 1, rng(3))
    counts, levels = np.arange(200.0), np.arange(3.0)
    rates = params.components.parts[0].means[:, 0]
    p = params.components.parts[1].probabilities[:, 0]
    table = np.einsum("k,nk,kl->nl", params.weights, poisson.pmf(counts[:, None], rates), p)
    assert table.sum() == pytest.approx(1.0)
    small, found = conditional(model, params, {1: 2.0})
    np.testing.assert_allclose(
        np.exp(log_p(small, found, counts[:60, None])), table[:60, 2] / table[:, 2].sum()
    )
    small, found = conditional(model, params, {0: 4.0})
    np.testing.assert_allclose(
        np.exp(log_p(small, found, levels[:, None])), table[4] / table[4].sum()
    )
    x = np.column_stack([counts[:20], np.full(20, np.nan)])
    expected = table[:20] / table[:20].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(conditional_probabilities(model, params, x, 1), expected)
    x[:, 1] = 1.0  # a value that is known is not used
    np.testing.assert_allclose(conditional_probabilities(model, params, x, 1), expected)
    means = conditional_means(model, params, np.column_stack([np.full(3, np.nan), levels]))
    np.testing.assert_allclose(means[:, 0], counts @ table / table.sum(axis=0))
    modes = conditional_means(model, params, np.column_stack([counts[:20], np.full(20, np.nan)]))
    np.testing.assert_array_equal(modes[:, 1], expected.argmax(axis=1))


def test_means_of_angles_are_directions() -> None:
    family = Product({0: VonMises(), 1: Gaussian()})
    model, params, _ = example_mixture(family, 2, 2, 1, rng(5))
    small, found = conditional(model, params, {1: 0.3})
    angles = np.linspace(-np.pi, np.pi, 2001)[:-1]
    density = np.exp(log_p(small, found, angles[:, None]))
    expected = np.angle((density * np.exp(1j * angles)).sum())
    assert conditional_means(model, params, np.array([[np.nan, 0.3]]))[0, 0] == pytest.approx(
        expected, abs=1e-10
    )


# laws of all families


@pytest.mark.parametrize("family", ALL, ids=repr)
def test_chain_rule(family: Family) -> None:
    """log p(x) = log p(x_o) + log p(x_m | x_o)."""
    model, params, x = example_mixture(family, 3, 5, 12, rng())
    for given in ([0], [1, 3], [4, 2, 0], [0, 1, 2, 3]):
        left = [j for j in range(5) if j not in given]
        alone, own = marginal(model, params, given)
        alone.check_params(own)
        assert (alone.family.accepts_missing, alone.d) == (family.accepts_missing, len(given))
        for row in x:
            small, rest = conditional(model, params, {j: row[j] for j in given})
            small.check_params(rest)
            assert (small.family.accepts_missing, small.d) == (family.accepts_missing, len(left))
            both = log_p(alone, own, row[given]) + log_p(small, rest, row[left])
            np.testing.assert_allclose(both, log_p(model, params, row), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_marginals_of_all_columns_in_another_order_are_the_same(family: Family) -> None:
    model, params, x = example_mixture(family, 3, 5, 12, rng())
    order = [3, 1, 4, 0, 2]
    other, found = marginal(model, params, order)
    np.testing.assert_allclose(
        log_p(other, found, x[:, order]), log_p(model, params, x), rtol=1e-10
    )
    back, again = marginal(other, found, [order.index(j) for j in range(5)])
    np.testing.assert_allclose(log_p(back, again, x), log_p(model, params, x), rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_conditional_means_are_those_of_conditional_mixtures(family: Family) -> None:
    model, params, x = example_mixture(family, 3, 5, 12, rng())
    for given in ([2], [1, 3], [4, 2, 0]):
        holes = np.full_like(x, np.nan)
        holes[:, given] = x[:, given]
        left = [j for j in range(5) if j not in given]
        found = conditional_means(model, params, holes)
        for row, own in zip(x, found, strict=True):
            small, rest = conditional(model, params, {j: row[j] for j in given})
            expected = conditional_means(small, rest, np.full((1, len(left)), np.nan))[0]
            np.testing.assert_allclose(own[left], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("family", all_variants(2), ids=repr)
def test_column_means_are_means_of_rows(family: Any) -> None:
    params = family.example(2, 2, rng(1))
    labels = np.repeat([0, 1], 200_000)
    x = family.sample(params, labels, rng(2)).reshape(2, -1, 2)
    if isinstance(family, ColumnMeans):
        spread = np.maximum(x.std(axis=1), 1e-12) / np.sqrt(x.shape[1])
        assert (np.abs(x.mean(axis=1) - family.column_means(params)) < 5.0 * spread).all()
    if isinstance(family, MeanResultants):
        assert np.abs(np.exp(1j * x).mean(axis=1) - family.resultants(params)).max() < 0.01


def test_families_of_numbers_have_means() -> None:
    known = [family for family in all_variants(5) if separable(family) is not None]
    without = {type(family) for family in known if not isinstance(family, ColumnMeans)}
    assert without == {Categorical, VonMises}


# contributions of cells


def test_contributions_are_log_densities_of_cells_given_the_others() -> None:
    model, params = gaussians("full")
    x = model.sample(params, 20, rng(1))[0]
    x[rng(2).random(x.shape) < 0.3] = np.nan
    x[0], x[1] = np.nan, [np.nan, 2.0, np.nan, np.nan, np.nan]
    found = contributions(model, params, x)
    assert (np.isnan(found) == np.isnan(x)).all()
    for i, j in np.argwhere(~np.isnan(x)):
        row = x[i].copy()
        row[j] = np.nan
        weights, means, covariances = textbook(model, params, row)
        at = list(np.flatnonzero(np.isnan(row))).index(j)
        logs = norm.logpdf(x[i, j], means[:, at], np.sqrt(covariances[:, at, at]))
        assert found[i, j] == pytest.approx(logsumexp(logs, b=weights), rel=1e-8, abs=1e-8)


def test_contributions_add_up_where_columns_are_independent() -> None:
    model, params, x = example_mixture(Product(MIXED), 1, 5, 30, rng())
    diagonal = replaced_by_diagonal(params)
    expected = log_p(model, diagonal, x)
    np.testing.assert_allclose(contributions(model, diagonal, x).sum(axis=1), expected, rtol=1e-9)


def replaced_by_diagonal(params: MixtureParams) -> MixtureParams:
    parts = list(params.components.parts)
    parts[1] = GaussianParams(parts[1].means, np.eye(2)[None] * parts[1].scale)
    return MixtureParams(params.weights, type(params.components)(tuple(parts)))


def test_the_unusual_cell_has_the_lowest_contribution() -> None:
    family = Product({(0, 1): Gaussian(), 2: Poisson()})
    normal = GaussianParams(np.zeros((1, 2)), np.eye(2)[None])
    own = type(family.example(1, 3, rng()))((normal, MeanParams(np.full((1, 1), 4.0))))
    params = MixtureParams(np.ones(1), own)
    x = np.array([[8.0, 0.0, 4.0], [0.0, -8.0, 4.0], [0.0, 0.0, 40.0]])
    found = contributions(MixtureModel(family, 1, 3), params, x)
    np.testing.assert_array_equal(found.argmin(axis=1), [0, 1, 2])


def test_the_log_density_of_nothing_is_zero() -> None:
    model, params, _ = example_mixture(with_missing(Product(MIXED)), 3, 5, 1, rng())
    assert log_density(model, params, np.full((2, 5), np.nan)) == pytest.approx([0.0, 0.0])


# names and numbers of columns


def test_names_of_columns_are_kept() -> None:
    family = Product(NAMED).bound(["a", "b", "c", "d", "e"])
    model, params, _ = example_mixture(family, 2, 5, 1, rng())
    small, _ = marginal(model, params, [4, 2, 3])
    factors = small.family.factors  # type: ignore[attr-defined]
    assert {f.label: f.positions for f in factors} == {"e": (0,), "c": (1,), "d": (2,)}
    small, _ = conditional(model, params, {0: 0.0, 3: 1.0})
    factors = small.family.factors  # type: ignore[attr-defined]
    assert {f.label: f.positions for f in factors} == {"b": (0,), "c": (1,), "e": (2,)}


def test_columns_without_names_are_numbered_anew() -> None:
    model, params, _ = example_mixture(Product(SHUFFLED), 2, 5, 1, rng())
    small, found = marginal(model, params, [4, 2, 3])
    factors = small.family.factors  # type: ignore[attr-defined]
    assert [(f.columns, f.positions) for f in factors] == [((2, 0), (2, 0)), ((1,), (1,))]
    assert list(small.family.attributes(found.components)["parameters"]) == [(2, 0), 1]


def test_limits_of_variances_are_those_of_the_columns() -> None:
    x = rng().normal(size=(100, 3)) * [1.0, 10.0, 100.0]
    family = Gaussian().with_limits(x)
    model = MixtureModel(family, 2, 3)
    params = MixtureParams(np.full(2, 0.5), family.example(2, 3, rng()))
    assert family.column_floors is not None
    for small, _ in (marginal(model, params, [2, 0]), conditional(model, params, {1: 0.0})):
        floors = small.family.column_floors  # type: ignore[attr-defined]
        assert sorted(floors) == sorted(family.column_floors[[0, 2]])


# borders


def test_far_values_leave_valid_weights() -> None:
    model, params = gaussians("full", 2, 2)
    small, found = conditional(model, params, {0: 1e9})
    small.check_params(found)
    assert np.isfinite(log_p(small, found, found.components.means)).all()


def test_no_rows() -> None:
    model, params, _ = example_mixture(Product(MIXED), 2, 5, 1, rng())
    assert conditional_means(model, params, np.empty((0, 5))).shape == (0, 5)
    assert contributions(model, params, np.empty((0, 5))).shape == (0, 5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "given is empty: give the value of at least one column"),
        (dict.fromkeys(range(5), 0.0), "given has values of all 5 columns: leave out"),
        ({5: 0.0}, "no column 5: give whole numbers from 0 to 4"),
        ({-1: 0.0}, "no column -1"),
        ({"a": 0.0}, "no column 'a'"),
        ({0: np.nan}, "the value of column 0 is nan: give a finite number"),
        ({0: "x"}, "the value of column 0 is 'x'"),
        ({3: 1.5}, "column 3 has the value 1.5: values must be whole numbers >= 0"),
        ({3: -1.0}, "column 3 has the value -1: values must be whole numbers >= 0"),
        ({4: 3.0}, "column 4 has the value 3: values must be whole numbers from 0 to 2"),
    ],
)
def test_what_cannot_be_given(given: Any, message: str) -> None:
    model, params, _ = example_mixture(Product(MIXED), 2, 5, 1, rng())
    with pytest.raises(InvalidInputError, match=message):
        conditional(model, params, given)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "columns is empty"),
        ([0, 5], "no column 5"),
        ([1, 0, 1], "columns has 1 twice"),
        ([True], "no column True"),
    ],
)
def test_columns_that_cannot_be_taken(columns: Any, message: str) -> None:
    model, params, _ = example_mixture(Product(MIXED), 2, 5, 1, rng())
    with pytest.raises(InvalidInputError, match=message):
        marginal(model, params, columns)


@pytest.mark.parametrize(
    "family", [Multinomial(), Product({(0, 1): Multinomial(), 2: Poisson()})], ids=repr
)
def test_families_that_cannot_be_divided(family: Family) -> None:
    model, params, x = example_mixture(family, 2, 3, 4, rng())
    for call in (
        lambda: marginal(model, params, [0]),
        lambda: conditional(model, params, {0: 1.0}),
        lambda: conditional_means(model, params, x),
        lambda: contributions(model, params, x),
    ):
        with pytest.raises(InvalidInputError, match="sum: use a family of independent columns"):
            call()


def test_rows_are_checked() -> None:
    model, params, x = example_mixture(Product(MIXED), 2, 5, 4, rng())
    with pytest.raises(InvalidInputError, match=r"x has shape \(4, 4\)"):
        contributions(model, params, x[:, :4])
    x[2, 3] = 0.5
    with pytest.raises(InvalidInputError, match=r"column 3 has the value 0\.5"):
        conditional_means(model, params, x)
    with pytest.raises(InvalidInputError, match="column 0 has no categories"):
        conditional_probabilities(model, params, x, 0)
