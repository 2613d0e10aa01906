"""Factor analysers against dense covariances, and what Gaussians offer against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mixfold.core.errors import InvalidInputError
from mixfold.families import factor_analysis
from mixfold.families._factor_gaussian import FactorGaussian
from mixfold.families._gaussian_params import GaussianParams
from mixfold.families.factor_analysis import FactorParams, Moments
from mixfold.families.gaussian import Gaussian

K, D, Q = 2, 4, 2
STRUCTURES = ["full", "tied", "diag", "spherical"]


def factors(seed: int = 0) -> FactorParams:
    rng = np.random.default_rng(seed)
    noise = rng.uniform(0.5, 2.0, (K, D))
    return FactorParams(rng.normal(size=(K, D)), rng.normal(size=(K, Q, D)), noise)


def family() -> FactorGaussian:
    return FactorGaussian(rank=Q)


def covariances(params: FactorParams) -> np.ndarray:
    noise = np.array([np.diag(row) for row in params.noise_variance])
    return np.asarray(params.loadings.swapaxes(1, 2) @ params.loadings + noise)


def gaussian(covariance: str, seed: int = 0) -> GaussianParams:
    params = Gaussian(covariance).example(K, D, np.random.default_rng(seed))
    assert isinstance(params, GaussianParams)
    return params


def dense(params: GaussianParams) -> np.ndarray:
    """Covariances (K, d, d) of any structure."""
    f = params.scale
    if f.ndim == 3:
        return np.broadcast_to(f @ f.swapaxes(1, 2), (K, D, D))
    return np.array([np.diag(np.broadcast_to(row**2, D)) for row in f])


def test_posterior_of_factors() -> None:
    """beta = L Sigma^-1 and G = I - beta L', from the joint normal distribution of x and z."""
    params = factors()
    known = factor_analysis.posterior(params)
    for k, sigma in enumerate(covariances(params)):
        inverse = np.linalg.inv(sigma)
        beta = params.loadings[k] @ inverse
        np.testing.assert_allclose(known.beta[k], beta, rtol=1e-10, atol=1e-12)
        found = np.diag(known.precision[k]) - known.reach[k].T @ known.reach[k]
        np.testing.assert_allclose(found, inverse, rtol=1e-10, atol=1e-12)
        half = 0.5 * np.linalg.slogdet(sigma)[1]
        assert known.half_log_determinant[k] == pytest.approx(half, rel=1e-12)
        spread = np.eye(Q) - beta @ params.loadings[k].T
        np.testing.assert_allclose(factor_analysis.spread(params)[k], spread, rtol=1e-9, atol=1e-12)
        x = np.random.default_rng(1).normal(size=(5, D))
        squares = np.einsum("ni,ij,nj->n", x, inverse, x)
        np.testing.assert_allclose(
            factor_analysis.quadratic(params, known, k, x), squares, rtol=1e-10
        )


def test_moments_of_columns_and_factors_are_packed() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(K, 3, 3))
    square = root @ root.swapaxes(1, 2)
    moments = Moments(rng.uniform(1, 2, (K, D)), rng.normal(size=(K, 3, D)), square)
    packed = factor_analysis.packed(moments)
    assert packed.shape == (K, D + 3 * D + 6)
    np.testing.assert_array_equal(packed[:, :D], moments.variance)
    np.testing.assert_array_equal(packed[:, D : 2 * D], moments.cross[:, 0])
    np.testing.assert_array_equal(packed[:, 2 * D], moments.factors[:, 0, 0])
    np.testing.assert_array_equal(packed[:, -3:], moments.factors[:, 2])
    for found, given in zip(factor_analysis.unpacked(packed, D, 3), moments, strict=True):
        np.testing.assert_allclose(found, given)


