"""Lazy frames, datasets and record-batch readers are read in batches, never as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from scipy.stats import kstest, uniform

from mixfold import CsvFiles, LinearMixedModel, Mixture, OneCompartmentModel, datasets
from mixfold.core.errors import InvalidInputError, SourceError
from mixfold.core.registry import find_all
from mixfold.core.rows import join
from mixfold.core.source import Source
from mixfold.sources.object_source import ObjectSource
from mixfold.sources.opening import open_source
from mixfold.testing import sources

X = np.random.default_rng(0).normal(size=(333, 3))
NAMES = ["c0", "c1", "c2"]
TABLE = pa.table(dict(zip(NAMES, X.T, strict=True)))

Make = Callable[[Any, Path], Any]


def folder(table: Any, path: Path) -> Any:
    (path / "parts").mkdir()
    for i in range(0, table.num_rows, 100):
        pyarrow.parquet.write_table(table[i : i + 100], path / "parts" / f"{i:03}.parquet")
    return pyarrow.dataset.dataset(path / "parts")


def scan(table: Any, path: Path) -> Any:
    pyarrow.parquet.write_table(table, path / "scan.parquet", row_group_size=70)
    return pl.scan_parquet(path / "scan.parquet")


def text(table: Any, path: Path) -> Any:
    table.to_pandas().to_csv(path / "text.csv", index=False)
    return pyarrow.dataset.dataset(path / "text.csv", format="csv")


STREAMS: dict[str, Make] = {
    "lazy frame": lambda table, path: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "scan": scan,
    "dataset": lambda table, path: pyarrow.dataset.dataset(table),
    "folder": folder,
    "text": text,
    "reader": lambda table, path: table.to_reader(max_chunksize=50),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("law", sources.LAWS, ids=lambda law: law.__name__)
def test_laws(law: Callable[[Source, np.ndarray], None], name: str, tmp_path: Path) -> None:
    law(open_source(STREAMS[name](TABLE, tmp_path)), X)


@pytest.mark.parametrize("name", STREAMS)
def test_every_call_takes_them(name: str, tmp_path: Path) -> None:
    wide = TABLE.append_column("id", pa.array(["x"] * 333)).append_column(
        "w", pa.array(np.arange(333) % 3 + 1.0)
    )
    (tmp_path / "again").mkdir()
    model = Mixture(n_components=2, columns=["c2", "c0"], learner="em", random_state=0)
    model.fit(STREAMS[name](wide, tmp_path), sample_weight="w")
    assert list(model.feature_names_in_) == ["c2", "c0"]
    for i, make in enumerate(STREAMS.values()):
        (tmp_path / str(i)).mkdir()
        found = model.score_samples(make(wide, tmp_path / str(i)))
        np.testing.assert_allclose(found, model.score_samples(wide))
    model.partial_fit(STREAMS[name](wide, tmp_path / "again"))
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("name", STREAMS)
def test_columns_that_cannot_be(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no column 'z'; its columns are c0, c1, c2"):
        Mixture(columns=["c0", "z"]).fit(STREAMS[name](TABLE, tmp_path))
    (tmp_path / "other").mkdir()
    words = TABLE.append_column("species", pa.array(["setosa"] * 333))
    with pytest.raises(SourceError, match=r"'species' is .*string.*columns="):
        Mixture().fit(STREAMS[name](words, tmp_path / "other"))


class Counted:
    """Record batches of a stream that remembers how many of them are in use at most."""

    def __init__(self, n: int, rows: int) -> None:
        self.n, self.rows, self.bytes = n, rows, 0
        self.before = pa.total_allocated_bytes()

    def __iter__(self) -> Iterator[Any]:
        rng = np.random.default_rng(0)
        for _ in range(self.n):
            self.bytes = max(self.bytes, pa.total_allocated_bytes() - self.before)
            columns = [pa.array(rng.normal(size=self.rows).tolist()) for _ in range(2)]
            yield pa.record_batch(columns, names=["a", "b"])


def test_a_reader_is_not_collected() -> None:
    batches = Counted(40, 2000)
    schema = pa.schema({"a": pa.float64(), "b": pa.float64()})
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    model = Mixture(n_components=1, learner="online-em", random_state=0).fit(reader)
    assert model.n_seen_ == 80_000
    whole = 40 * 2000 * 2 * 8
    assert batches.bytes < whole / 4


def test_a_dataset_and_a_lazy_frame_come_in_blocks(tmp_path: Path) -> None:
    for name in ("lazy frame", "scan", "dataset", "folder"):
        (tmp_path / name).mkdir()
        source = open_source(STREAMS[name](TABLE, tmp_path / name))
        sizes = [len(rows) for rows in source.blocks(length=60)]
        assert max(sizes) <= 120, name
        assert sum(sizes) == 333


def test_a_lazy_frame_is_never_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    collect = pl.LazyFrame.collect

    def bounded(frame: Any, *args: Any, **how: Any) -> Any:
        found = collect(frame, *args, **how)
        assert len(found) < 333
        return found

    monkeypatch.setattr(pl.LazyFrame, "collect", bounded)
    lazy = pl.DataFrame(X, schema=NAMES).lazy()
    assert join(list(open_source(lazy).blocks())).x.shape == (333, 3)
    assert len(open_source(lazy).head(10)) == 10


def test_older_versions_of_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pl.LazyFrame, "collect_batches")
    source = open_source(pl.DataFrame(X, schema=NAMES).lazy())
    np.testing.assert_array_equal(join(list(source.blocks(7, 50))).x, X[7:])


def test_a_dataset_knows_its_length_where_that_is_free(tmp_path: Path) -> None:
    assert open_source(folder(TABLE, tmp_path)).length == 333
    assert open_source(text(TABLE, tmp_path)).length is None


def test_resuming_knows_the_files_of_a_dataset(tmp_path: Path) -> None:
    model = Mixture(checkpoint=tmp_path / "c", learner="em", max_iter=1, random_state=0)
    data = folder(TABLE, tmp_path)
    model.fit(data).set_params(resume=True, max_iter=2)
    model.fit(data)
    pyarrow.parquet.write_table(TABLE[:33], tmp_path / "parts" / "300.parquet")
    with pytest.raises(ValueError, match="dataset of"):
        model.fit(pyarrow.dataset.dataset(tmp_path / "parts"))


# mixed-effects models


def grouped() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = np.repeat([f"g{i}" for i in range(12)], 8)
    x = rng.normal(size=96)
    y = 1.0 + 2.0 * x + np.repeat(rng.normal(size=12), 8) + rng.normal(size=96)
    return pd.DataFrame({"g": group, "x": x, "y": y})


@pytest.mark.parametrize("name", ["lazy frame", "scan", "dataset", "folder", "text"])
def test_mixed_models_read_them(name: str, tmp_path: Path) -> None:
    frame = grouped()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    model = LinearMixedModel("y ~ x", group="g", random_state=0).fit(STREAMS[name](table, tmp_path))
    expected = LinearMixedModel("y ~ x", group="g", random_state=0).fit(frame)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)


def test_mixed_models_refuse_a_reader_with_the_remedy() -> None:
    reader = pa.Table.from_pandas(grouped()).to_reader()
    with pytest.raises(SourceError, match=r"read once only.*give a table, a file"):
        LinearMixedModel("y ~ x", group="g").fit(reader)


def test_mixed_models_refuse_dask_frames_with_the_remedy() -> None:
    import dask.dataframe as dd

    frame = dd.from_pandas(grouped(), npartitions=2)
    for model in (LinearMixedModel("y ~ x", group="g"), OneCompartmentModel()):
        with pytest.raises(InvalidInputError, match=r"Dask DataFrame.*compute\(\).*to_parquet"):
            model.fit(frame)


def test_the_registry_finds_them() -> None:
    found = {name for name, kind in find_all("sources").items() if issubclass(kind, ObjectSource)}
    assert {"lazy-frame", "dataset", "record-batch-reader"} <= found


def test_what_is_no_source_is_an_array() -> None:
    rows = datasets.load_faithful()
    for data in (rows, rows.tolist(), pd.DataFrame(rows)):
        assert Mixture(random_state=0).fit(data).n_features_in_ == 2
    assert isinstance(CsvFiles("x.csv"), CsvFiles)


def test_the_sample_of_a_file_of_many_row_groups_is_spread_over_it(tmp_path: Path) -> None:
    x = np.arange(6000.0)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({"a": x}), path, row_group_size=10)
    source = open_source(str(path))
    found = source.sample(500, np.random.default_rng(0)).x[:, 0]
    assert len(np.unique(found)) == 500
    assert len(np.unique(found // 10)) <= 256
    assert kstest(found, uniform(0.0, 6000.0).cdf).pvalue > 0.01
