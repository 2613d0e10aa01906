"""The laws of sources, over all that rows can come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from mixfold.core.registry import find_all
from mixfold.core.source import Source
from mixfold.sources.opening import open_source
from mixfold.testing import sources


def tables(x: np.ndarray, folder: Path) -> Iterator[tuple[str, Any]]:
    import pandas as pd
    import polars as pl

    names = [f"c{j}" for j in range(x.shape[1])]
    table = pa.table(dict(zip(names, x.T, strict=True)))
    yield "array", x
    yield "reversed", x[::-1][::-1]
    yield "pandas", pd.DataFrame(x, columns=names)
    yield "polars", pl.DataFrame(x, schema=names)
    yield "arrow", table
    np.save(folder / "x.npy", x)
    yield "npy", folder / "x.npy"
    pyarrow.parquet.write_table(table, folder / "x.parquet", row_group_size=70)
    yield "parquet", folder / "x.parquet"
    pyarrow.csv.write_csv(table, folder / "x.csv")
    yield "csv", folder / "x.csv"
    pyarrow.feather.write_feather(table, folder / "x.feather", compression="lz4", chunksize=64)
    yield "feather", str(folder / "x.feather")
    (folder / "parts").mkdir()
    for i, part in enumerate((table[:100], table[100:110], table[110:])):
        pyarrow.parquet.write_table(part, folder / "parts" / f"p{i}.parquet")
        pyarrow.csv.write_csv(part, folder / f"p{i}.csv")
    yield "folder", folder / "parts"
    yield "glob", str(folder / "parts" / "*.parquet")
    yield "csv list", [folder / f"p{i}.csv" for i in range(3)]
    yield "blocks", [x[:3], x[3:200], x[200:]]
    yield "iterator", iter([x[:3], x[3:200], x[200:]])


@pytest.mark.parametrize("law", sources.LAWS, ids=lambda law: law.__name__)
def test_source(law: Callable[[Source, np.ndarray], None], tmp_path: Path) -> None:
    x = np.random.default_rng(7).normal(size=(333, 3))
    for _, data in tables(x, tmp_path):
        law(open_source(data), x)


FILES = [kind for kind in find_all("sources").values() if hasattr(kind, "suffixes")]


def example_file(kind: Any, x: np.ndarray, folder: Path) -> Path:
    """A file that a source reads: one of those above, or what the source says itself."""
    if hasattr(kind, "example"):
        return Path(kind.example(x, folder))
    files = [Path(data) for _, data in tables(x, folder) if isinstance(data, str | Path)]
    found = [file for file in files if file.name.endswith(kind.suffixes) and file.is_file()]
    assert found, (
        f"{kind.__name__} has no example: give it a class method example(x, folder) that writes "
        "rows to a file in the folder and returns its path"
    )
    return found[0]


@pytest.mark.parametrize("law", sources.LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("kind", FILES, ids=lambda kind: kind.__name__)
def test_source_of_files(
    law: Callable[[Source, np.ndarray], None], kind: type[Source], tmp_path: Path
) -> None:
    x = np.random.default_rng(7).normal(size=(333, 3))
    source = open_source(example_file(kind, x, tmp_path))
    assert isinstance(source, kind)
    law(source, x)
