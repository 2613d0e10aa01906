"""Formulas and the tables they are of: what columns mean, and what is refused."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import mixfold
from mixfold import LinearMixedModel, LogisticMixedModel
from mixfold.core.errors import CollinearColumnsWarning, InvalidInputError, SourceError


def table_of(m: int = 20) -> pd.DataFrame:
    """m groups of six days."""
    rng = np.random.default_rng(0)
    g, day = np.repeat(np.arange(m), 6), np.tile(np.arange(6), m)
    x = rng.uniform(0.5, 3.0, size=6 * m)
    intercept, slope = rng.normal(size=(2, m))[:, g]
    y = 1 + intercept + 2 * x + (0.3 + slope) * day + 0.5 * rng.normal(size=6 * m)
    kind = rng.choice(["a", "b", "c"], size=6 * m)
    columns = {"y": y, "x": x, "kind": kind, "day": day, "g": g}
    return pd.DataFrame({**columns, "name": [f"group {i:02d}" for i in g]})


def fitted(formula: str, random: str = "~ 1", table: Any = None, **settings: Any) -> Any:
    data = table_of() if table is None else table
    return LinearMixedModel(formula, random, "g", **settings).fit(data)


def same(ours: LinearMixedModel, other: LinearMixedModel) -> None:
    np.testing.assert_allclose(ours.coef_, other.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.log_likelihood_, other.log_likelihood_, rtol=1e-8)


# levels and numbers


def test_numbers_are_levels_inside_c_alone() -> None:
    import statsmodels.formula.api as smf

    table = table_of()
    ours = fitted("y ~ x + C(day)", "~ day")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = smf.mixedlm("y ~ x + C(day)", table, groups=table["g"], re_formula="~ day")
        theirs = model.fit(reml=False, method="bfgs")
    assert ours.random_names_ == ["Intercept", "day"]
    np.testing.assert_allclose(ours.log_likelihood_, theirs.llf, rtol=1e-4)
    with pytest.warns(CollinearColumnsWarning, match="day"):
        both = fitted("y ~ day + C(day)")
    np.testing.assert_allclose(both.log_likelihood_, fitted("y ~ C(day)").log_likelihood_)
    same(fitted("y ~ I(day ** 2) + C(kind)"), fitted("y ~ I(day ** 2) + kind"))


def test_levels_have_the_same_names_however_they_are_stored(tmp_path: Path) -> None:
    table = table_of()
    memory = fitted("y ~ day:x + C(day)")
    assert memory.coef_names_[1] == "C(day)[T.1]"
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    pa.csv.write_csv(arrow, tmp_path / "t.csv")
    pq.write_table(arrow, tmp_path / "t.parquet")
    blocks = [arrow[:50], arrow[50:]]
    for data in (tmp_path / "t.csv", tmp_path / "t.parquet", blocks, pl.from_arrow(arrow)):
        model = fitted("y ~ day:x + C(day)", table=data)
        assert model.coef_names_ == memory.coef_names_
        same(model, memory)
        np.testing.assert_allclose(memory.predict(data), memory.predict(table), rtol=1e-9)
    halves = fitted("y ~ C(day)", table=table.assign(day=table["day"] / 2))
    assert halves.coef_names_[1] == "C(day)[T.0.5]"
    flags = fitted("y ~ C(day)", table=table.assign(day=table["day"] > 2))
    assert flags.coef_names_ == ["Intercept", "C(day)[T.True]"]


def test_categories_that_are_numbers_stay_categories() -> None:
    table = table_of().assign(day=lambda t: t["day"].astype("category"))
    model = fitted("y ~ C(day)", "~ day", table)
    assert model.random_names_[1] == "day[T.1]"
    assert fitted("y ~ day", table=table).coef_names_ == ["Intercept"] + [
        f"day[T.{i}]" for i in range(1, 6)
    ]


FORMULAS = [
    ("y ~ sqrt(x)", "y ~ root"),
    ("y ~ abs(x) + I(-x ** 2)", "y ~ x + I(x ** 2)"),
    ("y ~ log(`my x`) + `my x`", "y ~ log(x) + x"),
    ("y ~ `Sepal.Length`", "y ~ x"),
    ("y ~ I(2 * `Sepal.Length`)", "y ~ x"),
    ("y ~ log + C + I", "y ~ x + day + root"),
    ("y ~ center + poly(poly, 2) + scale(center):scale", "y ~ x + poly(day, 2) + scale(x):root"),
    ("`my y` ~ C(`my day`)", "y ~ C(day)"),
    ("log(`my x`) ~ {day + 1}", "log(x) ~ day"),
    ("(y) ~ x", "y ~ x"),
]


@pytest.mark.parametrize(("formula", "plain"), FORMULAS)
def test_columns_of_any_name(formula: str, plain: str) -> None:
    table = table_of().assign(root=lambda t: np.sqrt(t["x"]))
    for new, old in (("my x", "x"), ("Sepal.Length", "x"), ("my y", "y"), ("my day", "day")):
        table[new] = table[old]
    table = table.assign(log=table["x"], C=table["day"], I=table["root"])
    table = table.assign(center=table["x"], poly=table["day"], scale=table["root"])
    ours, other = fitted(formula, table=table), fitted(plain, table=table)
    np.testing.assert_allclose(ours.log_likelihood_, other.log_likelihood_, rtol=1e-6)
    np.testing.assert_allclose(ours.predict(table), other.predict(table), rtol=1e-4)


WRONG: list[tuple[str, str, str]] = [
    ("y ~ C()", "~ 1", r"has 'C\(\)': C takes the name of one column"),
    ("y ~ C(day * 2)", "~ 1", "C takes the name of one column"),
    ("y ~ {x @ x}", "~ 1", "arithmetic and C, I"),
    ("y ~ x", "~ 1 | g", "give random='~ effects' and group='g'"),
    ("y ~ x + (1 | g)", "~ 1", "give random='~ effects' and group='g'"),
    ("y ~ x | g", "~ 1", "give random='~ effects' and group='g'"),
    ("1 ~ x", "~ 1", "one response"),
    ("(kind) ~ x", "~ 1", "response has column 'kind'.* not numeric"),
    ("`kind` ~ x", "~ 1", "response has column 'kind'.* not numeric"),
    ("kind:x ~ x", "~ 1", "response has column 'kind'.* not numeric"),
    ("C(y) ~ x", "~ 1", "levels cannot be a response"),
    ("y ~ g", "~ 1", "group is 'g', which is also used in 'y ~ g'"),
    ("y ~ log(kind)", "~ 1", "column 'kind' has levels, which cannot be in arithmetic"),
    ("y ~ log(C(day))", "~ 1", "C cannot be a part of arithmetic"),
    ("y ~ x + 2", "~ 1", r"terms are 0 and 1 alone; write I\(2 \* x\) for others"),
    ("y ~ I(x ^ 2)", "~ 1", r"powers are written \*\*"),
    ("y ~ (x - 1)", "~ 1", "removed outside of parentheses"),
    ("y ~ log(x, 2)", "~ 1", "log takes one argument"),
    ("y ~ cosh(x)", "~ 1", "has 'cosh': it is not a known function; arithmetic and C, I"),
    ("y ~ np.cosh(x)", "~ 1", "has 'np.cosh': it is not a known function; arithmetic and C, I"),
    ("y ~ np.load(x)", "~ 1", "has 'np.load': it is not a known function"),
    ("y ~ np.log.reduce(x)", "~ 1", "has 'np.log.reduce': it is not a known function"),
    ("y ~ np.random.seed(x)", "~ 1", "has 'np.random.seed': it is not a known function"),
    ("y ~ np.center(x)", "~ 1", "has 'np.center': it is not a known function"),
    ("y ~ np.log", "~ 1", "no column 'np.log'"),
    ("y ~ x.real", "~ 1", "no column 'x.real'"),
    ("y ~ log(x", "~ 1", r"cannot be read at its end: '\)' is missing"),
    ("y ~ I(3)", "~ 1", "it has no column"),
    ("y ~ 0", "~ 1", "formula has no effects: '1' is an intercept"),
    ("y ~ x", "~ 0", "random has no effects: '1' is an intercept"),
    ("y ~ x", "y ~ 1", "'~ random effects' is needed"),
    ("y", "~ 1", "'response ~ fixed effects' is needed"),
    ("y + x ~ 1", "~ 1", "one response"),
    ("y ~ center(scale(x))", "~ 1", r"scale inside center: .* make scale\(...\) a column"),
    ("y ~ poly(I(center(x) * 2), 2)", "~ 1", "center inside poly: .* cannot be nested"),
    ("y ~ I(poly(x, 2) * 2)", "~ 1", "poly cannot be a part of arithmetic"),
    ("y ~ center(C(day))", "~ 1", "C cannot be a part of arithmetic"),
    ("y ~ scale(kind)", "~ 1", "column 'kind' has levels, which cannot be in arithmetic"),
    ("y ~ poly(kind, 2)", "~ 1", "column 'kind' has levels, which cannot be in arithmetic"),
    ("poly(y, 2) ~ x", "~ 1", "polynomials cannot be a response"),
    ("y ~ center(x, 2)", "~ 1", "center takes one argument"),
    ("y ~ poly(x)", "~ 1", r"poly needs a degree, such as in poly\(x, 2\)"),
    ("y ~ poly(x, 7)", "~ 1", "degree of poly is a whole number from 1 to 6"),
    ("y ~ poly(x, 0)", "~ 1", "degree of poly is a whole number from 1 to 6"),
    ("y ~ poly(x, degree=x)", "~ 1", "degree of poly is a whole number from 1 to 6"),
    ("y ~ poly(x, 2, raw=1)", "~ 1", "poly takes an expression and a degree"),
    ("y ~ x", "~ poly(day, 6)", r"poly\(day, 6\): day has 6 different values, .* use degree 5"),
    ("y ~ center(day * 0 + 2.5)", "~ 1", r"day \* 0 \+ 2.5 is 2.5 in every row; leave it out"),
    ("y ~ scale(day * 0)", "~ 1", r"scale\(day \* 0\): day \* 0 is 0 in every row"),
    ("y ~ poly(x * 1e-200, 2)", "~ 1", "too close to each other for degree 1"),
    ("y ~ center(log(x - 2))", "~ 1", r"row \d+ .*: log\(x - 2\) is nan; rows must be finite"),
    ("y ~ C(name):C(day):C(x)", "~ 1", r"\d+ columns: at most 10000 are possible"),
]


@pytest.mark.parametrize(("formula", "random", "message"), WRONG)
def test_formulas_that_are_refused(formula: str, random: str, message: str) -> None:
    with pytest.raises((InvalidInputError, SourceError), match=message):
        fitted(formula, random)


def test_a_weight_has_no_other_part() -> None:
    for name, other in (("x", "'y ~ x'"), ("g", "group")):
        with pytest.raises(InvalidInputError, match=f"'{name}', which is also used in {other}"):
            LinearMixedModel("y ~ x", group="g").fit(table_of(), group_weight=name)


def test_functions_see_no_numbers_but_those_of_the_data() -> None:
    table = table_of().assign(x=lambda t: t["x"] + 2)
    fitted("y ~ log(x - 1)", table=table)  # warnings are errors


# the same meaning after learning


def test_text_where_numbers_were_learned_is_refused() -> None:
    table = table_of()
    model = fitted("y ~ x + kind")
    for method in (model.score, model.predict, model.predict_random):
        with pytest.raises(SourceError, match=r"column 'x' is .*string, not numeric"):
            method(table.assign(x=table["x"].astype(str)))
        with pytest.raises(
            SourceError, match="column 'kind' has 0, which was not in the data of fit"
        ):
            method(table.assign(kind=0))


def test_files_and_blocks_of_differing_types_are_refused(tmp_path: Path) -> None:
    table = table_of().assign(kind=lambda t: np.where(t["g"] < 10, "1", t["kind"]))
    for i, part in enumerate((table[:60], table[60:])):
        part.to_csv(tmp_path / f"{i}.csv", index=False)
    message = "1.csv: column 'kind' is string, unlike in the files or blocks before, .* int64"
    with pytest.raises(SourceError, match=message):
        fitted("y ~ x + kind", table=[tmp_path / "0.csv", tmp_path / "1.csv"])
    blocks = [table[:60].assign(kind=1), table[60:]]
    for formula in ("y ~ x + kind", "y ~ x + C(kind)"):
        with pytest.raises(SourceError, match=r"'kind' is .*string, unlike .* int64"):
            fitted(formula, table=blocks)
    categories = table_of().assign(kind=lambda t: t["kind"].astype("category"))
    same(
        fitted("y ~ x + kind", table=[categories[:60], table_of()[60:]]),
        fitted("y ~ x + kind"),
    )


def test_matrices_that_are_not_finite_are_refused_after_learning_too() -> None:
    table = table_of().assign(z=lambda t: t["y"] > t["y"].mean())
    wrong = table.assign(x=np.where(table.index == 7, -1.0, table["x"]))
    model = fitted("y ~ log(x)", "~ log(x)")
    logistic = LogisticMixedModel("z ~ log(x)", group="g", max_iter=1, evaluation_draws=5)
    logistic.fit(table)
    for method in (
        *(model.predict, model.score, model.predict_random),
        *(logistic.predict, logistic.predict_proba),
    ):
        with pytest.raises(InvalidInputError, match=r"row 8 \(counted from 1\): log\(x\) is nan"):
            method(wrong)


def test_the_column_of_groups_is_the_one_learned_with() -> None:
    table = table_of()
    model = fitted("y ~ x")
    expected = model.predict(table)
    model.set_params(group="day")
    np.testing.assert_array_equal(model.predict(table), expected)


# types of columns


@pytest.mark.parametrize("kind", ["date", "timestamp", "binary"])
def test_groups_and_levels_of_any_type(kind: str, tmp_path: Path) -> None:
    first = datetime.date(2024, 1, 1)
    of: Any = {
        "date": lambda i: first + datetime.timedelta(days=int(i)),
        "timestamp": lambda i: pd.Timestamp(first) + pd.Timedelta(hours=int(i)),
        "binary": lambda i: f"{i:02d}".encode(),
    }[kind]
    table = table_of()
    other = table.assign(g=table["g"].map(of), day=table["day"].map(of))
    model = fitted("y ~ x + C(day)", table=other)
    same(model, fitted("y ~ x + C(day)"))
    assert model.groups_[0] == str(of(0))
    expected = fitted("y ~ x + C(day)").predict(table)
    np.testing.assert_allclose(model.predict(other), expected, rtol=1e-6)
    model.save(tmp_path / "m.mixfold")
    np.testing.assert_array_equal(
        mixfold.load(tmp_path / "m.mixfold").predict(other), model.predict(other)
    )
    if kind != "binary":
        with pytest.raises(InvalidInputError, match=r"column 'day' is .*: write C\(day\)"):
            fitted("y ~ x + day", table=other)


def test_decimals_are_numbers() -> None:
    table = table_of().assign(x=lambda t: t["x"].round(3))
    decimals = table.assign(x=table["x"].map(lambda x: Decimal(f"{x:.3f}")))
    same(fitted("y ~ x", table=decimals), fitted("y ~ x", table=table))
    days = table.assign(day=table["day"].map(Decimal))
    model = fitted("y ~ C(day)", "~ day", days)
    assert model.coef_names_ == fitted("y ~ C(day)").coef_names_


def test_missing_levels_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(table_of(), preserve_index=False)
    gap = np.where(np.arange(120) == 7, np.nan, np.arange(120) % 3)
    message = "column 'day' has a missing value"
    days = pa.DictionaryArray.from_arrays(pa.array(np.arange(120) % 3), pa.array(["a", None, "b"]))
    for column in (pa.array(gap), days):
        place = table.column_names.index("day")
        with pytest.raises(SourceError, match=message):
            fitted("y ~ x + C(day)", table=table.set_column(place, "day", column))
    path = tmp_path / "t.csv"
    table_of().assign(kind=lambda t: t["kind"].where(t.index != 7)).to_csv(path, index=False)
    with pytest.raises(SourceError, match="column 'kind' has a missing value in row 8 "):
        fitted("y ~ x + kind", table=path)


def test_one_value_a_row() -> None:
    table = table_of().assign(x=[[1.0]] * 120)
    with pytest.raises(SourceError, match=r"column 'x' is list<.*>: one value a row"):
        fitted("y ~ x", table=table)


def test_a_dict_of_columns_is_a_table() -> None:
    table = table_of()
    same(fitted("y ~ x + kind", table=table.to_dict("list")), fitted("y ~ x + kind"))
    with pytest.raises(InvalidInputError, match="columns of one length"):
        fitted("y ~ x", table={"y": [1.0], "x": [1.0, 2.0], "g": [1]})


def test_an_iterator_is_refused_whatever_it_is_for() -> None:
    model = fitted("y ~ x + kind")
    for method in (model.fit, model.score, model.predict_random):
        with pytest.raises(SourceError, match="read once only"):
            method(iter([table_of()]))
    with pytest.raises(SourceError, match="read once only"):
        fitted("y ~ scale(x)", table=iter([table_of()]))
    np.testing.assert_array_equal(model.predict(iter([table_of()])), model.predict(table_of()))


# arrays


def arrays_of(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return table[["x"]].to_numpy(), table["y"].to_numpy(), table["g"].to_numpy()


def test_every_row_of_an_array_needs_a_group() -> None:
    x, y, g = arrays_of(table_of())
    for wrong in (
        np.where(g == 3, np.nan, g),
        [None if key == 3 else key for key in g],
        np.where(g == 3, np.nan, table_of()["name"].to_numpy(dtype=object)),
        pd.Series(g).astype("Int64").mask(g == 3),
        np.where(g == 3, np.datetime64("NaT"), np.datetime64("2024-01-01")),
    ):
        with pytest.raises(InvalidInputError, match=r"groups has .* in row 19 .*: every row"):
            LinearMixedModel().fit(x, y, wrong)
    model = LinearMixedModel().fit(x, y.astype(object), g.astype(object))
    np.testing.assert_array_equal(model.groups_, np.arange(20))
    with pytest.raises(InvalidInputError, match="no rows"):
        LinearMixedModel().fit(x[:0], y[:0], g[:0].astype(object))


def test_columns_of_an_arrow_table_have_their_names() -> None:
    table = table_of()
    _, y, g = arrays_of(table)
    arrow = pa.table({"x": table["x"], "day": table["day"]})
    model = LinearMixedModel().fit(arrow, y, g)
    assert model.coef_names_ == ["Intercept", "x", "day"]


def test_without_groups_no_group_is_known() -> None:
    x, y, g = arrays_of(table_of())
    for groups in (g, np.where(g == 0, "", g.astype(str)), g - 1.0):
        model = LinearMixedModel().fit(x, y, groups)
        np.testing.assert_allclose(model.predict(x), model.coef_[0] + model.coef_[1] * x[:, 0])
        assert np.abs(model.predict(x, groups) - model.predict(x)).max() > 0.1
