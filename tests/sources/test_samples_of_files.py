"""Samples of files whose rows are sorted: every row is drawn as often, whatever the files are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from scipy.stats import chisquare

from mixfold.core import source as sources
from mixfold.core.source import Source
from mixfold.sources.opening import open_source

N = 6000
NUMBERS = np.arange(float(N))
TABLE = pa.table({"a": NUMBERS, "b": NUMBERS % 7})


def csv(folder: Path) -> str:
    pyarrow.csv.write_csv(TABLE, folder / "rows.csv")
    return str(folder / "rows.csv")


def many_csv(folder: Path) -> str:
    for i in range(60):
        pyarrow.csv.write_csv(TABLE.slice(100 * i, 100), folder / f"{i:02}.csv")
    return str(folder / "*.csv")


def feather(folder: Path) -> str:
    pyarrow.feather.write_feather(TABLE, str(folder / "rows.feather"), chunksize=700)
    return str(folder / "rows.feather")


def one_row_group(folder: Path) -> str:
    pyarrow.parquet.write_table(TABLE, folder / "rows.parquet")
    return str(folder / "rows.parquet")


def row_groups(folder: Path) -> str:
    pyarrow.parquet.write_table(TABLE, folder / "rows.parquet", row_group_size=250)
    return str(folder / "rows.parquet")


def many_parquet(folder: Path) -> str:
    """Files of unequal lengths, one of them without rows."""
    ends = [0, 1, 1, 10, 400, 3000, 3001, N]
    for i, (start, stop) in enumerate(pairwise(ends)):
        part = TABLE.slice(start, stop - start)
        pyarrow.parquet.write_table(part, folder / f"{i}.parquet")
    return str(folder / "*.parquet")


def npy(folder: Path) -> str:
    np.save(folder / "rows.npy", np.column_stack([NUMBERS, NUMBERS % 7]))
    return str(folder / "rows.npy")


FORMS = [csv, many_csv, feather, one_row_group, row_groups, many_parquet, npy]


def drawn(source: Source, n: int, seed: int) -> np.ndarray:
    return source.sample(n, np.random.default_rng(seed)).x[:, 0].astype(int)


@pytest.mark.parametrize("write", FORMS, ids=lambda write: write.__name__)
def test_every_row_is_drawn_as_often(write: Callable[[Path], str], tmp_path: Path) -> None:
    source, found = open_source(write(tmp_path)), np.zeros(N)
    for seed in range(15):
        rows = drawn(source, 400, seed)
        assert len(rows) == 400
        assert (np.diff(rows) > 0).all()
        found[rows] += 1
    assert chisquare(found.reshape(20, -1).sum(axis=1)).pvalue > 1e-3
    np.testing.assert_array_equal(drawn(source, N, 0), NUMBERS)


def test_the_division_into_files_and_blocks_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = drawn(open_source(csv(tmp_path)), 300, 1)
    for write in (feather, one_row_group, many_parquet):
        folder = tmp_path / write.__name__
        folder.mkdir()
        source = open_source(write(folder))
        np.testing.assert_array_equal(drawn(source, 300, 1), expected)
        monkeypatch.setattr(sources, "SAMPLED_BLOCK", 37)
        np.testing.assert_array_equal(drawn(source, 300, 1), expected)
