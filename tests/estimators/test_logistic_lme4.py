"""Logistic mixed models against glmer with adaptive quadrature."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mixfold import LogisticMixedModel
from mixfold.core.errors import InvalidInputError
from r_fits import estimates, table


def animals() -> pd.DataFrame:
    """The cattle of cbpp one by one."""
    herds = table("cbpp").astype({"period": str})
    rows = herds.loc[herds.index.repeat(herds["size"])]
    return rows.assign(ill=rows.groupby(level=0).cumcount() < rows["incidence"])


def answers() -> pd.DataFrame:
    return table("verbagg").assign(yes=lambda t: t["r2"] == "Y")


def visits() -> pd.DataFrame:
    return table("toenail").astype({"ID": int, "outcome": int, "treatment": int})


# the variance of toenail is 16, for which 25 points are too few, in glmer as here
MODELS = {
    "cbpp": (animals, "ill ~ period", "herd", 25),
    "toenail": (visits, "outcome ~ treatment * month", "ID", 64),
    "verbagg": (answers, "yes ~ Anger + Gender + btype + situ", "id", 25),
}


@pytest.mark.parametrize("name", MODELS)
def test_agreement_with_glmer(name: str) -> None:
    read, formula, group, points = MODELS[name]
    fitted = LogisticMixedModel(formula, group=group, n_quadrature_points=points).fit(read())
    for ours, quantity, rtol in (
        (fitted.coef_, "coef", 1e-3),
        (fitted.random_covariance_[0], "variance", 1e-3),
        (fitted.coef_std_errors_, "std_error", 1e-3),
        (fitted.log_likelihood_, "log_likelihood", 1e-7),
        (fitted.aic(), "aic", 1e-7),
    ):
        np.testing.assert_allclose(ours, estimates(name, quantity), rtol, err_msg=quantity)


def test_the_likelihood_ratio_test_is_that_of_lme4() -> None:
    """anova(glmer(ill ~ period + (1 | herd)), glmer(ill ~ 1 + (1 | herd))), with nAGQ = 25."""
    large, small = (
        LogisticMixedModel(formula, group="herd").fit(animals())
        for formula in ("ill ~ period", "ill ~ 1")
    )
    found = small.likelihood_ratio_test(large)
    np.testing.assert_allclose(found, [25.5510057782, 3, 1.18415772980e-05], rtol=1e-5)
    assert large.likelihood_ratio_test(small) == found


def test_the_interval_of_a_variance_is_that_of_the_deviance_of_lme4() -> None:
    """The error of log theta by numDeriv::hessian of update(fit, devFunOnly = TRUE)."""
    fitted = LogisticMixedModel("ill ~ period", group="herd").fit(animals())
    (row,) = fitted.variance_intervals()
    assert row.name == "herd: Intercept"
    width = 1.9599639845 * 0.278794868842
    expected = 0.647518441901 * np.exp([0.0, -width, width])
    np.testing.assert_allclose(row[1:], expected, rtol=1e-4)


def test_the_summary_has_the_numbers_of_glmer() -> None:
    fitted = LogisticMixedModel("ill ~ period", group="herd").fit(animals())
    summary = fitted.summary()
    assert summary.fixed[1][1:5] == ["-0.991", "0.307", "-3.232", "0.001"]
    assert summary.fixed[3][:4] == ["period[T.4]", "-1.579", "0.428", "-3.694"]
    error = 2.0 * 0.41928 * 0.278795
    assert summary.variances[0][:3] == ["herd Var", "0.419", f"{error:.3f}"]
    text = str(summary)
    assert "Mixed Logistic Regression Results" in text
    assert "Dependent Variable: ill" in text
    assert "Log-Likelihood:     -277.4" in text
    assert "[0.05 0.95]" in " ".join(str(fitted.summary(0.9)).split())


def test_logistic_models_that_cannot_be_compared_are_refused() -> None:
    rows = animals()

    def fit(formula: str, data: pd.DataFrame = rows) -> LogisticMixedModel:
        return LogisticMixedModel(formula, group="herd").fit(data)

    one = fit("ill ~ 1")
    for other, message in (
        (fit("ill ~ size"), "both models have 3 parameters"),
        (fit("ill ~ period", rows[rows["herd"] != 15]), "fitted to 15 and 14 groups of ill"),
        (3.0, "other is 3.0: a logistic mixed model is needed"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            (fit("ill ~ incidence") if "both" in message else one).likelihood_ratio_test(other)
