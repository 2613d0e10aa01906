"""Rows with missing cells, against independent implementations."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, poisson

from mixfold.backends.threads import Threads
from mixfold.core.errors import InvalidInputError
from mixfold.core.family import Family
from mixfold.core.learner import Learner
from mixfold.core.rows import Rows
from mixfold.estimators.mixture import Mixture
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.dirichlet import Dirichlet
from mixfold.families.gamma import Gamma
from mixfold.families.gaussian import Gaussian
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.multinomial import Multinomial
from mixfold.families.poisson import Poisson
from mixfold.families.product import Product
from mixfold.families.student_t import StudentT
from mixfold.families.transformed_gaussian import TransformedGaussian
from mixfold.families.von_mises_fisher import VonMisesFisher
from mixfold.families.wishart import Wishart
from mixfold.kernels.patterned_rows import PatternedRowsKernel
from mixfold.learners.auto import Auto
from mixfold.learners.em import EM
from mixfold.learners.k_mle import KMLE
from mixfold.learners.mini_batch_em import MiniBatchEM
from mixfold.learners.online_em import OnlineEM
from mixfold.learners.online_k_mle import OnlineKMLE
from mixfold.learners.recursive_em import RecursiveEM
from mixfold.learners.reservoir_em import ReservoirEM
from mixfold.learners.sem import SEM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families, learners
from mixfold.testing.folding import fold

MIXED = Product({0: Gaussian(), (1, 2): Gaussian(), 3: Poisson(), 4: Categorical(3)})
GROUPS = Product({(0, 3): StudentT(degrees=None), (1, 2, 4): Gaussian("factor", rank=1)})
COMPLETE: list[Family] = [
    Gaussian(),
    Gaussian("tied"),
    Gaussian("diag"),
    Gaussian("spherical"),
    Poisson(),
    Gamma(),
    Bernoulli(),
    Categorical(3),
    TransformedGaussian((1, 3)),
    StudentT(),
    StudentT("diag", degrees=None),
    StudentT(degrees=None),
    Gaussian("factor", rank=2),
    GROUPS,
    MIXED,
]
INCOMPLETE = [with_missing(family) for family in COMPLETE]
PAIRS = list(zip(COMPLETE, INCOMPLETE, strict=True))
LEARNERS = [EM(), MiniBatchEM(), OnlineEM(batch_size=20), ReservoirEM(), KMLE(), SEM(), Auto()]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def with_holes(x: np.ndarray, share: float, seed: int = 1) -> np.ndarray:
    return np.where(rng(seed).random(x.shape) < share, np.nan, x)


def example(family: Family, n: int = 200, k: int = 3) -> tuple[MixtureModel, MixtureParams, Rows]:
    model, params, x = families.example_mixture(family, k, 5, n, rng())
    x = with_holes(x, 0.3)
    x[0] = np.nan
    return model, params, Rows(x)


@pytest.mark.parametrize("law", families.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("family", INCOMPLETE, ids=repr)
def test_family_laws_hold_for_complete_rows(law: Callable[..., None], family: Family) -> None:
    if law is families.linearity_is_as_stated:
        return  # statistics depend on parameters through missing cells only
    law(family, 2, 5, rng(7))


@pytest.mark.parametrize(("complete", "family"), PAIRS, ids=repr)
def test_density_of_complete_rows_is_the_same(complete: Family, family: Family) -> None:
    _, params, x = families.example_mixture(complete, 3, 5, 50, rng())
    np.testing.assert_allclose(
        family.log_density(params.components, x),
        complete.log_density(params.components, x),
        rtol=1e-13,
    )


@pytest.mark.parametrize("family", INCOMPLETE, ids=repr)
def test_statistics_depend_on_parameters_as_stated(family: Family) -> None:
    _, params, rows = example(family)
    other = family.example(3, 5, rng(5))
    r = rng().dirichlet(np.ones(3), size=len(rows))
    one, two = (
        family.to_blocks(theta, family.sums(theta, rows.x, r))
        for theta in (params.components, other)
    )
    gaps = [np.abs(a.mean - b.mean).max() for a, b in zip(one, two, strict=True)]
    assert (max(gaps) > 1e-6) == family.statistics_depend_on_params


def test_density_of_gaussians_is_that_of_the_observed_cells() -> None:
    family = with_missing(Gaussian())
    _, params, rows = example(family)
    found = family.log_density(params.components, rows.x)
    covariances = family.attributes(params.components)["covariances"]
    for i, row in enumerate(rows.x):
        o = np.flatnonzero(~np.isnan(row))
        for k in range(3):
            expected = 0.0
            if len(o):
                mean = params.components.means[k, o]
                expected = multivariate_normal.logpdf(row[o], mean, covariances[k][np.ix_(o, o)])
            assert found[i, k] == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_density_of_a_product_is_that_of_the_observed_columns() -> None:
    family = with_missing(Product({0: Gaussian(), 1: Poisson()}))
    x = np.array([[1.0, 2.0], [np.nan, 3.0], [0.5, np.nan], [np.nan, np.nan]])
    params = family.example(2, 2, rng())
    normal, counts = params.parts
    one = norm.logpdf(x[:, :1], normal.means[:, 0], normal.scale[:, 0])
    two = poisson.logpmf(x[:, 1:], counts.means[:, 0])
    expected = np.nan_to_num(one) + np.nan_to_num(two)
    np.testing.assert_allclose(family.log_density(params, x), expected, rtol=1e-12)


WITH_HOLES = [INCOMPLETE[0], INCOMPLETE[2], *INCOMPLETE[-3:]]
HOLES_AND_LEARNERS = [
    (family, learner)
    for family in WITH_HOLES
    for learner in LEARNERS
    # searches are alike for all families, and take long for those that are learned in Python
    if not isinstance(learner, ReservoirEM) or family in (INCOMPLETE[0], INCOMPLETE[-1])
]


@pytest.mark.parametrize("law", learners.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize(("family", "learner"), HOLES_AND_LEARNERS, ids=repr)
def test_learner_laws_hold_for_rows_with_holes(
    law: Callable[..., None], family: Family, learner: Learner
) -> None:
    model, params, rows = example(family, 100)
    if learner.serves(model):
        law(model, params, learner.resolve(100, 5, False), rows, [1, 8, 9, 37, 88])


def in_and_after_complete_rows(family: Family) -> tuple[MixtureModel, MixtureParams, Rows]:
    """Rows that are complete but for a few, which stand alone, together and at both ends."""
    model, params, rows = example(family, 120)
    _, _, complete = families.example_mixture(family, 3, 5, 120, rng())
    holes = np.isin(np.arange(120), [0, 7, 40, 41, 42, 90, 119])
    return model, params, Rows(np.where(holes[:, None], rows.x, complete))


@pytest.mark.parametrize("covariance", ["full", "tied"])
@pytest.mark.parametrize(
    "learner",
    [
        OnlineEM(warmup=5),
        OnlineKMLE(warmup=5),
        OnlineKMLE(strategy="sample", warmup=5),
        RecursiveEM(warmup=5),
    ],
    ids=repr,
)
def test_complete_rows_among_others_are_learned_alike_in_compiled_code(
    learner: Learner, covariance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, params, rows = in_and_after_complete_rows(with_missing(Gaussian(covariance)))
    learner, backend = learner.resolve(120, 5, False), Threads(model, 1)
    learners.blocks_do_not_matter(model, params, learner, rows, [1, 8, 41, 42, 100])
    runs = []
    for served in (True, False):
        if not served:
            monkeypatch.setattr(PatternedRowsKernel, "complete_row_updater", lambda *_: None)
        state, _ = fold(backend, learner, params, rows, [50], passes=1)
        assert state.rows == 120
        runs.append(model.unconstrained(learner.estimate(backend, state)))
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-8, atol=1e-8)
    assert not np.array_equal(runs[0], runs[1])  # the first were in compiled code


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("family", INCOMPLETE, ids=repr)
def test_em_never_lowers_the_observed_likelihood(family: Family, accelerate: bool) -> None:
    model, _, rows = example(family, 300)
    start = families.example_mixture(family, 3, 5, 1, rng(1))[1]
    learner, backend = EM(tol=0.0, accelerate=accelerate), Threads(model, 1)
    state, reached = learner.init(backend, start), -np.inf
    for _ in range(30):
        state, _ = learner.step(backend, state, rows)
        state, _ = learner.end_pass(backend, state)
        found = backend.posterior(learner.estimate(backend, state), rows, False)[0]
        assert found[0] == pytest.approx(0.0, abs=1e-12)  # nothing is observed
        assert float(found.mean()) >= reached - 1e-9
        reached = float(found.mean())


def own_em(x: np.ndarray, w: np.ndarray, mu: np.ndarray, s: np.ndarray, passes: int) -> float:
    """EM of full Gaussians row by row, from Little and Rubin; the likelihood before the last."""
    n, d = x.shape
    total = 0.0
    for _ in range(passes):
        first, second, mass, total = np.zeros_like(mu), np.zeros_like(s), np.zeros(len(w)), 0.0
        for row in x:
            o, m = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
            logs = np.log(w)
            if len(o):
                logs = logs + [
                    multivariate_normal.logpdf(row[o], mu[k, o], s[k][np.ix_(o, o)])
                    for k in range(len(w))
                ]
            total += logsumexp(logs)
            for k, r in enumerate(np.exp(logs - logsumexp(logs))):
                slope = s[k][np.ix_(m, o)] @ np.linalg.inv(s[k][np.ix_(o, o)])
                full, rest = row.copy(), np.zeros((d, d))
                full[m] = mu[k, m] + slope @ (row[o] - mu[k, o])
                rest[np.ix_(m, m)] = s[k][np.ix_(m, m)] - slope @ s[k][np.ix_(o, m)]
                mass[k] += r
                first[k] += r * full
                second[k] += r * (np.outer(full, full) + rest)
        w, mu = mass / n, first / mass[:, None]
        s = second / mass[:, None, None] - mu[:, :, None] * mu[:, None, :]
    return float(total)


def test_full_covariances_agree_with_an_independent_em() -> None:
    family = with_missing(Gaussian(floor=0.0))
    model, params, rows = example(family, 150, 2)
    covariances = family.attributes(params.components)["covariances"]
    expected = own_em(rows.x, params.weights, params.components.means, covariances, 8)
    learner, backend = EM(tol=0.0, max_iter=8, accelerate=False), Threads(model, 1)
    state = learner.init(backend, params)
    for _ in range(8):
        state, _ = learner.step(backend, state, rows)
        state, infos = learner.end_pass(backend, state)
    assert infos[-1].log_likelihood * len(rows) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("family", "why"),
    [
        (Multinomial(), "the counts of a row are given their sum"),
        (Dirichlet(), "the values of a row sum to one"),
        (VonMisesFisher(), "a row is a vector of length one"),
        (Wishart(), "a row is a positive definite matrix"),
    ],
    ids=repr,
)
def test_rows_whose_values_depend_on_one_another_must_be_complete(family: Family, why: str) -> None:
    end = f"cannot have missing values, since {why}: drop or fill such rows, or use a family of"
    with pytest.raises(InvalidInputError, match=re.escape(f"rows of {family!r} {end}")):
        with_missing(family)
    product = Product({0: Poisson(), ("a", "b", "c"): family})
    named = f"columns ('a', 'b', 'c') of {family!r} {end}"
    with pytest.raises(InvalidInputError, match=re.escape(named)):
        with_missing(product)
    x = families.example_mixture(family, 2, 3, 30, rng())[2]
    model = Mixture(family, 2, random_state=0)
    with pytest.raises(InvalidInputError, match=re.escape(f"since {why}")):
        model.fit(with_holes(x, 0.2))
    assert not hasattr(model, "means_")
