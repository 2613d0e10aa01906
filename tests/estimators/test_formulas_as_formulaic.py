"""Matrices of formulas are those of formulaic."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from mixfold.core.errors import InvalidInputError
from mixfold.estimators._formula_parser import parse_formulas
from mixfold.estimators._observations import open_formula

# the same matrices as formulaic's, an independent implementation


def check_against_formulaic(fixed: str, table: pd.DataFrame, atol: float = 0.0) -> None:
    import formulaic

    levels = table.assign(
        **{name: pd.Categorical(table[name]) for name in ("a", "b", "c", "two words")}
    )
    context = {
        "np": np,
        "abs": np.abs,
        "sqrt": np.sqrt,
        "log1p": np.log1p,
        "exp10": lambda x: 10.0**x,
    }
    expected = formulaic.Formula(fixed).get_model_matrix(
        levels, na_action="ignore", output="numpy", context=context
    )
    arrow = pa.Table.from_pandas(table.assign(g=1), preserve_index=False)
    data = open_formula(arrow, f"y ~ {fixed}", "~ 1", "g", None)
    (rows,) = data.source.blocks()
    _, ours, _ = data.design.matrices(rows.x[:, 1:])
    assert data.design.names == list(expected.model_spec.column_names), fixed
    np.testing.assert_allclose(
        ours, np.asarray(expected), rtol=max(atol, 1e-14), atol=atol, err_msg=fixed
    )


def oracle_table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 24
    numbers = {name: rng.uniform(0.5, 3.0, size=n) for name in ("y", "x", "z", "my x", "v.w")}
    kinds = {"a": "pqr", "b": "uv", "c": "klmn", "two words": "st"}
    levels = {name: rng.permutation([*kind] * n)[:n] for name, kind in kinds.items()}
    return pd.DataFrame({**numbers, **levels, "day": np.arange(n) % 3})


ARITHMETIC = [
    *(
        "I(-x ** 2)",
        "I((x + 1) * 2)",
        "I(x * 2.0)",
        "I(x - (1 - x))",
        "I(-(x + 1))",
        "I((-x) ** 2)",
    ),
    *("I(x ** 2 ** 0.5)", "I((x ** 2) ** 3)", "{x + 1}", "{x}", "I(x + 1e3)", "I(x // 2 % 3)"),
    *("I(x / (2 * z))", "I(x / 2 * z)", "I(x - -z)", "I(--x)", "I(x * -1)", "I(((x + z) + 1) + 2)"),
    *("log(`my x`)", "I(2 * `my x`) + `my x`", "`my x`:x", "v.w", "`two words`", "C(`two words`)"),
    *("log(x) + exp(x) + sqrt(x)", "log2(x) + log10(x) + exp2(x)", "log1p(x) + abs(x)", "exp10(x)"),
    *("np.log(x) + np.exp(x) + np.sqrt(x)", "np.log2(x) + np.log10(x) + np.exp2(x)"),
    *("np.log1p(np.abs(-x) * 2):a", "I(np.log(x) ** 2) + log(x)"),
    *("log(exp(x) + 1):a", "I(x % 0.7) + I(7 // x)", "C(day)", "C(day):x + day", "I(day ** 2)"),
]
TERMS = [
    *("1", "0 + a", "-1 + a", "a - 1", "a + 0", "x:x", "a:a", "1:x", "x - z", "a * b", "a:b"),
    *(
        "0 + a:b",
        "a + a:b",
        "b + a:b",
        "x:a",
        "a:x + x",
        "x / a",
        "a / x",
        "(a + b) / c",
        "a / b / x",
    ),
    *(
        "(a + b + x) ** 2",
        "(a + b + c) ^ 3",
        "a * b - a",
        "a * b - 1 - a:b",
        "a*b*c - a:b:c",
        "a:b:c",
    ),
    *(
        "0 + a:b:c",
        "c + a:b:c",
        "x:a:b + a",
        "C(day):a",
        "C(day) * x",
        "(1 + x):a",
        "a + (b + x) * z",
    ),
    *("x + -z + z", "x - (x + z) + a", "(x)", "((a)):(b + x)", "a\n + b"),
]
LEARNED = [
    *("center(x)", "scale(x)", "center(`my x`)", "scale(x * 2 + z)", "center(x):a + center( x )"),
    *("I(center(x) ** 2)", "log(scale(x) + 9)", "{center(x) + 1}", "0 + scale(day):C(day)"),
    *("poly(x, 1)", "poly(x,2)", "poly(x, degree=3)", "poly(`my x`, degree = 6)", "poly(day, 2)"),
    *("poly(log(x), 4)", "poly(x, 2):a", "a:poly(x, 2)", "0 + poly(x, 2) * poly(z, degree=2)"),
    *("poly(x, 5) / a", "poly(x, 2) ** 2", "poly(x - z, 3) - poly(x, 2)"),
]


@pytest.mark.parametrize("fixed", LEARNED)
def test_what_is_learned_from_all_rows_is_that_of_formulaic(fixed: str) -> None:
    table = oracle_table()
    check_against_formulaic(fixed, table, atol=1e-12)
    moved = table.assign(x=1e4 + 1e3 * table["x"], day=table["day"] - 1000)
    check_against_formulaic(fixed, moved, atol=1e-10)


@pytest.mark.parametrize("fixed", [*ARITHMETIC, *TERMS])
def test_matrices_are_those_of_formulaic(fixed: str) -> None:
    check_against_formulaic(fixed, oracle_table())


ATOMS = [
    *("a", "b", "c", "x", "z", "C(day)", "log(x)", "`two words`", "I(x * z)"),
    *("center(x)", "scale(x * z)", "poly(z, 2)"),
]


def random_terms(rng: np.random.Generator, depth: int = 3) -> str:
    """A formula of the algebra of terms."""
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(ATOMS))
    left, right = random_terms(rng, depth - 1), random_terms(rng, depth - 1)
    operator = rng.choice(["+", "+", ":", "*", "/", "-", "**"])
    if operator == "**":
        return f"({left} + {right}) ** {rng.integers(1, 4)}"
    return f"({left}) {operator} ({right})"


def is_small(fixed: str) -> bool:
    """Whether no interaction has more factors than are possible."""
    try:
        parse_formulas(f"y ~ {fixed}", "~ 1")
    except InvalidInputError as error:
        if "interactions of more than 6 factors" not in str(error):
            raise
        return False
    return True


def test_random_terms_are_those_of_formulaic() -> None:
    rng, table, compared = np.random.default_rng(0), oracle_table(), 0
    while compared < 60:
        fixed = random_terms(rng)
        if is_small(fixed):
            check_against_formulaic(fixed, table, atol=1e-12)
            compared += 1
