"""Columns of fixed effects that depend on those before them are left out, and the user is told."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mixfold
from mixfold import LinearMixedModel, LogisticMixedModel
from mixfold.errors import CollinearColumnsWarning, InvalidInputError

MODELS = [LinearMixedModel, LogisticMixedModel]


def table_of(model: type, n_groups: int = 30) -> pd.DataFrame:
    """Columns a, b and c, of which the third is made of the others, and a constant one."""
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(n_groups), 6)
    a, b = rng.normal(3.0, 1.0, len(school)), rng.normal(size=len(school))
    mean = 0.5 * a - b + rng.normal(size=n_groups)[school]
    y = mean + rng.normal(size=len(school))
    y = y if model is LinearMixedModel else (y > 1.5).astype(float)
    return pd.DataFrame({"y": y, "a": a, "c": 2.0 * a - 1.0, "b": b, "d": 7.0, "school": school})


def arrays(model: type, names: str) -> tuple[Any, Any, Any]:
    table = table_of(model)
    return table[list(names)].to_numpy(), table["y"].to_numpy(), table["school"].to_numpy()


@pytest.mark.parametrize("model", MODELS)
def test_the_fit_is_that_without_the_columns(model: type) -> None:
    x, y, groups = arrays(model, "acbd")
    with pytest.warns(CollinearColumnsWarning, match=r"'x1', 'x3'.*dropped") as said:
        found = model(random_state=0).fit(x, y, groups)
    assert len(said) == 1
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = model(random_state=0).fit(*arrays(model, "ab"))
    kept = [0, 1, 3]
    assert found.coef_names_ == ["Intercept", "x0", "x1", "x2", "x3"]
    np.testing.assert_allclose(found.coef_[kept], plain.coef_, rtol=1e-6)
    np.testing.assert_array_equal(found.coef_[[2, 4]], 0.0)
    np.testing.assert_allclose(found.coef_std_errors_[kept], plain.coef_std_errors_, rtol=1e-5)
    assert np.isnan(found.coef_std_errors_[[2, 4]]).all()
    assert np.isnan(found.coef_covariance_[2]).all()
    np.testing.assert_allclose(found.log_likelihood_, plain.log_likelihood_, rtol=1e-9)
    np.testing.assert_allclose(found.random_covariance_, plain.random_covariance_, rtol=1e-5)
    same = found.predict(x, groups), plain.predict(x[:, [0, 2]], groups)
    np.testing.assert_allclose(*same, rtol=1e-6)
    assert found.n_features_in_ == 4
    if model is LogisticMixedModel:
        assert found.bic() == pytest.approx(plain.bic())
    else:
        densities = found.score_groups(x, y, groups), plain.score_groups(x[:, [0, 2]], y, groups)
        np.testing.assert_allclose(*densities, rtol=1e-8)


@pytest.mark.parametrize("model", MODELS)
def test_files_read_in_blocks_and_formulas(model: type, tmp_path: Path) -> None:
    table = table_of(model)
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), path, row_group_size=20)
    ends = []
    for data in (table, path):
        formula = model("y ~ a + c + b", group="school", random_state=0)
        with pytest.warns(CollinearColumnsWarning, match="'c'.* of Intercept, a") as said:
            ends.append(formula.fit(data))
        assert len(said) == 1
    np.testing.assert_allclose(ends[0].coef_, ends[1].coef_, rtol=1e-8)
    plain = model("y ~ a + b", group="school", random_state=0).fit(table)
    np.testing.assert_allclose(ends[1].coef_[[0, 1, 3]], plain.coef_, rtol=1e-6)
    np.testing.assert_allclose(ends[0].predict(path), plain.predict(table), rtol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_models_are_saved(model: type, tmp_path: Path) -> None:
    x, y, groups = arrays(model, "acb")
    with pytest.warns(CollinearColumnsWarning):
        found = model(random_state=0).fit(x, y, groups)
    found.save(tmp_path / "model")
    again = mixfold.load(tmp_path / "model")
    np.testing.assert_array_equal(again.coef_, found.coef_)
    np.testing.assert_array_equal(again.coef_std_errors_, found.coef_std_errors_)
    np.testing.assert_array_equal(again.predict(x, groups), found.predict(x, groups))


def test_a_column_of_zeros_is_left_out() -> None:
    x, y, groups = arrays(LinearMixedModel, "ab")
    x = np.c_[np.zeros(len(x)), x]
    with pytest.warns(CollinearColumnsWarning, match="'x0' are zero in every row"):
        found = LinearMixedModel(fit_intercept=False).fit(x, y, groups)
    plain = LinearMixedModel(fit_intercept=False).fit(x[:, 1:], y, groups)
    np.testing.assert_allclose(found.coef_, [0.0, *plain.coef_], rtol=1e-8)


def test_zeros_alone_are_refused() -> None:
    _, y, groups = arrays(LinearMixedModel, "ab")
    with pytest.raises(InvalidInputError, match="zero in every row"):
        LinearMixedModel(fit_intercept=False).fit(np.zeros((len(y), 2)), y, groups)


def test_nearly_collinear_columns_are_kept() -> None:
    x, y, groups = arrays(LinearMixedModel, "ab")
    noise = 1e-5 * np.random.default_rng(1).normal(size=len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = LinearMixedModel().fit(np.c_[x, x[:, 0] + noise], y, groups)
    assert (found.coef_ != 0.0).all()


def test_interactions_with_empty_cells() -> None:
    """As in lme4: levels that never meet have no coefficient of their own."""
    table = table_of(LinearMixedModel)
    number = np.arange(len(table))
    table["u"] = np.array(["p", "q"])[number % 2]
    table["v"] = np.where(number % 2 == 0, "r", np.array(["r", "s"])[number // 2 % 2])
    with pytest.warns(CollinearColumnsWarning, match=r"'u\[T.q\]:v\[T.s\]'"):
        found = LinearMixedModel("y ~ u * v", group="school").fit(table)
    table["cell"] = table["u"] + table["v"]
    cells = LinearMixedModel("y ~ cell", group="school").fit(table)
    np.testing.assert_allclose(found.log_likelihood_, cells.log_likelihood_, rtol=1e-9)
    np.testing.assert_allclose(found.predict(table), cells.predict(table), rtol=1e-6)
