"""Standard errors of families without scores of their own, and of rows with missing cells.

The oracle is the log-likelihood by scipy in parameters of its own, differentiated twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import least_squares

import mixture_likelihoods as oracle
from mixfold import Categorical, Gaussian, Mixture, NegativeBinomial, Product, StudentT, Weibull
from mixfold.core.errors import LearningWarning
from mixfold.families.transformed_gaussian import TransformedGaussian
from mixfold.learners.em import EM
from mixfold.models import information
from mixfold.models.estimates import Estimates

CONVERGED = EM(tol=1e-10, max_iter=20_000, accelerate=True)
N = 400
Z = (np.random.default_rng(3).random(N) < 0.4).astype(float)


def fitted(family: Any, x: np.ndarray, k: int = 2, **settings: Any) -> Mixture:
    return Mixture(family, k, learner=CONVERGED, random_state=0, **settings).fit(x)


def normal_rows() -> np.ndarray:
    rng = np.random.default_rng(5)
    root = np.array([[1.0, 0.0], [0.5, 0.6]])
    rows = rng.normal(size=(N, 2)) @ root.T * (1.0 + 0.3 * Z[:, None]) + 2.8 * Z[:, None]
    return np.asarray(rows)


def with_gaps(x: np.ndarray, share: float = 0.25) -> np.ndarray:
    gaps = np.random.default_rng(9).random(x.shape) < share
    return np.where(gaps, np.nan, x)


def chosen(found: Estimates, *names: str) -> list[int]:
    """The numbers of the estimates with these names."""
    return [i for i, one in enumerate(found.names) if one.split("[")[0] in names]


def check(
    found: Estimates, kind: str, logs: oracle.Logs, p: np.ndarray, shown: Any, entries: list[int]
) -> None:
    """Errors of the entries are those of functions of the oracle's parameters."""
    assert found.values[entries] == pytest.approx(shown(p), rel=1e-6)
    expected = oracle.errors_of(logs, shown, p, kind, np.ones(N))
    assert found.errors[entries] == pytest.approx(expected, rel=3e-3)
    assert found.left_to_gain < 1e-4


NAMES = ["EII", "EEI", "VEI", "EVI", "VEE", "EVE", "VVE", "EEV", "VEV", "EVV"]


@pytest.mark.parametrize(
    ("name", "gaps"), [*((name, False) for name in NAMES), ("VEI", True), ("VVE", True)]
)
def test_covariances_with_letters(name: str, gaps: bool) -> None:
    x = with_gaps(normal_rows()) if gaps else normal_rows()
    model = fitted(Gaussian(name), x)
    found = model.estimates(x)
    widths = {"E": 1, "V": 2, "I": 0}
    matrices = model.covariances_
    if matrices.ndim == 2:
        matrices = matrices[:, None] * np.eye(2)

    def away(rest: np.ndarray) -> np.ndarray:
        return np.ravel(oracle.shaped(name, np.concatenate([np.zeros(4), rest]))[1] - matrices)

    begun = [np.full(sum(widths[one] for one in name), v) for v in (0.1, 0.5, 1.0, 1.5, -0.5)]
    best = min((least_squares(away, one, xtol=1e-15, ftol=1e-15) for one in begun), key=cost)
    assert best.cost < 1e-10
    p = np.concatenate([[model.weights_[0]], model.means_.ravel(), best.x])

    def logs(p: np.ndarray) -> np.ndarray:
        pairs = zip(*oracle.shaped(name, p[1:]), strict=True)
        return oracle.mixture(p[0], *(oracle.observed_normal(x, *pair) for pair in pairs))

    def shown(p: np.ndarray) -> np.ndarray:
        means, matrices = oracle.shaped(name, p[1:])
        variances = np.diagonal(matrices, axis1=1, axis2=2)
        diagonal = model.covariances_.ndim == 2
        rest = [] if diagonal else [matrices[:, 1, 0]]
        return np.concatenate([[p[0], 1.0 - p[0]], means.ravel(), variances.ravel(), *rest])

    check(found, "observed", logs, p, shown, list(range(len(found.names))))


def cost(found: Any) -> float:
    return float(found.cost)


