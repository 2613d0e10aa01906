"""Hard and bad data for linear mixed models."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mixed_tables import arrays_of, table_of
from mixfold import LinearMixedModel
from mixfold.core.errors import InvalidInputError, MissingExtraError, MixfoldError
from mixfold.core.rows import Array
from mixfold.models.linear_mixed import LinearMixed

# hard and wrong data


def hard(kind: str) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(20), 5)
    x = rng.normal(size=(100, 1))
    y = 1 + x[:, 0] + rng.normal(size=100)
    kinds: dict[str, tuple[Array, Any, Any]] = {
        "groups of one row": (x, y, np.arange(100)),
        "one group": (x, y, np.zeros(100)),
        "constant response": (x, np.full(100, 7.0), school),
        "no noise": (x, 1 + x[:, 0], school),
        "far away": (1e6 + x, 1e8 + y, school),
        "tiny numbers": (1e-8 * x, 1e-12 * y, school),
        "no random effect": (x, y, school),
    }
    return kinds[kind]


KINDS = ["groups of one row", "one group", "constant response", "no noise", "far away"]


@pytest.mark.parametrize("kind", [*KINDS, "tiny numbers", "no random effect"])
def test_hard_data_give_finite_answers(kind: str) -> None:
    x, y, school = hard(kind)
    model = LinearMixedModel(max_iter=300).fit(x, y, school)
    for name in ("coef_", "coef_std_errors_", "random_covariance_", "noise_variance_"):
        assert np.isfinite(getattr(model, name)).all(), name
    straight = np.linalg.lstsq(np.column_stack([np.ones(100), x - x.mean()]), y)[0]
    slope = max(abs(straight[1]), 1e-6 * np.abs(y).max())
    assert abs(model.coef_[1] - straight[1]) < 0.2 * slope
    assert (np.linalg.eigvalsh(model.random_covariance_) > 0).all()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"formula": "y ~ xx"}, "no column 'xx'"),
    ({"formula": "y ~ x +"}, "cannot be read"),
    ({"formula": "x"}, "response ~ fixed effects"),
    ({"formula": "y + x ~ 1"}, "one response"),
    ({"formula": "y ~ 0"}, "no effects"),
    ({"formula": "y ~ bs(x, 2)"}, "scale and poly alone are known; make it a column"),
    ({"formula": "y ~ 0 + I(0 * x)"}, r"I\(0 \* x\) are zero in every row"),
    ({"formula": "y ~ log(x)"}, r"row \d+ .*: log\(x\) is (nan|-inf)"),
    ({"formula": "kind ~ x"}, "not numeric"),
    ({"random": "x ~ x"}, "random effects"),
    ({"random": "~ I(0 * x)"}, "zero in every row"),
    ({"group": "pupil"}, "no column 'pupil'"),
    ({"group": None}, "the name of the column of groups"),
    ({"covariance": "ful"}, "Did you mean 'full'"),
    ({"omega": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
    ({"omega": "abc"}, "omega is 'abc'"),
    ({"noise_variance": -1.0}, "noise_variance is -1.0"),
    ({"learner": "emm"}, "Did you mean"),
    ({"tol": -1.0}, "tol is -1.0"),
    ({"resume": True}, "needs checkpoint=PATH"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG, ids=[str(w[0]) for w in WRONG])
def test_wrong_settings_are_refused_and_change_nothing(
    settings: dict[str, Any], message: str
) -> None:
    table = table_of(20)
    model = LinearMixedModel("y ~ x", "~ x", "school").fit(table)
    before = dict(model.__dict__)
    model.set_params(**settings)
    with pytest.raises(MixfoldError, match=message):
        model.fit(table)
    model.set_params(**{name: before[name] for name in settings})
    assert model.__dict__.keys() == before.keys()
    assert all(model.__dict__[name] is before[name] for name in before)


def test_files_that_are_not_sorted_are_refused(tmp_path: Path) -> None:
    for group, shown in (("school", r"\d+"), ("name", r"school \d+")):
        path = tmp_path / f"{group}.parquet"
        pq.write_table(pa.Table.from_pandas(table_of(30)), path)
        message = rf"not sorted by '{group}': group {shown} appears again at row \d+ .*; sort"
        with pytest.raises(MixfoldError, match=message):
            LinearMixedModel("y ~ x", group=group).fit(path)


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mixfold\[files\]'"):
        LinearMixedModel("y ~ x", group="school").fit(table_of(5))


def test_wrong_data_are_refused(tmp_path: Path) -> None:
    table = table_of(20)
    x, y, school = arrays_of(table)
    model = LinearMixedModel()
    for arguments, message in (
        ((x, y), "groups is needed"),
        ((x, None, school), "y is needed"),
        ((x, y[:-1], school), r"y has shape \(\d+,\)"),
        ((x, y, school, x[:-1]), "Z has"),
        ((x[:, 0], y, school), "rows and columns are needed"),
        ((np.where(x > 1, np.nan, x), y, school), r"row \d+, column 'x0' is nan"),
        ((x[:0], y[:0], school[:0]), "no rows"),
        ((x[:1], y[:1], school[:1]), "1 rows cannot determine 2 fixed effects"),
        ((table[["kind"]], y, school), "X is not numeric"),
    ):
        with pytest.raises(MixfoldError, match=message):
            model.fit(*arguments)
    assert not hasattr(model, "coef_")
    formula = LinearMixedModel("y ~ x", group="school")
    with pytest.raises(MixfoldError, match="names the columns to use"):
        formula.fit(table, y)
    with pytest.raises(MixfoldError, match="needs a table or file with column names"):
        formula.fit(x)
    with pytest.raises(MixfoldError, match="read once only"):
        formula.fit(iter([pa.Table.from_pandas(table)]))
    with pytest.raises(MixfoldError, match="which needs a formula"):
        LinearMixedModel(group="school").fit(x, y, school)
    large = table.assign(school=table["school"] + 2**60)
    with pytest.raises(MixfoldError, match="store them as text"):
        formula.fit(large)
    fitted = LinearMixedModel("y ~ x + kind", group="school").fit(table)
    with pytest.raises(
        MixfoldError, match="column 'kind' has 'd', which was not in the data of fit"
    ):
        fitted.predict(table.assign(kind="d"))


def test_a_singular_matrix_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def singular(*_: Any) -> Any:
        raise np.linalg.LinAlgError("Matrix is not positive definite")

    groups, x = np.repeat(np.arange(5), 4), np.random.default_rng(0).normal(size=(20, 2))
    model = LinearMixedModel().fit(x[:, :1], x[:, 1], groups)
    before = model.coef_
    monkeypatch.setattr(LinearMixed, "maximize", singular)
    with pytest.raises(InvalidInputError, match=r"not identified .* leave out some"):
        model.fit(x[:, :1], x[:, 1], groups)
    assert model.coef_ is before
