"""Dates and times of tables: what is drawn or filled in has the type that was given."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import mixfold
from mixfold import Gaussian, Mixture, Product
from mixfold.core.errors import InvalidInputError
from mixfold.sources.dates import days, from_days, temporal_type

# columns of the same times determine one another
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")

N = 200
DAY = datetime.date(2026, 3, 1)


def table() -> Any:
    """An Arrow table with a column of every type of dates and times."""
    rng = np.random.default_rng(0)
    moments = 1_770_000_000_000_000 + rng.integers(10**12, size=N) * 10
    clock = rng.integers(20_000, 60_000, size=N)
    found = {
        "x": pa.array(rng.normal(size=N)),
        "date": pa.array(20_500 + rng.integers(90, size=N), pa.int32()).cast(pa.date32()),
        "milli": pa.array(moments // 1000 // 86_400_000 * 86_400_000).cast(pa.date64()),
        "moment": pa.array(moments).cast(pa.timestamp("us")),
        "second": pa.array(moments // 10**6).cast(pa.timestamp("s")),
        "berlin": pa.array(moments).cast(pa.timestamp("us", "Europe/Berlin")),
        "clock": pa.array(clock, pa.int32()).cast(pa.time32("s")),
        "fine": pa.array(clock * 10**6).cast(pa.time64("us")),
        "length": pa.array(rng.integers(10**9, size=N)).cast(pa.duration("ms")),
    }
    holes = {name: pa.array(rng.random(N) < 0.2) for name in found}
    nothing = pa.scalar(None)
    return pa.table(
        {n: pa.compute.if_else(holes[n], nothing.cast(c.type), c) for n, c in found.items()}
    )


TABLE = table()


@pytest.fixture(scope="module")
def model() -> Mixture:
    return Mixture("auto", 2, random_state=0).fit(TABLE)


@pytest.mark.parametrize("method", ["mean", "mode", "draw"])
def test_filled_tables_have_the_types_that_were_given(model: Mixture, method: str) -> None:
    filled = model.impute(TABLE, method)
    assert filled.schema.types == TABLE.schema.types
    for name in TABLE.column_names:
        given = TABLE.column(name)
        assert filled.column(name).null_count == 0
        assert filled.column(name).filter(given.is_valid()).equals(given.drop_null())


@pytest.mark.parametrize("convert", [lambda t: t.to_pandas(), pl.from_arrow])
def test_frames_of_other_libraries(model: Mixture, convert: Any) -> None:
    given = convert(TABLE.select(["x", "date", "moment", "berlin", "clock", "length"]))
    some = Mixture("auto", 2, random_state=0).fit(given)
    filled = some.impute(given)
    assert type(filled) is type(given)
    assert list(filled.dtypes) == list(given.dtypes)
    back = pa.table(filled)
    assert all(back.column(name).null_count == 0 for name in back.column_names)


def test_samples_have_the_types_of_the_fit(model: Mixture, tmp_path: Path) -> None:
    model.save(tmp_path / "m.mixfold")
    for one in (model, mixfold.load(tmp_path / "m.mixfold")):
        drawn, _ = one.sample(50)
        assert isinstance(drawn["date"].iloc[0], datetime.date)
        assert isinstance(drawn["clock"].iloc[0], datetime.time)
        assert str(drawn["berlin"].dtype) == "datetime64[us, Europe/Berlin]"
        assert str(drawn["length"].dtype) == "timedelta64[ms]"
        assert drawn["moment"].between(pd.Timestamp("2025-01-01"), pd.Timestamp("2028-01-01")).all()
        assert np.isfinite(one.score_samples(drawn)).all()


def test_parts_of_the_model_have_dates_too(model: Mixture) -> None:
    drawn, _ = model.marginal(["x", "date"]).sample(5)
    assert isinstance(drawn["date"].iloc[0], datetime.date)
    drawn, _ = model.conditional({"date": DAY, "x": 0.0}).sample(5)
    assert isinstance(drawn["clock"].iloc[0], datetime.time)


def test_a_group_of_columns_with_dates() -> None:
    family = Product({("x", "date"): Gaussian("full"), "clock": "gaussian"})
    model = Mixture(family, 1, random_state=0).fit(TABLE)
    assert model.impute(TABLE).column("date").type == pa.date32()
    drawn, _ = model.sample(3)
    assert isinstance(drawn["date"].iloc[0], datetime.date)


def test_streams_remember_the_types() -> None:
    model = Mixture("auto", 2, random_state=0)
    for first in range(0, N, 50):
        model.partial_fit(TABLE.slice(first, 50))
    assert model.impute(TABLE).schema.types == TABLE.schema.types
    drawn, _ = model.sample(3)
    assert str(drawn["berlin"].dtype) == "datetime64[us, Europe/Berlin]"


KINDS = [field.type for field in TABLE.schema][1:]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_days_and_back(kind: Any) -> None:
    assert temporal_type(str(kind)) == kind
    given = next(TABLE.column(f.name) for f in TABLE.schema if f.type == kind).combine_chunks()
    assert from_days(days(given), kind).equals(given)


@pytest.mark.parametrize("kind", [*KINDS, pa.timestamp("ns"), pa.duration("ns")], ids=str)
def test_numbers_outside_the_type_become_its_ends(kind: Any) -> None:
    found = from_days(np.array([-1e12, np.nan, 1e12]), kind)
    assert found.type == kind
    assert found.is_null().to_pylist() == [False, True, False]
    low, _, high = days(found)
    assert low < high
    if pa.types.is_date(kind):
        assert found.to_pylist() == [datetime.date.min, None, datetime.date.max]
    if pa.types.is_time(kind):
        assert 0.0 <= low < high < 1.0


def test_times_of_day_in_nanoseconds_are_drawn_in_microseconds() -> None:
    clock = pl.Series("clock", [datetime.time(i % 24, 3, 7, 11 * i) for i in range(90)])
    frame = pl.DataFrame({"x": np.random.default_rng(0).normal(size=90), "clock": clock})
    model = Mixture("auto", 1, random_state=0).fit(frame)
    drawn, _ = model.sample(20)
    assert all(isinstance(one, datetime.time) for one in drawn["clock"])
    holes = frame.with_columns(clock=pl.when(pl.col("x") > 0.0).then("clock"))
    assert model.impute(holes).schema == frame.schema
    assert model.impute(pd.DataFrame(holes.to_dict(as_series=False))).notna().all(axis=None)
    found = from_days(np.array([0.123456789123, np.nan]), pa.time64("ns"))
    assert found.cast(pa.int64()).to_pylist() == [10_666_666_580_000, None]


def test_texts_in_the_place_of_dates_are_refused_with_a_remedy(model: Mixture) -> None:
    remedy = "'date' has '2026-03-01', which is no date or time: give one, such as datetime.date"
    for call in (model.conditional, model.score_one):
        with pytest.raises(InvalidInputError, match=remedy):
            call({"date": "2026-03-01"})


def test_dates_are_rounded_to_days() -> None:
    found = from_days(np.array([19.4, 19.6, -0.6]), pa.date32())
    assert found.to_pylist() == [datetime.date(1970, 1, d) for d in (20, 21)] + [
        datetime.date(1969, 12, 31)
    ]


@pytest.mark.parametrize("text", ["int64", "date32[ms]", "time64[s]", "timestamp[us, tz=a b]", ""])
def test_other_types_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="no type of dates or times"):
        temporal_type(text)
