"""Crossed and nested grouping factors, against lme4, dense matrices and LinearMixedModel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import mixfold
from mixed_tables import table_of
from mixfold import CrossedMixedModel, LinearMixedModel
from mixfold.core.errors import (
    CollinearColumnsWarning,
    InvalidInputError,
    ModelFileError,
    SourceError,
)
from mixfold.core.rows import Array
from mixfold.estimators._formula_bars import Bar, split_bars
from mixfold.estimators.saving import taken_apart
from mixfold.fitting.files import write
from mixfold.models import crossed_moments
from r_fits import estimates, table

MODELS = {
    "penicillin": ("penicillin", "diameter ~ 1 + (1 | plate) + (1 | sample)"),
    "pastes": ("pastes", "strength ~ 1 + (1 | batch:cask) + (1 | batch)"),
    "pastes-sample": ("pastes", "strength ~ 1 + (1 | sample) + (1 | batch)"),
    "sleepstudy": ("sleepstudy", "Reaction ~ Days + (Days | Subject)"),
    "orthodont": ("orthodont", "distance ~ age + Sex + (age | Subject)"),
    "math": ("math_achieve", "MathAch ~ SES + MEANSES + (SES | School)"),
}


def lower(matrices: Any) -> list[float]:
    """Diagonals, then what is below them, in the order of lme4."""
    return [x for m in matrices for x in [*np.diag(m), *m[np.tril_indices(len(m), -1)]]]


@pytest.mark.parametrize("reml", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_agreement_with_lme4(name: str, reml: bool) -> None:
    data, formula = MODELS[name]
    fitted = CrossedMixedModel(formula, reml=reml).fit(table(data))
    label = f"{name} {'REML' if reml else 'ML'}"
    assert fitted.converged_

    def agrees(ours: Any, quantity: str, rtol: float = 1e-4) -> None:
        np.testing.assert_allclose(ours, estimates(label, quantity), rtol, err_msg=quantity)

    agrees(fitted.coef_, "coef")
    agrees(fitted.coef_std_errors_, "std_error")
    omegas = fitted.random_covariance_.values()
    agrees([*lower(omegas), fitted.noise_variance_], "variance")
    agrees(fitted.coef_degrees_of_freedom_, "df")
    errors = fitted._learned.variance_errors
    agrees([*lower(errors.effects), errors.noise], "scale_error")
    agrees(fitted.restricted_log_likelihood_ if reml else fitted.log_likelihood_, "log_likelihood")
    agrees(fitted.aic(), "aic", 1e-9)
    agrees(fitted.bic(), "bic", 1e-9)


def test_a_slash_is_two_factors() -> None:
    data = table("pastes")
    nested = CrossedMixedModel("strength ~ (1 | batch / cask)").fit(data)
    plain = CrossedMixedModel("strength ~ 1 + (1 | batch) + (1 | batch:cask)").fit(data)
    assert str(nested.summary()) == str(plain.summary())
    assert [*nested.groups_] == ["batch", "batch:cask"]
    assert list(nested.groups_["batch:cask"][:4]) == ["A:a", "A:b", "A:c", "B:a"]


# dense matrices


def crossed_table(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    groups = {name: rng.integers(0, m, size=n) for name, m in (("a", 12), ("b", 7), ("c", 4))}
    x = rng.normal(3.0, 2.0, size=n)
    slopes = rng.multivariate_normal([0, 0], [[1.5, 0.4], [0.4, 0.3]], size=12)[groups["a"]]
    y = 5 + 2 * x + slopes[:, 0] + slopes[:, 1] * x + rng.normal(size=7)[groups["b"]]
    y += 0.7 * rng.normal(size=4)[groups["c"]] + 0.5 * rng.normal(size=n)
    return pd.DataFrame({"y": y, "x": x, **groups})


FORMULA = "y ~ x + (1 | b) + (x | a) + (1 | c)"


def dense(fitted: CrossedMixedModel, data: pd.DataFrame) -> tuple[Array, Array, dict[str, Array]]:
    """A, V and Z of each factor of FORMULA."""
    a = np.column_stack([np.ones(len(data)), data["x"]])
    v, z = fitted.noise_variance_ * np.eye(len(data)), {}
    for name, omega in fitted.random_covariance_.items():
        b = a[:, : len(omega)]
        same = data[name].to_numpy()[:, None] == np.unique(data[name])
        z[name] = (same[:, :, None] * b[:, None, :]).reshape(len(data), -1)
        v += z[name] @ np.kron(np.eye(same.shape[1]), omega) @ z[name].T
    return a, v, z


@pytest.mark.parametrize("reml", [False, True])
def test_likelihoods_and_effects_are_those_of_dense_matrices(reml: bool) -> None:
    data = crossed_table()
    fitted = CrossedMixedModel(FORMULA, reml=reml).fit(data)
    a, v, z = dense(fitted, data)
    y = data["y"].to_numpy()
    beta = np.linalg.solve(a.T @ np.linalg.solve(v, a), a.T @ np.linalg.solve(v, y))
    np.testing.assert_allclose(fitted.coef_, beta, rtol=1e-6)
    density = multivariate_normal(a @ beta, v).logpdf(y)
    np.testing.assert_allclose(fitted.log_likelihood_, density, rtol=1e-9)
    information = a.T @ np.linalg.solve(v, a)
    restricted = density - 0.5 * np.linalg.slogdet(information / (2.0 * np.pi))[1]
    np.testing.assert_allclose(fitted.restricted_log_likelihood_, restricted, rtol=1e-9)
    np.testing.assert_allclose(fitted.coef_covariance_, np.linalg.inv(information), rtol=1e-6)
    residual = np.linalg.solve(v, y - a @ beta)
    expected = a @ beta
    for name, omega in fitted.random_covariance_.items():
        scores = (z[name].T @ residual).reshape(-1, len(omega)) @ omega
        np.testing.assert_allclose(fitted.random_effects_[name], scores, rtol=1e-5, atol=1e-8)
        expected = expected + z[name] @ scores.ravel()
    np.testing.assert_allclose(fitted.predict(data), expected, rtol=1e-7)


@pytest.mark.parametrize("reml", [False, True])
def test_no_variances_near_the_estimate_are_better(reml: bool) -> None:
    data = crossed_table()
    fitted = CrossedMixedModel(FORMULA, reml=reml).fit(data)
    y = data["y"].to_numpy()

    def criterion(v: Array, a: Array) -> float:
        information = a.T @ np.linalg.solve(v, a)
        r = y - a @ np.linalg.solve(information, a.T @ np.linalg.solve(v, y))
        found = -0.5 * (np.linalg.slogdet(v)[1] + r @ np.linalg.solve(v, r))
        return float(found - 0.5 * reml * np.linalg.slogdet(information)[1])

    a, v, z = dense(fitted, data)
    best = criterion(v, a)
    for name in ("b", "c"):
        for change in (-0.1, 0.1):
            moved = v + change * fitted.random_covariance_[name][0, 0] * (z[name] @ z[name].T)
            assert criterion(moved, a) < best
    for change in (-0.01, 0.01):
        assert criterion(v + change * np.eye(len(v)), a) < best


def test_one_factor_is_that_of_the_linear_mixed_model() -> None:
    data = table_of(60)
    ours = CrossedMixedModel("y ~ x + kind + (x | school)", reml=True).fit(data)
    other = LinearMixedModel("y ~ x + kind", "~ x", "school", reml=True, variance_errors=True)
    other.fit(data)
    np.testing.assert_allclose(ours.coef_, other.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.random_covariance_["school"], other.random_covariance_, 1e-4)
    np.testing.assert_allclose(ours.coef_degrees_of_freedom_, other.coef_degrees_of_freedom_, 1e-3)
    np.testing.assert_array_equal(ours.groups_["school"], other.groups_)
    np.testing.assert_allclose(ours.predict(data), other.predict(data), rtol=1e-5)


def test_a_second_factor_is_tested_by_the_likelihood_ratio() -> None:
    data = table("pastes")
    small = LinearMixedModel("strength ~ 1", group="sample").fit(data)
    large = CrossedMixedModel("strength ~ 1 + (1 | sample) + (1 | batch)").fit(data)
    found = large.likelihood_ratio_test(small)
    assert found.degrees_of_freedom == 1
    # anova(lmer(strength ~ 1 + (1 | sample)), lmer(strength ~ 1 + (1 | sample) + (1 | batch)))
    np.testing.assert_allclose([found.statistic, found.p_value], [0.4072, 0.5234], atol=1e-4)


# data


def test_a_factor_may_have_two_terms() -> None:
    data = crossed_table()
    fitted = CrossedMixedModel("y ~ x + (1 | a) + (0 + x | a)").fit(data)
    assert [*fitted.random_names_.items()] == [("a", ["Intercept"]), ("a.1", ["x"])]
    full = CrossedMixedModel("y ~ x + (x | a)").fit(data)
    assert full._learned.n_parameters == fitted._learned.n_parameters + 1
    assert full.log_likelihood_ > fitted.log_likelihood_


def test_groups_that_are_new_have_no_effect() -> None:
    data = crossed_table()
    fitted = CrossedMixedModel("y ~ x + (1 | a:b) + (1 | c)").fit(data)
    new = data.drop(columns="y").assign(b=-1)
    effects = fitted.random_effects_["c"][:, 0][data["c"]]
    expected = fitted.coef_[0] + fitted.coef_[1] * data["x"] + effects
    np.testing.assert_allclose(fitted.predict(new), expected, rtol=1e-12)
    alone = fitted.predict(new.assign(c=-1))
    np.testing.assert_allclose(alone, fitted.coef_[0] + fitted.coef_[1] * data["x"], rtol=1e-12)


def test_labels_with_colons_are_not_confused() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": ["p:q", "p"] * 50, "b": ["r", "q:r"] * 50})
    data["y"] = rng.normal(size=100) + 10.0 * (data["a"] == "p")
    data["c"] = np.arange(100) % 10
    fitted = CrossedMixedModel("y ~ 1 + (1 | a:b) + (1 | c)").fit(data)
    assert list(fitted.groups_["a:b"]) == ["p:q:r", "p:q:r"]
    effects = fitted.random_effects_["a:b"][:, 0]
    assert abs(effects[0] - effects[1]) > 5.0
    means = pd.Series(fitted.predict(data)).groupby(data["a"]).mean()
    np.testing.assert_allclose(means, data.groupby("a")["y"].mean(), atol=0.5)


def test_files_blocks_and_orders_are_the_same_data(tmp_path: Path) -> None:
    data = crossed_table()
    data.to_parquet(tmp_path / "t.parquet", row_group_size=77)
    fitted = CrossedMixedModel(FORMULA).fit(data)
    for given in (tmp_path / "t.parquet", [data[:50], data[50:]], data.to_dict("list")):
        other = CrossedMixedModel(FORMULA).fit(given)
        np.testing.assert_array_equal(other.coef_, fitted.coef_)
        assert other.log_likelihood_ == fitted.log_likelihood_
    mixed = CrossedMixedModel(FORMULA).fit(data.sample(frac=1.0, random_state=0))
    np.testing.assert_allclose(mixed.coef_, fitted.coef_, rtol=1e-5)


def test_columns_that_are_combinations_are_dropped() -> None:
    data = crossed_table().assign(twice=lambda t: 2.0 * t["x"])
    with pytest.warns(CollinearColumnsWarning, match="'twice'"):
        fitted = CrossedMixedModel("y ~ x + twice + (1 | a) + (1 | b)").fit(data)
    assert fitted.coef_[2] == 0.0
    assert np.isnan(fitted.coef_std_errors_[2])
    assert np.isnan(fitted.coef_degrees_of_freedom_[2])
    assert "nan" in str(fitted.summary())


@pytest.mark.parametrize("model", [
    CrossedMixedModel("y ~ x + (1 | a) + (1 | b)", reml=True),
    LinearMixedModel("y ~ x", group="a", reml=True, variance_errors=True),
])  # fmt: skip
def test_rows_without_noise(model: Any) -> None:
    data = crossed_table().assign(y=lambda t: 3.0 + 2.0 * t["x"])
    model.fit(data)
    np.testing.assert_allclose(model.coef_, [3.0, 2.0], rtol=1e-6)
    assert 0.0 < model.noise_variance_ < 1e-6
    str(model.summary())


# formulas


@pytest.mark.parametrize(("formula", "fixed", "bars"), [
    ("y ~ (1|a) + x", "y ~ 1 + x", [Bar("1", ["a"])]),
    ("y~x+(1+x|a/b/c)+z", "y~x+z", [Bar("1+x", list("abc")[:i]) for i in (1, 2, 3)]),
    ("y ~ (x + z) * w + (I((x)) | `a b`:c)", "y ~ (x + z) * w", [Bar("I((x))", ["a b", "c"])]),
    ("y ~ 0 + x + (0 + x | g)", "y ~ 0 + x", [Bar("0 + x", ["g"])]),
])  # fmt: skip
def test_bars_are_split_from_fixed_effects(formula: str, fixed: str, bars: list[Bar]) -> None:
    found, ours = split_bars(formula)
    assert found.replace(" ", "") == fixed.replace(" ", "")
    assert ours == bars


@pytest.mark.parametrize(("formula", "message"), [
    ("y ~ x", r"random effects are written \(effects \| group\)"),
    (None, "formula is None: a formula in quotes is needed"),
    ("y ~ x * (1 | a)", "behind ~ or"),
    ("y ~ x + (1 | a) (1 | b)", "behind ~ or"),
    ("y ~ x + ( | a)", "it has no effects"),
    ("y ~ x + (1 | )", "a group is a column"),
    ("y ~ x + (x || a)", "a group is a column"),
    ("y ~ x + (1 | a + b)", "a group is a column"),
    ("y ~ x + (1 | a / )", "a group is a column"),
    ("y ~ x + (1 | log(a))", "a group is a column"),
    ("y ~ x + (1 | 3)", "a group is a column"),
    ("y ~ x + (1 | a) + (x", "cannot be read"),
    ("y ~ x + ((1 | a))", "behind ~ or [+]$"),
    ("y ~ a + (1 | a)", "group is 'a', which is also used in"),
    ("y ~ x + (1 | nothing)", "no column 'nothing'"),
    ("y ~ x + (__import__('os') | a)", "has no meaning here"),
    ("y ~ x + (system(x) | a)", "it is not a known function"),
    ("y ~ x + (0 | a)", "random has no effects"),
])  # fmt: skip
def test_formulas_that_are_refused(formula: Any, message: str) -> None:
    data = crossed_table(60)
    fitted = CrossedMixedModel("y ~ x + (1 | a)").fit(data)
    before = fitted.predict(data)
    fitted.formula = formula
    with pytest.raises((InvalidInputError, SourceError), match=message):
        fitted.fit(data)
    np.testing.assert_array_equal(fitted.predict(data), before)


def test_data_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = crossed_table(60), CrossedMixedModel(FORMULA)
    with pytest.raises(SourceError, match="column 'x' has a missing value in row 8"):
        model.fit(data.assign(x=np.where(data.index == 7, np.nan, data["x"])))
    with pytest.raises(InvalidInputError, match=r"row 8 .*, column 'x' is infinity"):
        model.fit(data.assign(x=np.where(data.index == 7, np.inf, data["x"])))
    with pytest.raises(SourceError, match="read once only"):
        model.fit(iter([data]))
    with pytest.raises(InvalidInputError, match="no rows"):
        model.fit(data[:0])
    with pytest.raises(InvalidInputError, match="rows cannot determine 2 fixed effects"):
        model.fit(data[:1])
    monkeypatch.setattr(crossed_moments, "MOST_ENTRIES", 100)
    with pytest.raises(InvalidInputError, match="larger than 100 numbers"):
        model.fit(data)


# model files


def test_a_model_file_has_everything(tmp_path: Path) -> None:
    data = crossed_table().assign(a=lambda t: "group " + t["a"].astype(str))
    fitted = CrossedMixedModel("y ~ scale(x) + (1 | a) + (x | b:c)", reml=True).fit(data)
    fitted.save(tmp_path / "m.mixfold")
    loaded = mixfold.load(tmp_path / "m.mixfold")
    np.testing.assert_array_equal(loaded.predict(data), fitted.predict(data))
    assert str(loaded.summary()) == str(fitted.summary())
    assert loaded.variance_intervals() == fitted.variance_intervals()
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.groups_["a"], fitted.groups_["a"])


def test_a_model_file_that_no_fit_wrote_is_refused(tmp_path: Path) -> None:
    fitted = CrossedMixedModel("y ~ x + (1 | a) + (1 | b)").fit(crossed_table())
    saved, learned = taken_apart(fitted), fitted._learned
    part = learned.parts[0]
    for wrong in (
        replace(learned, parts=[]),
        replace(learned, beta=learned.beta[:1]),
        replace(learned, noise_variance=-1.0),
        replace(learned, covariance=np.full((2, 2), np.nan)),
        replace(learned, parts=[replace(part, effects=part.effects[1:])]),
        replace(learned, parts=[replace(part, omega=-part.omega)]),
        replace(learned, parts=[replace(part, labels=[])]),
        replace(learned, parts=[replace(part, columns=[])]),
        replace(
            learned,
            variance_errors=replace(learned.variance_errors, degrees_of_freedom=np.zeros(5)),
        ),
        replace(learned, variance_errors=replace(learned.variance_errors, noise=-1.0)),
    ):
        write(tmp_path / "m.mixfold", "model", replace(saved, learned=wrong))
        with pytest.raises(ModelFileError, match="is damaged"):
            mixfold.load(tmp_path / "m.mixfold")
