"""A column that is not numeric is named, with a value of it and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mixfold import GaussianMixture, Mixture

FRAME = pd.DataFrame({"length": [5.1, 4.9, 4.7], "species": ["setosa", "setosa", "virginica"]})


@pytest.mark.parametrize("estimator", [Mixture, GaussianMixture])
@pytest.mark.parametrize("make", [lambda f: f, pl.from_pandas, lambda f: f.astype(object)])
def test_text_in_a_frame(estimator: Any, make: Any) -> None:
    with pytest.raises(ValueError, match="'species' has 'setosa'") as raised:
        estimator().fit(make(FRAME))
    for words in ("columns=[...]", "--columns", "numeric columns are length"):
        assert words in str(raised.value)


def test_text_in_a_table() -> None:
    with pytest.raises(ValueError, match=r"'species' is .*string, not numeric.*columns=\[...\]"):
        Mixture().fit(pa.Table.from_pandas(FRAME))


def test_text_in_arrays() -> None:
    rows = [[5.1, "setosa"], [4.9, "setosa"]]
    for data in (rows, np.array(rows), np.array(rows, dtype=object)):
        with pytest.raises(ValueError, match=r"column 2 .* has 'setosa', which is not a number"):
            Mixture().fit(data)


def test_dates() -> None:
    frame = FRAME.assign(species=pd.date_range("2026-01-01", periods=3))
    for data in (frame, frame.assign(other=1.0)):
        with pytest.raises((TypeError, ValueError), match=r"'species' has '2026-01-01"):
            Mixture().fit(data)


def test_text_in_the_weights() -> None:
    with pytest.raises(ValueError, match="'species' has 'setosa'"):
        Mixture().fit(FRAME, sample_weight="species")


def test_text_does_not_hide_that_a_column_is_missing() -> None:
    model = Mixture(n_components=1, missing="error").fit(FRAME[["length"]])
    with pytest.raises(ValueError, match="yet now missing"):
        model.predict(FRAME[["species"]])
    with pytest.raises(ValueError, match=r"row 2 .*, column 'a' is NaN"):
        model.fit(pd.DataFrame({"a": pd.Series([1, None, 3], dtype="Int64")}))
