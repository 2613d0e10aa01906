"""Laws of every family."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from mixfold.core.capabilities import UnconstrainedCoordinates, conjugate_of
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.exponential_family import ExponentialFamily
from mixfold.core.family import Family
from mixfold.core.registry import find_all
from mixfold.core.rows import Array, Rows
from mixfold.core.schema import check_types
from mixfold.core.value import field_names, flatten, unflatten
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.bayesian_mixture import BayesianMixture
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing._quadrature import row_quadrature


def all_variants(d: int) -> list[Family]:
    """Every family that the registry finds, in every form that can have d columns."""
    found = [variant for family in find_all("families").values() for variant in family.variants()]
    return [variant for variant in found if variant.n_columns in (None, d)]


def close(a: Any, b: Any, what: str, rtol: float = 1e-8, atol: float = 1e-10) -> None:
    """Parameters agree, field by field; `what` says which equation fails if they do not."""
    one: dict[str, np.ndarray] = {}
    other: dict[str, np.ndarray] = {}
    assert flatten(a, "", one) == flatten(b, "", other)
    for name, array in one.items():
        np.testing.assert_allclose(
            array, other[name], rtol, atol, err_msg=f"{what} does not hold ({name.lstrip('.')})"
        )


def maximize_inverts_the_mean(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """maximize(expected(theta)) = theta."""
    params = family.example(k, d, rng)
    found, n_degenerate = family.maximize(family.expected(params, np.full(k, 1.0 / k)))
    assert n_degenerate == 0, f"maximize counts {n_degenerate} valid components as degenerate"
    close(
        found,
        params,
        "maximize(expected(params)) = params, where mean(params) is E[t(x)], not E[x], and "
        "maximize returns the parameters for which E[t(x)] is block.mean,",
    )


def gradient_of_log_normalizer_is_the_mean(
    family: Family, k: int, d: int, rng: np.random.Generator
) -> None:
    """grad A(eta) = E[t(x)]."""
    if not isinstance(family, ExponentialFamily):
        return
    params = family.example(k, d, rng)
    eta, mean = family.to_natural(params), family.mean(params)
    for j in range(eta.shape[1]):
        step = np.zeros_like(eta)
        step[:, j] = 1e-6 * np.maximum(np.abs(eta[:, j]), 1e-2)
        rise = family.log_normalizer(eta + step) - family.log_normalizer(eta - step)
        np.testing.assert_allclose(
            rise / (2 * step[:, j]),
            mean[:, j],
            rtol=1e-4,
            atol=1e-4,
            err_msg=f"the numerical gradient of log_normalizer at to_natural(params) (ACTUAL) is "
            f"not mean(params) (DESIRED), which must be E[t(x)], not E[x]; statistic {j}",
        )


def density_is_the_linear_form(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """log p(x|k) = <eta, t(x)> - A(eta) + log h(x)."""
    if not isinstance(family, ExponentialFamily):
        return
    params = family.example(k, d, rng)
    x = family.sample(params, rng.integers(k, size=50), rng)
    np.testing.assert_allclose(
        family.log_density(params, x),
        ExponentialFamily.log_density(family, params, x),
        rtol=1e-8,
        atol=1e-8,
    )


def density_has_total_one(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """The density integrates to one, or sums to one over whole numbers.

    Where it is the density of a row given its sum, this is over rows with the same sum. In up to
    two columns, or free coordinates of rows: a grid over more has too many points.
    """
    chart = family.chart(d)
    if len(family.supports(d) if chart is None else chart.supports) > 2:
        return
    params = family.example(k, d, rng)
    for component in range(k):
        rows = family.sample(params, np.full(4000, component), rng)
        points, weights = row_quadrature(family, rows)
        if family.given_total:
            same = points.sum(axis=1) == rows[0].sum()
            points, weights = points[same], weights[same]
        with np.errstate(over="ignore"):
            density = np.exp(family.log_density(params, points)[:, component])
        total = weights @ density
        np.testing.assert_allclose(
            total,
            1.0,
            rtol=1e-6,
            err_msg=f"the density of {family!r} does not integrate (or sum) to one over its "
            "support: check log_normalizer, log_base_measure, which has shape (n,), and support",
        )


def density_equals_scipy(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """The density is that of scipy.stats, where scipy has the distribution."""
    if not hasattr(family, "scipy_log_density"):
        raise AssertionError(
            f"{type(family).__name__} does not say which distribution of scipy.stats it equals: "
            "give it a method scipy_log_density(params, x) that computes log p(x|k), (n, K), with "
            "scipy.stats, or write scipy_log_density = None if scipy.stats has no such distribution"
        )
    if family.scipy_log_density is None:
        return
    params = family.example(k, d, rng)
    x = family.sample(params, rng.integers(k, size=50), rng)
    expected = family.scipy_log_density(params, x)
    np.testing.assert_allclose(
        family.log_density(params, x),
        expected,
        rtol=1e-8,
        atol=1e-8,
        err_msg="log_density (ACTUAL) is not scipy_log_density (DESIRED)",
    )


def weight_two_is_a_row_twice(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """Weights count rows, and weight zero is absence."""
    model, params, x = example_mixture(family, k, d, 40, rng)
    times = rng.integers(0, 4, size=len(x))
    kernel = ReferenceKernel(model)
    weighted = kernel.expect(params, Rows(x, times.astype(np.float64)))
    repeated = kernel.expect(params, Rows(np.repeat(x, times, axis=0)))
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-9)


def weights_have_no_scale(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """A common factor of all weights changes nothing, also where a component is degenerate."""
    params = family.example(k, d, rng)
    x = family.sample(params, rng.integers(k, size=40), rng)
    x[:20] = family.into_support(np.zeros((20, d)))
    labels = np.where(np.arange(40) < 20, 0, np.arange(40) % k)
    responsibilities = np.eye(k)[labels]
    found = [family.maximize(family.blocks_of(x, v * responsibilities)) for v in (1.0, 1e3, 1e-3)]
    for other, count_degenerate in found[1:]:
        close(other, found[0][0], "maximize(blocks of v * weights) = maximize(blocks)", rtol=1e-7)
        assert count_degenerate == found[0][1], "the number of degenerate components changes"


def sampled_moments_converge(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """The mean of t(x) over samples approaches E[t(x)]."""
    if not isinstance(family, ExponentialFamily):
        return
    params = family.example(k, d, rng)
    n = 40_000
    for component in range(k):
        t = family.sufficient_statistics(family.sample(params, np.full(n, component), rng))
        error = t.mean(axis=0) - family.mean(params)[component]
        limit = 6.0 * t.std(axis=0) / np.sqrt(n) + 1e-12
        assert (np.abs(error) < limit).all(), (
            f"component {component}: t(x) has the mean {t.mean(axis=0)} over {n} rows of sample, "
            "and mean(params), which must be E[t(x)], not E[x], is "
            f"{family.mean(params)[component]}"
        )


def coordinates_are_invertible(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """constrained(unconstrained(theta)) = theta, and any coordinates are valid."""
    if not (isinstance(family, UnconstrainedCoordinates) and family.has_coordinates):
        return
    params = family.example(k, d, rng)
    coordinates = family.unconstrained(params)
    close(
        family.constrained(coordinates, params),
        params,
        "constrained(unconstrained(params)) = params",
    )
    moved = family.constrained(coordinates + rng.normal(size=coordinates.shape), params)
    rows = family.sample(params, np.arange(k), rng)
    assert np.isfinite(family.log_density(moved, rows)).all(), (
        "constrained gives parameters without a finite density for some coordinates"
    )


def parameters_are_counted(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """Free parameters are as many as there are directions in which densities can move."""
    if not (isinstance(family, UnconstrainedCoordinates) and family.has_coordinates):
        return
    params = family.example(k, d, rng)
    rows = family.sample(params, np.repeat(np.arange(k), 20 * d), rng)

    def numbers(found: Any) -> Array:
        if isinstance(family, ExponentialFamily):
            return family.to_natural(found)
        return family.log_density(found, rows).T

    coordinates, eta = family.unconstrained(params), numbers(params)
    moves = []
    for index in np.ndindex(*coordinates.shape):
        moved = coordinates.copy()
        moved[index] += 1e-6
        move = numbers(family.constrained(moved, params)) - eta
        moves.append((move / np.abs(eta).max(axis=0)).ravel() / 1e-6)
    size = np.linalg.svd(np.array(moves), compute_uv=False)
    free = int((size > 1e-5 * size[0]).sum())
    assert free == family.n_parameters(k, d), (
        f"n_parameters({k}, {d}) is {family.n_parameters(k, d)}, and densities have {free} "
        "degrees of freedom"
    )


def columns_for(family: Family, d: int) -> int:
    """The smallest number of columns from d on that the family allows, or the one it is of."""
    if family.n_columns is not None:
        return family.n_columns
    try:
        family.check_columns(d)
    except InvalidInputError:
        return columns_for(family, d + 1)
    return d


def blend_joins_its_ends(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """blend(a, b, 0) = a and blend(a, b, 1) = b."""
    a, b = family.example(k, d, rng), family.example(k, d, rng)
    close(family.blend(a, b, 0.0), a, "blend(a, b, 0) = a")
    close(family.blend(a, b, 1.0), b, "blend(a, b, 1) = b")


def divergence_is_the_linear_form(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """J(a, b) = <eta_a - eta_b, mean_a - mean_b>: zero between equals, the same both ways."""
    a, b = family.example(k, d, rng), family.example(k, d, rng)
    found = family.symmetric_kl(a, b)
    if isinstance(family, ExponentialFamily):
        linear = ExponentialFamily.symmetric_kl(family, a, b)
        np.testing.assert_allclose(found, linear, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found, family.symmetric_kl(b, a).T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(np.diagonal(family.symmetric_kl(a, a)), 0.0, atol=1e-8)
    assert (found > 0).all()


def parameters_are_in_their_domain(
    family: Family, k: int, d: int, rng: np.random.Generator
) -> None:
    """Valid parameters pass the checks that parameters in files must pass, and others do not."""
    model, params, x = example_mixture(family, k, d, 50, rng)
    statistics = model.expected(params)
    model.check_statistics(statistics)
    for found in (params, model.maximize(statistics)[0]):
        check_types(found)
        model.check_params(found)
    if conjugate_of(family) is not None:
        mixture = BayesianMixture(model)
        posterior = mixture.prior(params, Prior())
        for row in x:
            posterior = mixture.match(posterior, row, 1.0)[0]
            mixture.check(posterior)
    arrays: dict[str, np.ndarray] = {}
    tree = flatten(params.components, "", arrays)
    for name, array in arrays.items():
        for bad in (*(np.full_like(array, n) for n in (np.nan, np.inf)), array[1:], array[..., 1:]):
            components = unflatten(tree, {**arrays, name: bad})
            with suppress(InvalidInputError):
                model.check_params(MixtureParams(params.weights, components))
                raise AssertionError(f"check_params does not refuse invalid {name}: {bad!r}")


def linearity_is_as_stated(
    family: Family, k: int, d: int, rng: np.random.Generator, n: int = 60
) -> None:
    """Under given responsibilities, blocks depend on the parameters if the family says so only."""
    params, other = family.example(k, d, rng), family.example(k, d, rng)
    x = family.sample(params, rng.integers(k, size=n), rng)
    r = rng.dirichlet(np.ones(k), size=len(x))
    one, two = (family.to_blocks(theta, family.sums(theta, x, r)) for theta in (params, other))
    gaps = [
        np.abs(getattr(a, name) - getattr(b, name)).max(initial=0.0)
        for a, b in zip(one, two, strict=True)
        for name in field_names(a)
    ]
    depend = max(gaps) > 1e-6
    assert depend == family.statistics_depend_on_params, (
        f"statistics_depend_on_params is {family.statistics_depend_on_params}, and blocks under "
        f"the same responsibilities and two parameters differ by {max(gaps)}"
    )


def sums_become_blocks_and_back(family: Family, k: int, d: int, rng: np.random.Generator) -> None:
    """to_blocks(to_sums(blocks)) are the blocks, which have the shapes that are stated."""
    params = family.example(k, d, rng)
    x = family.sample(params, rng.integers(k, size=60), rng)
    table = family.sums(params, x, rng.dirichlet(np.ones(k), size=len(x)))
    blocks = family.to_blocks(params, table)
    assert table.shape == (k, family.n_sums(d)), f"sums has shape {table.shape}"
    for block, shape in zip(blocks, family.block_shapes(d), strict=True):
        block.check(k, shape)
    back = family.to_sums(params, blocks)
    np.testing.assert_allclose(back, table, rtol=1e-8, atol=1e-8 * np.abs(table).max())


def example_mixture(
    family: Family, k: int, d: int, n: int, rng: np.random.Generator
) -> tuple[MixtureModel, MixtureParams, Array]:
    """A model, parameters and rows drawn from them, in d columns or the next number allowed."""
    d = columns_for(family, d)
    weights = rng.dirichlet(np.full(k, 5.0))
    model, params = MixtureModel(family, k, d), MixtureParams(weights, family.example(k, d, rng))
    return model, params, model.sample(params, n, rng)[0]


LAWS = [
    maximize_inverts_the_mean,
    gradient_of_log_normalizer_is_the_mean,
    density_is_the_linear_form,
    density_has_total_one,
    density_equals_scipy,
    weight_two_is_a_row_twice,
    weights_have_no_scale,
    sampled_moments_converge,
    coordinates_are_invertible,
    parameters_are_counted,
    blend_joins_its_ends,
    divergence_is_the_linear_form,
    linearity_is_as_stated,
    sums_become_blocks_and_back,
    parameters_are_in_their_domain,
]