@pytest.mark.parametrize("kind", ["observed", "empirical", "sandwich"])
@pytest.mark.parametrize("form", ["full", "tied", "diag", "spherical"])
def test_missing_cells_of_gaussians(form: str, kind: str) -> None:
    x = with_gaps(normal_rows())
    found = fitted(Gaussian(form), x).estimates(x, kind)
    names = [i for i, one in enumerate(found.names) if one != "weights[1]"]
    p = found.values[names]

    def logs(p: np.ndarray) -> np.ndarray:
        means = p[1:5].reshape(2, 2)
        if form == "full":
            matrices = [np.array([[a, c], [c, b]]) for a, b, c in (p[[5, 6, 9]], p[[7, 8, 10]])]
        elif form == "tied":
            matrices = [np.array([[p[5], p[7]], [p[7], p[6]]])] * 2
        else:
            variances = p[5:].reshape(2, -1)
            matrices = [np.diag(np.broadcast_to(one, 2)) for one in variances]
        pairs = zip(means, matrices, strict=True)
        return oracle.mixture(p[0], *(oracle.observed_normal(x, *pair) for pair in pairs))

    check(found, kind, logs, p, lambda p: p, names)


@pytest.mark.parametrize("kind", ["observed", "empirical", "sandwich"])
def test_missing_cells_of_products(kind: str) -> None:
    rng = np.random.default_rng(1)
    level = 1.0 * (rng.random(N) < 0.2 + 0.6 * Z) + (rng.random(N) < 0.4)
    x = np.column_stack([rng.normal(2.0 * Z), rng.poisson(2.0 + 5.0 * Z), level])
    x = with_gaps(x)
    family = Product({0: "gaussian", 1: "poisson", 2: Categorical(3)})
    found = fitted(family, x).estimates(x, kind)
    left_out = {"weights[1]", "probabilities[0, 2, 2]", "probabilities[1, 2, 2]"}
    names = [i for i, one in enumerate(found.names) if one not in left_out]

    def logs(p: np.ndarray) -> np.ndarray:
        means, variances, rates, levels = p[1:3], p[3:5], p[5:7], p[7:11].reshape(2, 2)
        parts = []
        for k in range(2):
            q = np.log(np.array([*levels[k], 1.0 - levels[k].sum()]))
            coded = q[np.nan_to_num(x[:, 2]).astype(int)]
            own = [
                stats.norm.logpdf(x[:, 0], means[k], np.sqrt(variances[k])),
                stats.poisson.logpmf(np.nan_to_num(x[:, 1]), rates[k]),
                coded,
            ]
            parts.append(np.where(np.isnan(x.T), 0.0, np.stack(own)).sum(axis=0))
        return oracle.mixture(p[0], *parts)

    check(found, kind, logs, found.values[names], lambda p: p, names)


@pytest.mark.parametrize(
    ("degrees", "gaps", "kind"),
    [(4.0, False, "sandwich"), (None, False, "observed"), (4.0, True, "observed")],
)
def test_student_t(degrees: float | None, gaps: bool, kind: str) -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_t(4.0, size=(N, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]]) + 6.0 * Z[:, None]
    x = with_gaps(x) if gaps else x
    found = fitted(StudentT(degrees=degrees), x).estimates(x, kind)
    names = [i for i, one in enumerate(found.names) if one != "weights[1]"]
    p = found.values[names]
    assert len(p) == (11 if degrees else 13)

    def logs(p: np.ndarray) -> np.ndarray:
        means, nu = p[1:5].reshape(2, 2), [degrees] * 2 if degrees else p[11:]
        matrices = [np.array([[a, c], [c, b]]) for a, b, c in (p[[5, 6, 9]], p[[7, 8, 10]])]
        each = zip(means, matrices, nu, strict=True)
        return oracle.mixture(p[0], *(observed_t(x, *one) for one in each))

    check(found, kind, logs, p, lambda p: p, names)


def observed_t(x: np.ndarray, mean: np.ndarray, matrix: np.ndarray, nu: float) -> np.ndarray:
    found = np.zeros(len(x))
    for pattern in np.unique(~np.isnan(x), axis=0):
        rows = (~np.isnan(x) == pattern).all(axis=1)
        if pattern.any():
            own = stats.multivariate_t(mean[pattern], matrix[np.ix_(pattern, pattern)], nu)
            found[rows] = own.logpdf(x[np.ix_(rows, pattern)])
    return found


def test_directions() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(N, 3)) + np.where(Z[:, None] > 0, [0.0, 0.0, 4.0], [4.0, 0.0, 0.0])
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    model = fitted("von-mises-fisher", x)
    found = model.estimates(x)
    p = np.append(model.weights_[0], (model.concentrations_[:, None] * model.means_).ravel())

    def logs(p: np.ndarray) -> np.ndarray:
        kappa = np.linalg.norm(p[1:].reshape(2, 3), axis=1)
        linear = x @ p[1:].reshape(2, 3).T
        constant = np.log(kappa) - np.log(4.0 * np.pi * np.sinh(kappa))
        return oracle.mixture(p[0], *(linear + constant).T)

    def shown(p: np.ndarray) -> np.ndarray:
        natural = p[1:].reshape(2, 3)
        kappa = np.linalg.norm(natural, axis=1)
        return np.concatenate([[p[0], 1.0 - p[0]], (natural / kappa[:, None]).ravel(), kappa])

    check(found, "observed", logs, p, shown, list(range(len(found.names))))


