"""One extreme row does not destroy a model: it is learned in finite numbers, or refused by name."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import digamma

from attacks import run_some
from mixfold import Gaussian, LinearMixedModel, MiniBatchEM, Mixture, MomentMatching, OnlineVB
from mixfold.backends.threads import Threads
from mixfold.core.backend_capabilities import MomentMatcher, required
from mixfold.core.conjugate import Prior
from mixfold.core.errors import InvalidInputError
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Rows
from mixfold.core.value import equal
from mixfold.families._gamma_rates import LARGE_SHAPE, log_gap
from mixfold.families.gaussian import GaussianParams
from mixfold.kernels.reference import ReferenceKernel
from mixfold.models.bayesian_mixture import BayesianMixture, MixturePosterior, matched_weights
from mixfold.models.mixture_model import MixtureModel
from mixfold.testing import families

FAMILIES = families.all_variants(2)
ZERO = Fraction(0)
STREAMING = ["auto", "online-em", "mini-batch-em", "moment-matching", "online-vb", "drift-aware"]


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_hostile_rows_and_weights(tmp_path: Path) -> None:
    run_some("extreme_rows", 50, tmp_path)


# beyond the range


def learned(learner: str = "auto") -> tuple[Mixture, np.ndarray]:
    x = rng().normal(size=(130, 2))
    return Mixture("gaussian", 2, learner=learner, random_state=0).partial_fit(x), x


@pytest.mark.parametrize("value", [LARGEST, -1e61, 1e155, 1e200, -1.79e308])
@pytest.mark.parametrize("learner", STREAMING)
def test_rows_beyond_the_range_are_refused_by_name(learner: str, value: float) -> None:
    model, x = learned(learner)
    before = model._now()
    bad = x[:20].copy()
    bad[17, 1] = value
    place = rf"row 18, column 2 \(both counted from 1\) is {value}".replace("+", r"\+")
    for call in (
        model.partial_fit,
        model.fit,
        lambda rows: model.fit([rows[:9], rows[9:]]),
        model.score,
        model.predict_proba,
        model.score_samples,
    ):
        with pytest.raises(InvalidInputError, match=rf"{place}: values must be below 1e\+60"):
            call(bad)
        assert equal(model._now(), before)
    model.learn_one(x[0])
    before = model._now()
    for row in (bad[17], bad[17].tolist()):
        with pytest.raises(InvalidInputError, match=r"row 132, column 2 .* is .*: values must be"):
            model.learn_one(row)
        assert equal(model._now(), before)
    model.learn_one(x[1])
    assert model.n_seen_ == 132


def test_names_of_columns_are_told() -> None:
    model = Mixture("poisson", 1, random_state=0)
    for count in range(150):
        model.learn_one({"boats": 1.0, "depth": float(count % 5)})
    with pytest.raises(InvalidInputError, match=r"row 151 .*, column 'depth' is 1e\+200"):
        model.learn_one({"boats": 1.0, "depth": 1e200})
    assert model.n_seen_ == 150


def test_tensors_are_refused_too() -> None:
    x = torch.tensor(rng().normal(size=(40, 2)))
    model = Mixture("gaussian", 2, engine="torch:cpu", random_state=0).fit(x)
    before = model._now()
    x[30, 0] = -1e100
    for call in (model.fit, model.partial_fit, model.score_samples):
        with pytest.raises(InvalidInputError, match=r"row 31, column 1 .* is -1e\+100"):
            call(x)
        assert equal(model._now(), before)


@pytest.mark.parametrize("weight", [1e31, 1e300, 1e-201, 1e-320])
def test_weights_beyond_the_range_are_refused(weight: float) -> None:
    model, x = learned()
    before = model._now()
    weights = np.ones(len(x))
    weights[5] = weight
    for call in (model.fit, model.partial_fit):
        with pytest.raises(InvalidInputError, match=r"sample_weight has .*: weights must be 0, or"):
            call(x, sample_weight=weights)
        assert equal(model._now(), before)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_mixed_models_refuse_or_stay_finite(place: int) -> None:
    groups = np.repeat(np.arange(8), 6)
    x, y = rng().normal(size=(48, 2)), rng().normal(size=48)
    model = LinearMixedModel(random_state=0).fit(x, y, groups)
    before = model._learned
    table = np.c_[y, x]
    table[29, place] = 1e150
    with pytest.raises(InvalidInputError, match=r"row 30 .*, column '.*' is 1e\+150: values"):
        model.fit(table[:, 1:], table[:, 0], groups)
    assert equal(model._learned, before)
    table[29, place] = 0.9 * LARGEST
    model.fit(table[:, 1:], table[:, 0], groups)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.random_covariance_).all()


# inside the range


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("size", [1e18, 1e20, 9.96921e36, 3e38])
def test_float32_rows_are_squared_in_float64_where_they_must(family: Any, size: float) -> None:
    model, params, x = families.example_mixture(family, 3, 2, 40, rng())
    x = x.astype(np.float32)
    x[7, 1] = min(size, family.support.high)
    kernel = Threads(model, 1).kernel
    for weight in (None, np.full(40, 1e-100), np.full(40, 1e30)):
        found = kernel.expect(kernel.prepare(params), Rows(x, weight))
        expected = ReferenceKernel(model).expect(params, Rows(x.astype(np.float64), weight))
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
@pytest.mark.parametrize(
    ("learner", "far"), [(MiniBatchEM(batch_size=20), 9.96921e36), (OnlineVB(batch_size=20), 1e4)]
)
def test_float32_is_as_good_as_float64(learner: Any, far: float) -> None:
    """Up to what float32 can resolve: deviations of a millionth of the farthest row."""
    x = rng().normal(size=(100, 2)).astype(np.float32)
    x[50, 0] = far
    narrow = Mixture(Gaussian("diag"), 2, learner=learner, random_state=0).fit(x)
    wide = Mixture(Gaussian("diag"), 2, learner=learner, random_state=0).fit(x.astype(np.float64))
    size = np.abs(wide.means_).max(axis=0)
    np.testing.assert_allclose(narrow.means_ / size, wide.means_ / size, atol=1e-3)
    least = np.square(1e-6 * size)
    np.testing.assert_allclose(narrow.covariances_ / least, wide.covariances_ / least, 1e-3, 1.0)


@pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")
@pytest.mark.parametrize("family", ["gaussian", "exponential", "poisson"])
@pytest.mark.parametrize(
    "learner", ["online-em", MiniBatchEM(20), MomentMatching(), OnlineVB(batch_size=20)], ids=repr
)
def test_a_column_of_zeros_that_begins_to_vary(learner: Any, family: str) -> None:
    zeros = np.zeros((120, 2))
    model = Mixture(family, 2, learner=learner, random_state=0).partial_fit(zeros)
    rows = np.full((60, 2), 1e9)
    model.partial_fit(rows)
    for row in rows:
        model.learn_one(row)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.score_samples(rows)).all()
    if family != "exponential":  # of which moment matching learns the rate, half of it by a row
        assert model.means_.max() > 1.0


def test_a_far_row_alone_is_exact() -> None:
    """With one component moment matching is Bayes' rule, however far a row is."""
    for far in (1e3, 1e10, 1e30, 1e59):
        for covariance in ("full", "diag"):
            conjugate = Gaussian(covariance).conjugate
            assert conjugate is not None
            unit = np.eye(2)[None] if covariance == "full" else np.ones((1, 2))
            start = conjugate.prior(GaussianParams(np.zeros((1, 2)), unit), Prior())
            prior = MixturePosterior(np.ones(1), start)
            model = MixtureModel(Gaussian(covariance), 1, 2)
            row = np.array([far, -0.5 * far])
            python = BayesianMixture(model).match(prior, row, 1.0)[0].components
            native = (
                required(Threads(model, 1), MomentMatcher)
                .match(prior, Rows(row[None]))[0]
                .components
            )
            for found in (python, native):
                np.testing.assert_allclose(found.kappa, start.kappa + 1.0)
                np.testing.assert_allclose(found.nu, start.nu + 1.0)
                np.testing.assert_allclose(found.mean[0], 0.5 * row)
                if covariance == "diag":
                    square = np.square(start.scale[0]) + 0.5 * np.square(row)
                    np.testing.assert_allclose(np.square(found.scale[0]), square)


