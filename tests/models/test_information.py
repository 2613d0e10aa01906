"""Standard errors against closed forms, statsmodels and differentiated likelihoods."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import polygamma

import mixture_likelihoods as oracle
from mixfold import Categorical, Gaussian, Mixture, Product
from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.registry import find_all
from mixfold.core.rows import Rows, in_tiles
from mixfold.families._natural_scores import NaturalScores
from mixfold.families.mean_params import MeanParams
from mixfold.families.scores import LocalScores, StatisticScores, local_scores
from mixfold.learners.em import EM
from mixfold.models.estimate_covariance import estimates, inverted
from mixfold.models.estimates import Labels
from mixfold.models.information import InformationSums, MixtureScores
from mixfold.models.mixture_model import MixtureParams

KINDS = "observed", "empirical", "sandwich"
CONVERGED = EM(tol=1e-11, max_iter=20_000, accelerate=True)


def fitted(family: Any, k: int, x: np.ndarray, weight: np.ndarray | None = None) -> Mixture:
    return Mixture(family, k, learner=CONVERGED, random_state=0).fit(x, sample_weight=weight)


def two_groups(n: int = 400) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(3)
    return (rng.random(n) < 0.4).astype(float), rng


def rows_of(name: str) -> np.ndarray:
    z, rng = two_groups()
    n = len(z)
    if name in ("full", "tied", "diag", "spherical"):
        skew = np.array([[1.0, 0.0], [0.5, 0.8]]) if name in ("full", "tied") else np.eye(2)
        return rng.normal(size=(n, 2)) @ skew.T + 2.5 * z[:, None]
    if name == "mixed":
        level = 1.0 * (rng.random(n) < 0.3 + 0.4 * z) + (rng.random(n) < 0.4)
        return np.column_stack([rng.normal(1.5 * z), rng.poisson(2.0 + 4.0 * z), level])
    return {
        "poisson": rng.poisson(2.0 + 6.0 * z)[:, None],
        "exponential": rng.exponential(1.0 + 9.0 * z)[:, None],
        "bernoulli": rng.random((n, 4)) < 0.2 + 0.55 * z[:, None],
        "gamma": rng.gamma(3.0 + 5.0 * z, 1.0 + z)[:, None],
    }[name].astype(float)


CASES = {
    "full": Gaussian("full"),
    "tied": Gaussian("tied"),
    "diag": Gaussian("diag"),
    "spherical": Gaussian("spherical"),
    "poisson": "poisson",
    "exponential": "exponential",
    "bernoulli": "bernoulli",
    "gamma": "gamma",
    "mixed": Product({0: "gaussian", 1: "poisson", 2: Categorical(3)}),
}


def free(name: str, names: list[str]) -> list[int]:
    """The parameters that the oracle has: those that determine the others."""
    left_out = {"weights[1]"}
    if name == "gamma":
        left_out |= {"means[0, 0]", "means[1, 0]"}
    if name == "mixed":
        left_out |= {"probabilities[0, 2, 2]", "probabilities[1, 2, 2]"}
    return [i for i, one in enumerate(names) if one not in left_out]


def expected_logs(name: str, x: np.ndarray) -> oracle.Logs:
    if name in ("full", "tied", "diag", "spherical"):
        return oracle.gaussian(x, name)
    return getattr(oracle, name)(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_covariances_of_two_components_are_those_of_the_likelihood(name: str, kind: str) -> None:
    x = rows_of(name)
    weight = np.random.default_rng(0).integers(1, 4, size=len(x)).astype(float)
    model = fitted(CASES[name], 2, x, weight)
    found = model.estimates(x, kind, sample_weight=weight)
    chosen = free(name, found.names)
    expected = oracle.covariance(expected_logs(name, x), found.values[chosen], kind, weight)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    gap = (found.covariance[np.ix_(chosen, chosen)] - expected) / scale
    assert np.abs(gap).max() < 2e-3
    assert found.errors == pytest.approx(np.sqrt(np.diag(found.covariance)))
    assert found.left_to_gain < 1e-6
    assert not found.by_component


def test_one_gaussian_has_the_closed_form() -> None:
    x = np.random.default_rng(0).normal(size=(300, 3)) @ np.array(
        [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.2, 2.0]]
    )
    model = fitted("gaussian", 1, x)
    found = model.standard_errors(x)
    s = np.cov(x.T, ddof=0)
    assert found["means"][0] == pytest.approx(np.sqrt(np.diag(s) / 300))
    wishart = np.sqrt((np.outer(np.diag(s), np.diag(s)) + np.square(s)) / 300)
    assert found["covariances"][0] == pytest.approx(wishart)
    assert found["weights"].tolist() == [0.0]


@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_rows_far_from_zero_lose_no_digits(shift: float) -> None:
    x = np.round(rows_of("full"), 3)
    errors = fitted("gaussian", 2, x + shift).estimates(x + shift).errors
    assert errors == pytest.approx(fitted("gaussian", 2, x).estimates(x).errors, rel=1e-4)


def test_one_gamma_has_the_closed_form() -> None:
    x = np.random.default_rng(1).gamma(3.0, 2.0, size=(500, 1))
    model = fitted("gamma", 1, x)
    a, b = float(model.shapes_[0, 0]), float(model.rates_[0, 0])
    information = 500 * np.array([[polygamma(1, a), -1.0 / b], [-1.0 / b, a / b**2]])
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    found = model.standard_errors(x)
    assert [found["shapes"][0, 0], found["rates"][0, 0]] == pytest.approx(expected, rel=1e-6)
    assert found["means"][0, 0] == pytest.approx(np.sqrt(a / b**2 / 500), rel=1e-6)


def test_one_category_has_the_closed_form() -> None:
    x = np.random.default_rng(1).choice(4, p=[0.1, 0.2, 0.3, 0.4], size=(200, 2)).astype(float)
    model = fitted(Categorical(4), 1, x)
    p = model.probabilities_
    assert model.standard_errors(x)["probabilities"] == pytest.approx(np.sqrt(p * (1 - p) / 200))


@pytest.mark.parametrize(("kind", "theirs"), [("observed", "nonrobust"), ("sandwich", "HC0")])
def test_one_poisson_agrees_with_statsmodels(kind: str, theirs: str) -> None:
    import statsmodels.api as sm

    x = np.random.default_rng(2).negative_binomial(3, 0.4, size=(400, 1)).astype(float)
    fit = sm.GLM(x[:, 0], np.ones(400), family=sm.families.Poisson()).fit(cov_type=theirs)
    low, high = fitted("poisson", 1, x).confidence_intervals(x, kind=kind)["means"]
    expected = np.exp(fit.conf_int())[0]  # of the logarithm of the rate
    assert [low[0, 0], high[0, 0]] == pytest.approx(expected, rel=1e-6)


def test_intervals_of_weights_are_those_of_logits() -> None:
    x = np.array([[0.0]] * 30 + [[100.0]] * 70) + np.random.default_rng(0).normal(size=(100, 1))
    low, high = fitted("gaussian", 2, x).confidence_intervals(x, 0.9)["weights"]
    half = 1.6448536269514722 * np.sqrt(1.0 / 30 + 1.0 / 70)
    logits = np.log(0.3 / 0.7) + np.array([-half, half])
    assert [low[0], high[0]] == pytest.approx(1.0 / (1.0 + np.exp(-logits)), rel=1e-6)


FAMILIES = [one for kind in find_all("families").values() for one in kind.variants()]


def served(family: Any) -> tuple[LocalScores, Any]:
    """The scores of a family at example parameters; a test of a family that has none is skipped."""
    d = family.n_columns or 2
    params = family.example(2, d, np.random.default_rng(0))
    try:
        return local_scores(family, params, np.array([0.3, 0.7]), d), params
    except InvalidInputError:
        pytest.skip("no scores")


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_scores_have_mean_zero_and_the_covariance_of_the_information(family: Any) -> None:
    local, params = served(family)
    n = 40_000
    for c in range(2):
        rows = family.sample(params, np.full(n, c), np.random.default_rng(2))
        free = local.index[c] >= 0
        weight = np.zeros((n, 2))
        weight[:, c] = 1.0 / n
        expected = local.curvature(rows, weight)[c][np.ix_(free, free)]
        size = np.sqrt(np.diagonal(expected))
        z = local.scores(rows)[c][:, free] / size
        assert np.abs(z.mean(axis=0)).max() < 5.0 / np.sqrt(n)
        # second derivatives of rows vary, unless all follow from the mean of t
        exact = isinstance(local, StatisticScores)
        units = size if exact else np.full(len(size), size.max())
        gap = (z * size).T @ (z * size) / n - expected
        assert np.abs(gap / np.outer(units, units)).max() < (0.1 if exact else 0.25)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_scores_are_derivatives_of_log_densities(family: Any) -> None:
    local, params = served(family)
    if not isinstance(local, NaturalScores):
        pytest.skip("other coordinates, which the likelihoods of two components test")
    x = family.sample(params, np.repeat([0, 1], 5), np.random.default_rng(1))
    here, found = family.unconstrained(params), local.scores(x)
    found = found / family.coordinate_scales(params)[:, None]
    for j in range(here.shape[1]):
        ends = []
        for step in (1e-5, -1e-5):
            there = here.copy()
            there[:, j] += step
            ends.append(family.log_density(family.constrained(there, params), x).T)
        assert found[:, :, j] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


def test_results_do_not_depend_on_blocks_or_threads() -> None:
    x = np.random.default_rng(0).normal(size=(9000, 2)) + 3.0 * (np.arange(9000) % 2)[:, None]
    model = fitted("gaussian", 2, x)
    found = model.estimates(x, "sandwich").covariance
    cut = [0, 1, 4000, 4096, 8999, 9000]
    parts = [x[a:b] for a, b in pairwise(cut)]
    assert np.array_equal(model.estimates(iter(parts), "sandwich").covariance, found)
    one = model.set_params(n_threads=1).estimates(x, "sandwich").covariance
    assert np.array_equal(one, found)


def test_tiles_are_the_rows_in_order() -> None:
    x, weight = np.arange(23.0)[:, None], np.arange(23.0)
    blocks = [Rows(x[a:b], weight[a:b]) for a, b in [(0, 2), (2, 2), (2, 17), (17, 23)]]
    tiles = list(in_tiles(blocks, 5))
    assert [len(tile) for tile in tiles] == [5, 5, 5, 5, 3]
    assert np.array_equal(np.concatenate([tile.x for tile in tiles]), x)
    assert np.array_equal(np.concatenate([tile.weights() for tile in tiles]), weight)


def test_equal_components_cannot_be_told_apart() -> None:
    rows = np.random.default_rng(0).poisson(3.0, (200, 1)).astype(float)
    equal = MixtureParams(np.array([0.4, 0.6]), MeanParams(np.full((2, 1), rows.mean())))
    model = Mixture("poisson", 2, init=equal, learner="em", max_iter=1).fit(rows)
    weights, means = ["weights[0]", "weights[1]"], ["means[0, 0]", "means[1, 0]"]
    for kind in KINDS:
        with pytest.warns(LearningWarning, match=r"cannot tell apart weights\[0\], weights\[1\]"):
            found = model.estimates(rows, kind)
        assert found.not_identified[:2] == weights
        assert np.isnan(found.errors[:2]).all()
        assert np.isnan(found.covariance[:2]).all()
        assert f"cannot tell apart: {weights[0]}, {weights[1]}" in found.summary()
        if kind == "empirical":  # to second order the means differ
            assert found.not_identified == weights + means


def test_fewer_rows_than_parameters_are_said() -> None:
    x = np.random.default_rng(0).normal(size=(6, 3))
    model = Mixture("gaussian", 1, learner="em").fit(x)
    with pytest.warns(LearningWarning, match="cannot tell apart"):
        assert model.estimates(x, "empirical").not_identified
    assert not model.estimates(x, "observed").not_identified


def test_parameters_at_a_limit_have_no_error() -> None:
    x = np.column_stack([np.ones(50), np.arange(50) % 2])
    model = Mixture("bernoulli", 1, learner="em").fit(x)
    found = model.estimates(x)
    assert np.isnan(found.errors).tolist() == [False, True, False]
    assert found.errors[2] == pytest.approx(np.sqrt(0.25 / 50))
    assert "at a limit" in found.summary()


def test_levels_that_do_not_occur_have_no_error_nor_has_the_only_one_that_does() -> None:
    x = np.column_stack([np.ones(60), np.arange(60) % 2])
    found = Mixture(Categorical(3), 1, learner="em").fit(x).standard_errors(x)["probabilities"]
    assert np.isnan(found[0, 0]).all()
    assert found[0, 1, :2] == pytest.approx(np.sqrt(0.25 / 60), rel=1e-6)
    assert np.isnan(found[0, 1, 2])


def test_many_parameters_are_treated_component_by_component() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2)) + 40.0 * (np.arange(500) % 2)[:, None]
    for form in ("full", "tied"):
        model = fitted(Gaussian(form), 2, x)
        whole = model.estimates(x)
        scores = MixtureScores(model.model_, model.params_, most_together=5)
        sums = InformationSums(scores)
        sums.add(Rows(x), model.predict_proba(x))
        found = estimates(sums, "observed", Labels([0, 1], {}), 0.0)
        assert found.by_component
        assert not whole.by_component
        assert found.errors == pytest.approx(whole.errors, rel=1e-6)  # groups are far apart
        assert "as if the other components were known" in found.summary()
    with pytest.raises(InvalidInputError, match=r"a component has 5 parameters: .* at most 4"):
        MixtureScores(fitted("gaussian", 2, x).model_, model.params_, most_together=4)


def test_the_inverse_does_not_depend_on_units() -> None:
    a = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    units = np.diag([1e-9, 1.0, 1e9])
    found = inverted(units @ a @ units, np.square(np.diag(units)))
    expected = np.zeros((3, 3))
    expected[:2, :2] = np.linalg.inv(a[:2, :2])
    back = np.linalg.inv(units)
    assert found.inverse == pytest.approx(back @ expected @ back, rel=1e-12)
    assert found.null.shape == (3, 1)
    assert np.flatnonzero(found.null).tolist() == [2]