def test_proportions() -> None:
    rng = np.random.default_rng(2)
    alphas = np.array([[2.0, 3.0, 6.0], [8.0, 3.0, 2.0]])
    x = np.stack([rng.dirichlet(alphas[int(z)]) for z in Z])
    found = fitted("dirichlet", x).estimates(x)
    p = np.append(found.values[0], found.values[chosen(found, "alphas")])

    def logs(p: np.ndarray) -> np.ndarray:
        return oracle.mixture(p[0], *(stats.dirichlet.logpdf(x.T, a) for a in p[1:].reshape(2, 3)))

    def shown(p: np.ndarray) -> np.ndarray:
        alphas = p[1:].reshape(2, 3)
        means = alphas / alphas.sum(axis=1, keepdims=True)
        return np.concatenate([[p[0], 1.0 - p[0]], means.ravel(), alphas.ravel()])

    check(found, "observed", logs, p, shown, list(range(len(found.names))))


@pytest.mark.parametrize("kind", ["observed", "empirical", "sandwich"])
def test_counts_of_outcomes(kind: str) -> None:
    rng = np.random.default_rng(2)
    p = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    x = np.stack([rng.multinomial(rng.integers(3, 20), p[int(z)]) for z in Z]).astype(float)
    found = fitted("multinomial", x).estimates(x, kind)
    entries = [i for i, one in enumerate(found.names) if one not in LAST]

    def logs(p: np.ndarray) -> np.ndarray:
        first = p[1:].reshape(2, 2)
        each = np.column_stack([first, 1.0 - first.sum(axis=1)])
        n = x.sum(axis=1)
        return oracle.mixture(p[0], *(stats.multinomial.logpmf(x, n, one) for one in each))

    check(found, kind, logs, found.values[entries], lambda p: p, entries)
    assert (found.errors > 0.0).all()  # also of the last outcome


LAST = {"weights[1]", "probabilities[0, 2]", "probabilities[1, 2]"}


@pytest.mark.parametrize("kind", ["observed", "sandwich"])
def test_covariance_matrices(kind: str) -> None:
    shapes = np.array([[1.0, 0.3], [0.3, 2.0]]), np.array([[3.0, -0.6], [-0.6, 1.0]])
    drawn = [stats.wishart.rvs(6, one, size=N, random_state=1) for one in shapes]
    x = np.where(Z[:, None] > 0, *(one[:, *np.tril_indices(2)] for one in drawn))
    found = fitted("wishart", x).estimates(x, kind)
    entries = [0, *chosen(found, "degrees_of_freedom"), *chosen(found, "scales")]
    rows = x[:, [0, 1, 1, 2]].reshape(-1, 2, 2).transpose(1, 2, 0)

    def logs(p: np.ndarray) -> np.ndarray:
        matrices = [np.array([[a, c], [c, b]]) for a, b, c in (p[[3, 4, 7]], p[[5, 6, 8]])]
        each = zip(p[1:3], matrices, strict=True)
        return oracle.mixture(p[0], *(stats.wishart.logpdf(rows, *one) for one in each))

    check(found, kind, logs, found.values[entries], lambda p: p, entries)


@pytest.mark.parametrize("gaps", [False, True])
def test_weibull_with_unknown_shape(gaps: bool) -> None:
    rng = np.random.default_rng(2)
    x = ((1.0 + 5.0 * Z) * rng.weibull(2.0 + 2.0 * Z))[:, None]
    x = with_gaps(x, 0.1) if gaps else x
    found = fitted(Weibull(shape=None), x).estimates(x)
    entries = [0, *chosen(found, "scales", "shapes")]

    def logs(p: np.ndarray) -> np.ndarray:
        each = (stats.weibull_min.logpdf(x[:, 0], p[3 + k], scale=p[1 + k]) for k in range(2))
        return oracle.mixture(p[0], *(np.where(np.isnan(x[:, 0]), 0.0, one) for one in each))

    check(found, "observed", logs, found.values[entries], lambda p: p, entries)


