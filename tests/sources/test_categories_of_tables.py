"""Categories of Arrow tables and polars frames, whatever numbers their dictionaries use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mixfold import Mixture
from mixfold.sources.table import Codes

LEVELS = ["ash", "beech", "cedar"]
FRAME = pd.DataFrame({"x": np.arange(12.0) ** 1.5, "tree": [*LEVELS, *LEVELS, *LEVELS[:2] * 3]})


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.uint64()])
def test_numbers_of_dictionaries(kind: Any) -> None:
    codes = Codes(known={"tree": ["cedar", "ash"]}, missing=True)
    indices = pa.array([2, None, 0, 2], kind)
    found = codes.codes("tree", pa.DictionaryArray.from_arrays(indices, LEVELS))
    np.testing.assert_array_equal(found, [0.0, np.nan, 1.0, 0.0])


def test_a_dictionary_as_long_as_its_numbers_allow() -> None:
    levels = [f"level {i}" for i in range(128)]
    indices = pa.array([None, *range(128)], pa.int8())
    codes = Codes(known={"tree": levels}, missing=True)
    found = codes.codes("tree", pa.DictionaryArray.from_arrays(indices, levels))
    np.testing.assert_array_equal(found, [np.nan, *range(128)])


@pytest.mark.parametrize(
    "make",
    [
        pa.Table.from_pandas,
        lambda frame: pa.Table.from_pandas(frame).to_batches()[0],
        pl.from_pandas,
        lambda frame: pl.from_pandas(frame).cast({"tree": pl.Categorical}),
        lambda frame: frame.astype({"tree": "category"}),
    ],
)
def test_families_of_tables_are_chosen_alike(make: Any) -> None:
    expected = Mixture("auto", learner="em").fit(FRAME)
    model = Mixture("auto", learner="em").fit(make(FRAME))
    assert str(model.chosen_families_) == str(expected.chosen_families_)
    assert model.score(make(FRAME)) == expected.score(FRAME)
