"""Logistic mixed models against glmer with adaptive quadrature."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mixfold import LogisticMixedModel
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
