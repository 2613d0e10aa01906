"""center, scale and poly: what they learn from all rows, and that it stays what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mixfold
from mixfold import LinearMixedModel, LogisticMixedModel
from mixfold.core.errors import InvalidInputError
from mixfold.core.value import equal
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._observations import open_formula
from mixfold.estimators.formula_nodes import FormulaPolynomial, FormulaStandardized

FORMULA = "y ~ I(center(x) ** 3) + scale(log(z)) + poly(x * z, degree=4)"
RANDOM = "~ scale(x)"


def table_of(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x, z, g = rng.normal(3.0, 2.0, size=n), rng.exponential(size=n) + 1e-3, np.arange(n) // 8
    y = x + z + rng.normal(size=len(g))[g] * 0.7 + 0.2 * rng.normal(size=n)
    columns = {"y": y, "b": y > 4.0, "x": x, "z": z, "g": g, "w": 1.0 + g % 3}
    return pa.table({**columns, "day": np.arange(n) % 4})


def design_of(data: Any, formula: str = FORMULA, weight: str | None = None) -> FormulaDesign:
    design = open_formula(data, formula, RANDOM, "g", weight).design
    assert isinstance(design, FormulaDesign)
    return design


def cut(table: pa.Table, rng: np.random.Generator) -> list[pa.Table]:
    ends = np.sort(rng.integers(0, len(table), size=9))
    return [table[a:b] for a, b in zip([0, *ends], [*ends, len(table)], strict=True) if a < b]


# learning


def test_constants_are_those_of_their_definitions() -> None:
    table = table_of(10_000)
    x = table["x"].to_numpy()
    center, scale, poly = design_of(table, "y ~ center(x) + scale(x) + poly(x, 3)").tree.factors[
        1:4
    ]
    assert isinstance(center, FormulaStandardized)
    assert isinstance(scale, FormulaStandardized)
    assert isinstance(poly, FormulaPolynomial)
    np.testing.assert_allclose([center.mean, scale.mean], x.mean(), rtol=1e-14)
    np.testing.assert_allclose(scale.deviation, x.std(ddof=1), rtol=1e-13)
    assert center.deviation == 1.0
    columns = design_of(table, "y ~ poly(x, 3)").matrices(
        np.column_stack([x, table["y"].to_numpy()])
    )[1]
    sizes = np.diag([np.sqrt(len(x)), 1.0, 1.0, 1.0])
    np.testing.assert_allclose(columns.T @ columns, sizes**2, atol=1e-10)


def test_blocks_do_not_show_in_the_bits(tmp_path: Path) -> None:
    rng, table = np.random.default_rng(1), table_of(20_000)
    whole = design_of(table)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=777)
    for i, part in enumerate(cut(table, rng)):
        pq.write_table(part, tmp_path / f"part{i}.parquet")
    several = [tmp_path / f"part{i}.parquet" for i in range(i + 1)]
    for data in (tmp_path / "t.parquet", several, *(cut(table, rng) for _ in range(3))):
        assert equal(design_of(data), whole)


def test_fits_have_the_same_bits_for_all_blocks() -> None:
    rng, table = np.random.default_rng(2), table_of(5000)
    blocks = [LinearMixedModel(FORMULA, RANDOM, "g").fit(cut(table, rng)) for _ in range(2)]
    np.testing.assert_array_equal(blocks[0].coef_, blocks[1].coef_)
    assert blocks[0].log_likelihood_ == blocks[1].log_likelihood_


def test_weights_have_no_part_in_constants() -> None:
    table = table_of(400)
    assert equal(design_of(table, weight="w"), design_of(table))


def test_levels_that_are_numbers_are_numbers_inside() -> None:
    table = table_of(400)
    factors = design_of(table, "y ~ C(day) + x:center(day)").tree.factors
    (node,) = (
        factor
        for factor in factors
        if isinstance(factor, FormulaStandardized) and factor.function == "center"
    )
    assert node.mean == 1.5


def test_polynomials_of_any_unit() -> None:
    """Large and small values neither overflow nor lose their digits."""
    table = table_of(400)
    x = table["x"].to_numpy()
    y = table["y"].to_numpy()
    plain = design_of(table, "y ~ poly(x, 6)").matrices(np.column_stack([x, y]))[1]
    for unit in (1e-50, 1e50):
        other = pa.table({"x": x * unit, "y": y, "g": table["g"]})
        design = design_of(other, "y ~ poly(x, 6)")
        ours = design.matrices(np.column_stack([x * unit, y]))[1]
        np.testing.assert_allclose(ours, plain, atol=1e-10)


def test_no_rows() -> None:
    with pytest.raises(InvalidInputError, match="no rows"):
        design_of(table_of(8)[:0])


def test_after_a_refused_fit_the_model_is_as_it_was() -> None:
    table = table_of(400)
    model = LinearMixedModel("y ~ scale(x)", group="g").fit(table)
    before = model.predict(table)
    constant = table.set_column(table.column_names.index("x"), "x", pa.array(np.full(400, 7.5)))
    with pytest.raises(InvalidInputError, match=r"scale\(x\): x is 7.5 in every row; leave it out"):
        model.fit(constant)
    np.testing.assert_array_equal(model.predict(table), before)


# the same constants afterwards


def expected_matrix(formula: str, seen: pa.Table, other: pa.Table) -> np.ndarray:
    """What formulaic makes of other rows by the constants of those it has seen."""
    import formulaic

    matrix = formulaic.Formula(formula).get_model_matrix(seen.to_pandas(), na_action="ignore")
    found: pd.DataFrame = matrix.model_spec.get_model_matrix(other.to_pandas())
    return np.asarray(found)


@pytest.mark.parametrize("response", ["y", "scale(y)"])
def test_other_rows_have_the_constants_that_were_learned(response: str, tmp_path: Path) -> None:
    table, other = table_of(400), table_of(80, seed=5)
    formula = FORMULA.replace("y", response, 1)
    model = LinearMixedModel(formula, RANDOM, "g").fit(table)
    unknown = other.set_column(other.column_names.index("g"), "g", pa.array([-1] * 80))
    matrix = expected_matrix(FORMULA.partition("~")[2], table, other)
    np.testing.assert_allclose(model.predict(unknown), matrix @ model.coef_, rtol=1e-9, atol=1e-9)
    rows = [model.predict(unknown[i : i + 1])[0] for i in range(5)]
    np.testing.assert_allclose(rows, model.predict(unknown)[:5], rtol=1e-12)
    model.save(tmp_path / "m.mixfold")
    loaded = mixfold.load(tmp_path / "m.mixfold")
    assert loaded.coef_names_ == model.coef_names_
    np.testing.assert_array_equal(loaded.predict(other), model.predict(other))
    np.testing.assert_array_equal(loaded.score_groups(other), model.score_groups(other))
    assert equal(loaded._learned.design, model._learned.design)


def test_the_likelihood_is_that_of_other_parameters() -> None:
    """Polynomials, centers and scales span what powers do."""
    table = table_of(400)
    ours = LinearMixedModel("y ~ poly(x, 3) + scale(z)", "~ center(x)", "g").fit(table)
    plain = LinearMixedModel("y ~ x + I(x ** 2) + I(x ** 3) + z", "~ x", "g").fit(table)
    np.testing.assert_allclose(ours.log_likelihood_, plain.log_likelihood_, rtol=1e-7)


def test_logistic_models_have_them_too(tmp_path: Path) -> None:
    table = table_of(400)
    model = LogisticMixedModel(
        "b ~ poly(x, 2) + scale(z)", group="g", max_iter=3, evaluation_draws=10, random_state=0
    ).fit(table)
    assert model.coef_names_[1:] == ["poly(x, 2)[1]", "poly(x, 2)[2]", "scale(z)"]
    model.save(tmp_path / "m.mixfold")
    other = table_of(80, seed=5)
    found = mixfold.load(tmp_path / "m.mixfold").predict_proba(other)
    np.testing.assert_array_equal(found, model.predict_proba(other))
