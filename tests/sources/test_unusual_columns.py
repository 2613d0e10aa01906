"""Columns that Arrow has no type for are read as the same values in plain columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mixfold import Mixture
from mixfold.core.errors import InvalidInputError

RNG = np.random.default_rng(0)
N = 60
VISITS, SIZE = RNG.poisson(2.0, N), RNG.normal(size=N)
COLOUR = RNG.choice(["blue", "red"], N)
PLAIN = pd.DataFrame({"visits": VISITS, "size": SIZE, "colour": COLOUR})
NUMBERS = PLAIN[["visits", "size"]]


def encoded(table: pa.Table) -> pa.Table:
    """The table with the lengths of runs of equal values."""
    return pa.table({name: pc.run_end_encode(table[name]) for name in table.column_names})


def long_integers() -> pl.DataFrame:
    return pl.from_pandas(PLAIN).with_columns(pl.col("visits").cast(pl.Int128))


def sparse() -> pd.DataFrame:
    return PLAIN.astype({"visits": pd.SparseDtype(int, 0), "size": pd.SparseDtype(float, 0.0)})


TABLES: dict[str, Callable[[], Any]] = {
    "sparse": sparse,
    "long integers": long_integers,
    "a query of long integers": lambda: long_integers().lazy(),
    "runs": lambda: encoded(pa.Table.from_pandas(PLAIN)),
    "batches of runs": lambda: encoded(pa.Table.from_pandas(PLAIN)).to_batches(),
    "fields": lambda: PLAIN.to_records(index=False, column_dtypes={"colour": "U4"}),
    "fields of other machines": lambda: np.array(
        [*zip(VISITS, SIZE, COLOUR, strict=True)],
        dtype=[("visits", ">i8"), ("size", ">f4"), ("colour", ">U4")],
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_model_is_that_of_plain_columns(kind: str) -> None:
    table = TABLES[kind]()
    model = Mixture("auto", 2, random_state=0).fit(table)
    expected = Mixture("auto", 2, random_state=0).fit(PLAIN)
    assert model.feature_names_in_.tolist() == [*PLAIN.columns]
    np.testing.assert_allclose(model.score_samples(table), expected.score_samples(PLAIN), rtol=1e-4)
    np.testing.assert_allclose(model.score_samples(PLAIN), expected.score_samples(PLAIN), rtol=1e-4)


@pytest.mark.parametrize("kind", ["sparse", "fields"])
def test_matrices_of_numbers(kind: str) -> None:
    table = TABLES[kind]()[["visits", "size"]]
    model = Mixture(n_components=1, random_state=0).fit(table)
    expected = Mixture(n_components=1, random_state=0).fit(NUMBERS)
    assert model.score(table) == pytest.approx(expected.score(NUMBERS))


def test_missing_cells_of_runs() -> None:
    model = Mixture("auto", 1, random_state=0)
    table = pa.table({"a": pa.array([1.0, 1.0, 4.0, None, 2.0, 2.0])})
    assert model.fit(encoded(table)).score(encoded(table)) == model.fit(table).score(table)


def test_a_file_of_runs(tmp_path: Path) -> None:
    table = encoded(pa.Table.from_pandas(NUMBERS))
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    model = Mixture(n_components=1).fit(tmp_path / "x.arrow")
    assert model.score(tmp_path / "x.arrow") == pytest.approx(model.score(NUMBERS))


def test_fields_of_several_numbers_are_refused() -> None:
    array = np.zeros(5, dtype=[("a", float), ("b", float, 3)])
    with pytest.raises(InvalidInputError, match=r"column 'b' has shape \(5, 3\): columns of one"):
        Mixture(n_components=1).fit(array)