def test_columns_are_regressed_on_factors() -> None:
    """Coefficients are cross' S^-1; in units in which factors have covariance I, S^-1/2 cross."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(50, Q)) @ np.array([[2.0, 0.3], [0.0, 0.5]])
    x = z @ rng.normal(size=(Q, D)) + 0.3 * rng.normal(size=(50, D))
    moments = Moments((x**2).mean(axis=0)[None], (z.T @ x / 50)[None], (z.T @ z / 50)[None])
    loadings, noise = factor_analysis.regressed(moments)
    coefficients = np.linalg.lstsq(z, x, rcond=None)[0]
    rest = ((x - z @ coefficients) ** 2).mean(axis=0)
    np.testing.assert_allclose(noise[0], rest, rtol=1e-9)
    explained = coefficients.T @ (z.T @ z / 50) @ coefficients
    np.testing.assert_allclose(loadings[0].T @ loadings[0], explained, rtol=1e-9, atol=1e-12)
    # where rounding explains more than there is, loadings explain what there is
    more = Moments(0.5 * np.square(loadings).sum(axis=1), moments.cross, moments.factors)
    less, rest = factor_analysis.regressed(more)
    np.testing.assert_allclose(np.square(less).sum(axis=1), more.variance, rtol=1e-9)
    assert (rest < 0.0).all()


def test_factors_are_rotated_to_those_of_others() -> None:
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    root = rng.normal(size=(3, 3))
    like = Moments(np.ones((1, D)), rng.normal(size=(1, 3, D)), (root @ root.T)[None])
    turned = Moments(like.variance, turn @ like.cross, turn @ like.factors @ turn.T)
    for found, given in zip(factor_analysis.rotated(turned, like), like, strict=True):
        np.testing.assert_allclose(found, given, rtol=1e-9, atol=1e-12)


def test_principal_components_begin_factors() -> None:
    """Probabilistic PCA of scaled columns: the rest of the variance is noise, equal in all."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 2)) @ rng.normal(size=(2, 6)) + 0.4 * rng.normal(size=(400, 6))
    x *= np.array([1.0, 2.0, 3.0, 0.1, 10.0, 1.0])
    x -= x.mean(axis=0)
    found = factor_analysis.unpacked(
        factor_analysis.principal(x, np.full(400, 1 / 400), 2)[None], 6, 2
    )
    variance = (x**2).mean(axis=0)
    np.testing.assert_allclose(found.variance[0], variance, rtol=1e-12)
    np.testing.assert_array_equal(found.factors[0], np.eye(2))
    loadings = found.cross[0] / np.sqrt(variance)
    values, vectors = np.linalg.eigh(np.corrcoef(x.T))
    noise = values[:-2].mean()
    expected = (vectors[:, -2:] * (values[-2:] - noise)) @ vectors[:, -2:].T
    got = loadings.T @ loadings
    np.testing.assert_allclose(got, expected, atol=0.02)
    assert (np.diagonal(got) <= 0.99 + 1e-12).all()
    # a factor that explains nothing begins with a little
    none = factor_analysis.unpacked(
        factor_analysis.principal(rng.normal(size=(50, 3)), np.full(50, 0.02), 2)[None], 3, 2
    )
    assert (np.square(none.cross[0]).sum(axis=1) > 0.0).all()
    still = factor_analysis.principal(np.zeros((5, 3)), np.full(5, 0.2), 1)
    assert np.isfinite(still).all()


def test_rescaled_factors() -> None:
    params, offset, scale = factors(), np.arange(4.0), np.array([1.0, 2.0, 0.5, 3.0])
    found = params.rescaled(offset, scale)
    np.testing.assert_allclose(found.means, offset + scale * params.means)
    np.testing.assert_allclose(covariances(found), covariances(params) * np.outer(scale, scale))


def test_divergences_of_factors() -> None:
    """KL(a_i, b_j) + KL(b_j, a_i), by dense matrices."""
    a, b = factors(0), factors(1)
    found = family().symmetric_kl(a, b)
    for i, s in enumerate(covariances(a)):
        for j, t in enumerate(covariances(b)):
            e = a.means[i] - b.means[j]
            both = np.linalg.inv(s) + np.linalg.inv(t)
            traces = np.trace(np.linalg.solve(s, t)) + np.trace(np.linalg.solve(t, s))
            assert found[i, j] == pytest.approx(0.5 * (traces - 2 * D + e @ both @ e), rel=1e-9)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_divergences_of_gaussians(covariance: str) -> None:
    a, b = gaussian(covariance, 0), gaussian(covariance, 1)
    found = Gaussian(covariance).symmetric_kl(a, b)
    for i, s in enumerate(dense(a)):
        for j, t in enumerate(dense(b)):
            e = a.means[i] - b.means[j]
            both = np.linalg.inv(s) + np.linalg.inv(t)
            traces = np.trace(np.linalg.solve(s, t)) + np.trace(np.linalg.solve(t, s))
            assert found[i, j] == pytest.approx(0.5 * (traces - 2 * D + e @ both @ e), rel=1e-9)


