"""Families of the columns of Dask dataframes, whose partitions differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mixfold import Mixture
from mixfold.core.errors import InvalidInputError

dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")

N = 300


def table() -> pd.DataFrame:
    """Columns whose first rows are unlike the others."""
    rng = np.random.default_rng(0)
    late = np.arange(N) >= 100
    return pd.DataFrame(
        {
            "real": np.where(late, rng.normal(5.0, 2.0, N), rng.integers(2, size=N)),
            "count": np.where(late, rng.poisson(6.0, N), 0),
            "few": np.where(late, 3 + rng.integers(2, size=N), 1 + rng.integers(2, size=N)),
            "text": pd.Series(rng.choice(["u", "v", "w"], N)).where(late),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(300, size=N), "D"),
            "flag": rng.random(N) < 0.5,
        }
    )


FRAME = table()


def chosen(data: Any, **settings: Any) -> str:
    model = Mixture("auto", 1, random_state=0, learner="em", cluster="serial", **settings)
    return str(model.fit(data).chosen_families_)


@pytest.mark.parametrize("parts", [1, 3, 10])
def test_families_are_those_of_the_whole_table(parts: int) -> None:
    assert chosen(dd.from_pandas(FRAME, npartitions=parts)) == chosen(FRAME)


def test_columns_and_weights_are_left_out() -> None:
    data = dd.from_pandas(FRAME, npartitions=3)
    some = ["text", "real"]
    assert chosen(data, columns=some) == chosen(FRAME, columns=some)
    model = Mixture("auto", 1, random_state=0, learner="em", cluster="serial")
    weighted = model.fit(data.assign(w=1.0), sample_weight="w")
    assert [choice.column for choice in weighted.chosen_families_] == list(FRAME.columns)


def test_rare_numbers_of_many_rows_are_levels() -> None:
    few = np.random.default_rng(0).integers(1, 4, 30_000)
    few[20_000] = 7
    data = dd.from_pandas(pd.DataFrame({"few": few}), npartitions=3)
    assert "levels=(1, 2, 3, 7)" in chosen(data)


def test_empty_partitions_and_empty_tables() -> None:
    data = dd.from_pandas(FRAME, npartitions=3)
    some = data[data["real"] > 3.0]
    expected = FRAME[FRAME["real"] > 3.0]
    assert chosen(some) == chosen(expected)
    with pytest.raises(InvalidInputError, match="no rows"):
        chosen(data[data["real"] > 1e9])


def test_arrays_are_sampled_in_all_chunks() -> None:
    x = FRAME[["real", "count"]].to_numpy(dtype=float)
    assert chosen(da.from_array(x, chunks=(50, 2))) == chosen(x)


def test_a_stream_of_dask_tables_adds_levels() -> None:
    model = Mixture("auto", 1, random_state=0, cluster="serial")
    model.partial_fit(dd.from_pandas(FRAME[:150], npartitions=2))
    model.partial_fit(dd.from_pandas(FRAME[150:].assign(text="new"), npartitions=2))
    plain = Mixture("auto", 1, random_state=0)
    plain.partial_fit(FRAME[:150]).partial_fit(FRAME[150:].assign(text="new"))
    assert str(model.chosen_families_) == str(plain.chosen_families_)
    assert model.score(FRAME[:99]) == plain.score(FRAME[:99])
