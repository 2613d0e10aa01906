"""Restricted likelihood, criteria, tests, intervals and summaries, against lme4 and lmerTest."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, multivariate_normal, norm

import mixfold
from mixed_tables import arrays_of, table_of
from mixfold import LinearMixedModel
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.models.variance_errors import VarianceErrors
from r_fits import estimates, table

MODELS = {
    "sleepstudy": ("sleepstudy", "Reaction ~ Days", "~ Days", "Subject"),
    "orthodont": ("orthodont", "distance ~ age + Sex", "~ age", "Subject"),
    "orthodont-intercept": ("orthodont", "distance ~ age * Sex", "~ 1", "Subject"),
    "math": ("math_achieve", "MathAch ~ SES + MEANSES", "~ SES", "School"),
    "math-intercept": ("math_achieve", "MathAch ~ SES + Sex + Minority", "~ 1", "School"),
}


def variances(model: LinearMixedModel) -> list[float]:
    """In the order of lme4: variances, covariances, then the noise."""
    omega = model.random_covariance_
    below = omega[np.tril_indices(len(omega), -1)]
    return [*np.diag(omega), *below, model.noise_variance_]


def scale_errors(errors: VarianceErrors | None) -> list[float]:
    assert errors is not None
    (matrix,) = errors.effects
    return [*np.diag(matrix), *matrix[np.tril_indices(len(matrix), -1)], errors.noise]


@pytest.mark.parametrize("reml", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_agreement_with_lme4(name: str, reml: bool) -> None:
    data, formula, random, group = MODELS[name]
    fitted = LinearMixedModel(
        formula, random, group, reml=reml, variance_errors=True, standard_errors="expected"
    ).fit(table(data))
    label = f"{name} {'REML' if reml else 'ML'}"
    assert fitted.converged_

    def agrees(ours: Any, quantity: str, rtol: float = 1e-4) -> None:
        np.testing.assert_allclose(ours, estimates(label, quantity), rtol, err_msg=quantity)

    agrees(fitted.coef_, "coef")
    agrees(fitted.coef_std_errors_, "std_error")
    agrees(variances(fitted), "variance")
    agrees(fitted.coef_degrees_of_freedom_, "df")
    agrees(scale_errors(fitted._learned.variance_errors), "scale_error")
    maximum = fitted.restricted_log_likelihood_ if reml else fitted.log_likelihood_
    agrees(maximum, "log_likelihood", 1e-9)
    agrees(fitted.aic(), "aic", 1e-9)
    agrees(fitted.bic(), "bic", 1e-9)


# oracles of ten lines


def dense(fitted: LinearMixedModel, data: pd.DataFrame) -> tuple[Array, Array]:
    """A of y ~ x with a random intercept and slope, and V."""
    a = np.column_stack([np.ones(len(data)), data["x"]])
    same = data["school"].to_numpy()[:, None] == data["school"].to_numpy()
    v = (a @ fitted.random_covariance_ @ a.T) * same
    return a, v + fitted.noise_variance_ * np.eye(len(data))


@pytest.mark.parametrize("reml", [False, True])
def test_both_likelihoods_are_those_of_a_dense_covariance(reml: bool) -> None:
    data = table_of(30)
    fitted = LinearMixedModel("y ~ x", "~ x", "school", reml=reml).fit(data)
    a, v = dense(fitted, data)
    density = multivariate_normal(a @ fitted.coef_, v).logpdf(data["y"])
    np.testing.assert_allclose(fitted.log_likelihood_, density, rtol=1e-9)
    information = a.T @ np.linalg.solve(v, a)
    restricted = density - 0.5 * np.linalg.slogdet(information / (2.0 * np.pi))[1]
    np.testing.assert_allclose(fitted.restricted_log_likelihood_, restricted, rtol=1e-9)


def test_the_variance_of_one_sample_is_divided_by_n_minus_one() -> None:
    """REML of means alone is the analysis of variance: exact if all groups are as large."""
    rng = np.random.default_rng(0)
    groups, y = (
        np.repeat(np.arange(20), 5),
        rng.normal(size=100) + np.repeat(rng.normal(size=20), 5),
    )
    fitted = LinearMixedModel(reml=True).fit(np.zeros((100, 0)), y, groups)
    means = y.reshape(20, 5).mean(axis=1)
    within = np.square(y.reshape(20, 5) - means[:, None]).sum() / 80
    np.testing.assert_allclose(fitted.noise_variance_, within, rtol=1e-6)
    between = means.var(ddof=1) - within / 5
    np.testing.assert_allclose(fitted.random_covariance_, [[between]], rtol=1e-6)


def test_a_weight_of_two_is_a_group_twice() -> None:
    data = table_of(20)
    twice = pd.concat([data, data.assign(school=data["school"] + 100)])
    heavy = data.assign(w=2.0)
    other = LinearMixedModel("y ~ x", "~ 1", "school", reml=True, variance_errors=True).fit(twice)
    ours = LinearMixedModel("y ~ x", "~ 1", "school", reml=True, variance_errors=True)
    ours.fit(heavy, group_weight="w")
    assert ours.n_observations_ == other.n_observations_ == 2 * len(data)
    for name in ("coef_", "noise_variance_", "restricted_log_likelihood_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), rtol=1e-6)
    np.testing.assert_allclose(
        ours.coef_degrees_of_freedom_, other.coef_degrees_of_freedom_, rtol=1e-4
    )


@pytest.mark.parametrize(
    "known",
    [{"omega": [[2.0]]}, {"noise_variance": 1.0}, {"omega": [[2.0]], "noise_variance": 1.0}],
)
def test_known_variances_stay_as_they_are(known: dict[str, Any]) -> None:
    data = table_of(30)
    fitted = LinearMixedModel("y ~ x", group="school", reml=True, variance_errors=True, **known)
    fitted.fit(data)
    free = LinearMixedModel("y ~ x", group="school", reml=True).fit(data)
    assert fitted.restricted_log_likelihood_ < free.restricted_log_likelihood_
    intervals = {row.name: row for row in fitted.variance_intervals()}
    if "omega" in known:
        np.testing.assert_allclose(fitted.random_covariance_, known["omega"])
        assert np.isnan(intervals["school: Intercept"].lower)
    if "noise_variance" in known:
        np.testing.assert_allclose(fitted.noise_variance_, known["noise_variance"])
        assert np.isnan(intervals["noise"].upper)


def test_uncorrelated_effects_stay_uncorrelated() -> None:
    data = table_of(60)
    fitted = LinearMixedModel(
        "y ~ x", "~ x", "school", covariance="diag", reml=True, variance_errors=True
    ).fit(data)
    assert fitted.random_covariance_[0, 1] == 0.0
    full = LinearMixedModel("y ~ x", "~ x", "school", reml=True).fit(data)
    assert 0.0 < full.restricted_log_likelihood_ - fitted.restricted_log_likelihood_ < 5.0
    assert np.isfinite(fitted.variance_intervals()[1].upper)
    assert np.isnan(fitted.variance_intervals()[2].upper)


def test_a_variance_of_zero_is_reached_and_has_no_interval() -> None:
    rng = np.random.default_rng(1)
    groups, y = np.repeat(np.arange(20), 5), rng.normal(size=100)
    y -= np.repeat(y.reshape(20, 5).mean(axis=1), 5)  # means of groups that vary too little
    fitted = LinearMixedModel(reml=True, variance_errors=True).fit(np.zeros((100, 0)), y, groups)
    np.testing.assert_allclose(fitted.random_covariance_, 0.0, atol=1e-6)
    np.testing.assert_allclose(fitted.noise_variance_, y.var(ddof=1), rtol=1e-5)
    first, noise = fitted.variance_intervals()
    assert np.isnan(first.lower)
    assert np.isnan(first.upper)
    assert noise.lower < noise.estimate < noise.upper


def test_blocks_and_threads_do_not_show_in_the_bits(tmp_path: Path) -> None:
    data = table_of(2500).sort_values("school")
    data.to_parquet(tmp_path / "t.parquet", row_group_size=333)
    settings: dict[str, Any] = {"reml": True, "variance_errors": True, "group": "school"}
    fits = [
        LinearMixedModel("y ~ x", "~ x", n_threads=threads, **settings).fit(given)
        for given, threads in ((data, 1), (data, 2), (tmp_path / "t.parquet", 2))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        assert other.restricted_log_likelihood_ == fits[0].restricted_log_likelihood_
        assert other.variance_intervals() == fits[0].variance_intervals()


# intervals and tests


def test_intervals_are_symmetric_on_their_scales() -> None:
    fitted = LinearMixedModel(
        "Reaction ~ Days", "~ Days", "Subject", reml=True, variance_errors=True
    ).fit(table("sleepstudy"))
    centers, errors = (estimates("sleepstudy REML", q) for q in ("scale", "scale_error"))
    intervals = fitted.variance_intervals(0.9)
    width = norm.ppf(0.95) * errors
    change = [np.exp, np.exp, np.tanh, np.exp]
    for row, apply, center, half in zip(intervals, change, centers, width, strict=True):
        ours = [row.lower, row.estimate, row.upper]
        np.testing.assert_allclose(ours, apply([center - half, center, center + half]), rtol=1e-4)
    assert [row.name for row in intervals] == [
        "Subject: Intercept",
        "Subject: Days",
        "Subject: correlation of Intercept and Days",
        "noise",
    ]


def test_the_likelihood_ratio_test_is_that_of_chi_squared() -> None:
    data = table("orthodont")
    small = LinearMixedModel("distance ~ age", group="Subject").fit(data)
    large = LinearMixedModel("distance ~ age * Sex", group="Subject").fit(data)
    found = large.likelihood_ratio_test(small)
    statistic = 2.0 * (large.log_likelihood_ - small.log_likelihood_)
    np.testing.assert_allclose(found, [statistic, 2, chi2.sf(statistic, 2)])
    assert small.likelihood_ratio_test(large) == found


def test_restricted_fits_with_the_same_fixed_effects_can_be_compared() -> None:
    data = table("sleepstudy")
    small, large = (
        LinearMixedModel("Reaction ~ Days", random, "Subject", reml=True).fit(data)
        for random in ("~ 1", "~ Days")
    )
    found = small.likelihood_ratio_test(large)
    assert found.degrees_of_freedom == 2
    np.testing.assert_allclose(found.statistic, 42.8372, atol=1e-3)  # anova(..., refit = FALSE)


def test_models_that_cannot_be_compared_are_refused() -> None:
    data = table("orthodont")

    def fit(formula: str = "distance ~ age", rows: int = 108, **settings: Any) -> LinearMixedModel:
        return LinearMixedModel(formula, group="Subject", **settings).fit(data[:rows])

    for other, message in (
        (fit("distance ~ Sex"), "both models have 4 parameters"),
        (fit("distance ~ age + Sex", rows=100), "fitted to 108 and 100 observations"),
        (fit("age ~ distance + Sex"), "observations of distance and age"),
        (fit("distance ~ age + Sex", reml=True), "one model was fitted with reml=True"),
        (3.0, "other is 3.0: a linear mixed model is needed"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            fit().likelihood_ratio_test(other)
    with pytest.raises(InvalidInputError, match="restricted likelihoods cannot compare them"):
        fit(reml=True).likelihood_ratio_test(fit("distance ~ age + Sex", reml=True))
    with pytest.raises(InvalidInputError, match="fit with variance_errors=True"):
        fit().variance_intervals()
    with pytest.raises(InvalidInputError, match=r"level is 1\.5"):
        fit(variance_errors=True).variance_intervals(1.5)


# the summary


def test_the_summary_has_the_numbers_of_statsmodels() -> None:
    import statsmodels.formula.api as smf

    data = table("sleepstudy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = smf.mixedlm("Reaction ~ Days", data, groups=data["Subject"]).fit(
            reml=True, method="bfgs", gtol=1e-8
        )
    ours = LinearMixedModel("Reaction ~ Days", group="Subject", reml=True).fit(data).summary()
    expected = theirs.summary()
    cells = [[str(cell) for cell in row] for row in expected.tables[1].to_numpy()[:2]]
    assert [row[1:] for row in ours.fixed] == cells
    assert ours.variances[0][1] == expected.tables[1].iloc[2, 0]
    pairs = expected.tables[0].to_numpy().reshape(-1, 2)
    for name, shown in pairs:
        if name not in ("", "Model:"):
            assert re.search(rf"{re.escape(name)} +{re.escape(shown)}", str(ours)), name


def test_with_degrees_of_freedom_the_summary_has_t_statistics() -> None:
    fitted = LinearMixedModel(
        "distance ~ age + Sex", "~ age", "Subject", reml=True, variance_errors=True
    ).fit(table("orthodont"))
    # summary(lmerTest::lmer(distance ~ age + Sex + (age | Subject), Orthodont))
    male = ["Sex[T.Male]", "2.145", "0.757", "25.000", "2.833", "0.009", "0.585", "3.705"]
    assert fitted.summary().fixed[2] == male
    assert "P>|t|" in str(fitted.summary())
    assert "[0.05  0.95]" in str(fitted.summary(0.9))


def test_arrays_and_files_have_the_same_summary(tmp_path: Path) -> None:
    data = table_of(20)
    fitted = LinearMixedModel(reml=True, variance_errors=True).fit(*arrays_of(data))
    fitted.save(tmp_path / "m.mixfold")
    loaded = mixfold.load(tmp_path / "m.mixfold")
    assert str(loaded.summary()) == str(fitted.summary())
    assert loaded.variance_intervals() == fitted.variance_intervals()
    assert loaded.aic() == fitted.aic()
    assert "Group Var" in str(loaded.summary())