def test_blends_bounds_and_scales_of_factors() -> None:
    a, b = factors(0), factors(1)
    mixed = family().blend(a, b, 0.25)
    for name in ("means", "loadings", "noise_variance"):
        expected = 0.75 * getattr(a, name) + 0.25 * getattr(b, name)
        np.testing.assert_allclose(getattr(mixed, name), expected, rtol=1e-14)
    location, least, most = family().parameter_bounds(a)
    assert location == np.abs(a.means).max()
    assert least == a.noise_variance.min()
    widest = [
        np.linalg.eigvalsh(load.T @ load).max() + noise.max()
        for load, noise in zip(a.loadings, a.noise_variance, strict=True)
    ]
    assert most == pytest.approx(max(widest), rel=1e-12)
    deviations = np.sqrt(np.diagonal(covariances(a), axis1=1, axis2=2))
    np.testing.assert_allclose(family().standard_deviations(a), deviations, rtol=1e-12)
    scales = family().coordinate_scales(a)
    assert scales.shape == family().unconstrained(a).shape
    np.testing.assert_allclose(scales[:, :D], deviations)
    np.testing.assert_allclose(scales[:, 2 * D : 3 * D], deviations)
    assert (scales[:, 3 * D :] == 1.0).all()
    again = family().constrained(family().unconstrained(a), a)
    np.testing.assert_allclose(again.loadings, a.loadings)
    np.testing.assert_allclose(again.noise_variance, a.noise_variance)
    capped = FactorGaussian(rank=Q, cap=1.0).constrained(family().unconstrained(a), a)
    np.testing.assert_allclose(capped.noise_variance, np.maximum(a.noise_variance, 1.0))


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_blends_bounds_and_scales_of_gaussians(covariance: str) -> None:
    a, b, own = gaussian(covariance, 0), gaussian(covariance, 1), Gaussian(covariance)
    mixed = own.blend(a, b, 0.25)
    np.testing.assert_allclose(mixed.means, 0.75 * a.means + 0.25 * b.means)
    np.testing.assert_allclose(
        dense(mixed), 0.75 * dense(a) + 0.25 * dense(b), rtol=1e-9, atol=1e-12
    )
    location, least, most = own.parameter_bounds(a)
    values = np.linalg.eigvalsh(dense(a))
    assert location == np.abs(a.means).max()
    assert (least, most) == pytest.approx((values.min(), values.max()), rel=1e-9)
    deviations = np.sqrt(np.diagonal(dense(a), axis1=1, axis2=2))
    scales = own.coordinate_scales(a)
    np.testing.assert_allclose(scales[:, :D], deviations, rtol=1e-12)
    assert (scales[:, D:] == 1.0).all()
    np.testing.assert_allclose(own.standard_deviations(a), deviations, rtol=1e-12)
    flat = own.unconstrained(a)
    np.testing.assert_allclose(dense(own.constrained(flat, a)), dense(a), rtol=1e-10, atol=1e-12)
    half = 0.5 * np.linalg.slogdet(dense(a))[1]
    np.testing.assert_allclose(own.log_determinant(a), half, rtol=1e-10)
    if covariance in ("full", "tied"):  # logarithms of the pivots come first
        pivots = np.linalg.cholesky(dense(a))[:, np.arange(D), np.arange(D)]
        np.testing.assert_allclose(flat[:, D : 2 * D], np.log(pivots), rtol=1e-9)
        assert flat.shape == (K, 2 * D + D * (D - 1) // 2)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_a_start_has_the_spread_of_the_rows(covariance: str) -> None:
    """All components have the covariance of the rows, each by its structure."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, D)) * np.array([1.0, 2.0, 0.5, 3.0])
    weight = rng.uniform(0.5, 2.0, 60)
    centers = x[:3]
    found = Gaussian(covariance).around(centers, x, weight)
    np.testing.assert_array_equal(found.means, centers)
    cov = np.cov(x.T, aweights=weight, ddof=0)
    f = found.scale
    assert f.shape == Gaussian(covariance).structure.scale_shape(3, D)
    if covariance in ("full", "tied"):
        np.testing.assert_allclose(f @ f.swapaxes(1, 2), [cov] * len(f), rtol=1e-9)
    else:
        variance = np.diagonal(cov)
        wanted = variance if covariance == "diag" else [variance.mean()]
        np.testing.assert_allclose(f**2, [wanted] * 3, rtol=1e-9)


def test_a_start_of_factors_has_the_spread_of_the_rows() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(300, 1)) @ rng.normal(size=(1, D)) + 0.3 * rng.normal(size=(300, D))
    found = FactorGaussian(rank=1).around(x[:3], x, np.ones(300))
    np.testing.assert_array_equal(found.means, x[:3])
    cov = np.cov(x.T, ddof=0)
    for load, noise in zip(found.loadings, found.noise_variance, strict=True):
        np.testing.assert_allclose(np.diagonal(load.T @ load) + noise, np.diagonal(cov), rtol=0.02)


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_components_at_their_cap(covariance: str) -> None:
    own, params = Gaussian(covariance, cap=4.0), gaussian(covariance)
    found = own.at_cap(params)
    np.testing.assert_allclose(dense(found), [0.25 * np.eye(D)] * K)
    assert Gaussian(covariance).at_cap(params) is params
    assert own.capped(9.0).cap == 4.0
    assert own.capped(2.0).cap == 2.0
    assert Gaussian(covariance).capped(2.0).cap == 2.0
    assert own.least_variance == 0.25
    shapes = {"full": (D, D), "diag": (D,)}
    assert Gaussian(covariance).root_shape(D) == shapes.get(covariance)
    assert own.root_shape(D) == ((D,) if covariance == "diag" else None)
    triangular = covariance in ("full", "tied")
    assert (own.row_updates is None) == triangular
    assert Gaussian(covariance).row_updates is not None
    assert own.device_passes is None
    on_devices = covariance in ("full", "diag", "spherical")
    assert (Gaussian(covariance).device_passes is not None) == on_devices
    assert own.conjugate is None
    assert (Gaussian(covariance).conjugate is not None) == (covariance in ("full", "diag"))


@pytest.mark.parametrize("covariance", STRUCTURES)
def test_samples_of_gaussians(covariance: str) -> None:
    params = gaussian(covariance)
    labels = np.repeat([0, 1], 4000)
    x = Gaussian(covariance).sample(params, labels, np.random.default_rng(0))
    for k in range(K):
        rows = x[labels == k]
        sigma = dense(params)[k]
        # the distances are chi-squared, and columns have their means
        e = rows - params.means[k]
        square = np.einsum("ni,ij,nj->n", e, np.linalg.inv(sigma), e)
        assert stats.kstest(square, stats.chi2(D).cdf).pvalue > 1e-3
        np.testing.assert_allclose(rows.mean(axis=0), params.means[k], atol=0.2)
        np.testing.assert_allclose(np.cov(rows.T), sigma, atol=0.12 * np.abs(sigma).max())


def test_densities_and_starts_of_rows() -> None:
    rng = np.random.default_rng(8)
    x, weight = rng.normal(size=(20, 3)) + 1e3, rng.uniform(0.5, 2.0, 20)
    x[:, 2] = 1.0
    own = Gaussian()
    deviations = own.deviations_of(x, weight)
    mean = np.average(x, axis=0, weights=weight)
    exact = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weight))
    np.testing.assert_allclose(deviations[:2], exact[:2], rtol=1e-9)
    assert deviations[2] == 1.0
    found = own.divergence(x, x[:4], weight)
    square = (((x[:, None] - x[None, :4]) / deviations) ** 2).sum(axis=2)
    np.testing.assert_allclose(found, 0.5 * square, rtol=1e-9, atol=1e-12)


def test_factors_outside_of_their_domain() -> None:
    good = factors()
    family().check_params(good, K, D)
    for wrong, name in (
        (FactorParams(good.means[:1], good.loadings, good.noise_variance), "means"),
        (FactorParams(good.means, good.loadings[:, :1], good.noise_variance), "loadings"),
        (FactorParams(good.means, good.loadings, 0.0 * good.noise_variance), "noise_variance"),
        (FactorParams(good.means, good.loadings, good.noise_variance[:, :2]), "noise_variance"),
    ):
        with pytest.raises(InvalidInputError, match=name):
            family().check_params(wrong, K, D)
    family().check_columns(3)
    with pytest.raises(InvalidInputError, match="rank is 2, but the data have 2 columns"):
        family().check_columns(2)
    with pytest.raises(InvalidInputError, match="1 column:"):
        FactorGaussian(rank=1).check_columns(1)
    for floor in (-0.1, 1.1):
        with pytest.raises(InvalidInputError, match="floor"):
            Gaussian(floor=floor)
    Gaussian(floor=1.0, reg_covar=0.0)
    Gaussian(floor=0.0)
    for cap in (0.0, np.inf):
        with pytest.raises(InvalidInputError, match="cap"):
            Gaussian(cap=cap)


def test_numbers_of_statistics() -> None:
    assert family().n_means(D) == 6
    assert family().n_products(D) == D + 2 * D + 3
    assert family().n_sums(D) == 1 + 6 + 15
    assert Gaussian().n_statistics(3) == 9
    assert Gaussian("diag").n_statistics(3) == 6
    assert family().n_parameters(2, 6) == 2 * (6 + 12 - 1 + 6)
    assert family().n_parameters(2, 3) == 2 * (3 + 6)  # no more than a full covariance