def test_a_heavy_row_leaves_weights_that_are_positive() -> None:
    alpha, c = [Fraction(3, 2), Fraction(2), Fraction(5)], [Fraction(1, 4), Fraction(3, 4), ZERO]
    for weight in (Fraction(1), Fraction(1000), Fraction(10**20), Fraction(10**30)):
        total = sum(alpha, ZERO) + weight
        mean = [(a + weight * p) / total for a, p in zip(alpha, c, strict=True)]
        within = sum((m * (1 - m) for m in mean), ZERO)
        among = (weight / total) * (weight / total) * sum((p * (1 - p) for p in c), ZERO)
        variance = (within + among * total) / (total + 1)
        expected = [float(m * (within / variance - 1)) for m in mean]
        given = np.array(alpha, dtype=float), float(weight), np.array(c, dtype=float)
        np.testing.assert_allclose(matched_weights(*given), expected, rtol=1e-12)


def test_expected_logarithms_of_large_rates_do_not_cancel() -> None:
    shape = np.geomspace(1e-3, 1e3, 50)
    np.testing.assert_allclose(log_gap(shape), digamma(shape) - np.log(shape), rtol=1e-12)
    around = LARGE_SHAPE * np.array([0.999, 1.001])
    np.testing.assert_allclose(np.diff(-0.5 / around), np.diff(log_gap(around)), rtol=1e-3)
    large = np.geomspace(1e7, 1e60, 20)
    np.testing.assert_allclose(log_gap(large), -0.5 / large, rtol=1e-6)


@pytest.mark.parametrize("learner", ["online-em", MomentMatching(), "annealed-sgd"])
def test_models_recover_from_a_far_row(learner: Any) -> None:
    """Ordinary rows can be learned after one of 1e12, and scores grow again."""
    x = rng().normal(size=(400, 2))
    model = Mixture(Gaussian("diag"), 1, learner=learner, random_state=0).partial_fit(x)
    before = model.score(x)
    model.learn_one(np.array([1e12, 0.0]))
    hit = model.score(x)
    model.partial_fit(np.tile(x, (5, 1)))
    assert before > model.score(x) > hit