def test_negative_binomial_with_unknown_size() -> None:
    rng = np.random.default_rng(2)
    x = rng.negative_binomial(4, np.where(Z > 0, 0.12, 0.7))[:, None].astype(float)
    found = fitted(NegativeBinomial(size=None), x).estimates(x)
    entries = [0, *chosen(found, "sizes", "probabilities")]

    def logs(p: np.ndarray) -> np.ndarray:
        each = (stats.nbinom.logpmf(x[:, 0], p[1 + k], p[3 + k]) for k in range(2))
        return oracle.mixture(p[0], *each)

    check(found, "observed", logs, found.values[entries], lambda p: p, entries)


def test_zero_inflated_counts() -> None:
    rng = np.random.default_rng(2)
    x = (rng.poisson(5.0, N) * (rng.random(N) < 0.7))[:, None].astype(float)
    found = fitted("zero-inflated-poisson", x, 1).estimates(x)
    entries = chosen(found, "rates", "inflation")

    def logs(p: np.ndarray) -> np.ndarray:
        counts = np.log1p(-p[1]) + stats.poisson.logpmf(x[:, 0], p[0])
        return np.asarray(np.where(x[:, 0] == 0, np.logaddexp(counts, np.log(p[1])), counts))

    check(found, "observed", logs, found.values[entries], lambda p: p, entries)


@pytest.mark.parametrize("gaps", [False, True])
def test_columns_on_the_logarithmic_scale(gaps: bool) -> None:
    y = with_gaps(normal_rows()) if gaps else normal_rows()
    x = np.column_stack([np.exp(y[:, 0]), y[:, 1]])
    normal = fitted(Gaussian(), y).estimates(y)
    model = fitted(TransformedGaussian(logs=(0,)), x)
    found = model.estimates(x)
    assert found.values == pytest.approx(normal.values, rel=1e-4)
    assert found.errors == pytest.approx(normal.errors, rel=1e-4)
    assert found.names[2] == "transformed_means[0, 0]"


@pytest.mark.parametrize(("rank", "d", "gaps"), [(1, 3, False), (1, 3, True), (2, 5, False)])
def test_factors(rank: int, d: int, gaps: bool) -> None:
    """The oracle has some loadings of zero, which fix a rotation."""
    rng = np.random.default_rng(2)
    loadings = np.array([[1.0, 0.8, -0.9, 0.7, 1.1], [0.0, 1.0, 0.6, -0.8, 0.9]])[:rank, :d]
    x = rng.normal(size=(N, rank)) @ loadings + 0.6 * rng.normal(size=(N, d))
    x = with_gaps(x, 0.1) if gaps else x
    model = fitted(Gaussian("factor", rank=rank), x, 1)
    places = np.triu_indices(rank, 0, d)
    own = np.linalg.qr(model.loadings_[0])[1][places]
    p = np.concatenate([model.means_[0], own, model.noise_variance_[0]])

    def unpacked(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        means, own, noise = np.split(p, [d, d + len(places[0])])
        loadings = np.zeros((rank, d))
        loadings[places] = own
        return means, loadings.T @ loadings + np.diag(noise), noise

    def logs(p: np.ndarray) -> np.ndarray:
        return oracle.observed_normal(x, *unpacked(p)[:2])

    def shown(p: np.ndarray) -> np.ndarray:
        means, matrix, noise = unpacked(p)
        below = matrix[np.tril_indices(d, -1)]
        return np.concatenate([means, np.diag(matrix), below, noise])

    found = model.estimates(x)
    check(found, "observed", logs, p, shown, list(range(1, len(found.names))))


@pytest.mark.parametrize("form", ["full", "tied", "diag", "spherical", "VEV"])
def test_tiles_with_and_without_gaps_add_up(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal_rows()
    x = x[np.argsort(x[:, 0])]  # so that rows without gaps are in a corner
    x[N // 2 :] = with_gaps(x[N // 2 :])
    model = fitted(Gaussian(form), x)
    expected = model.estimates(x).errors
    monkeypatch.setattr(information, "LONGEST_TILE", 50)
    assert model.estimates(x).errors == pytest.approx(expected, rel=1e-5)


def test_a_column_without_cells_is_not_identified() -> None:
    x = normal_rows()
    model = fitted(Gaussian(), x)
    x[:, 1] = np.nan
    with pytest.warns(LearningWarning, match="cannot tell apart"):
        found = model.estimates(x)
    names = set(found.not_identified)
    assert {"means[0, 1]", "covariances[1, 1, 1]", "covariances[0, 1, 0]"} <= names
    assert not names & {"weights[0]", "means[0, 0]", "covariances[1, 0, 0]"}
