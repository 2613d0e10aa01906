"""What several tests of this folder begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from distributed import LocalCluster

from cluster_fits import X
from mixfold.core import source as sources


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LEAST_PART", 1000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def address(cluster: LocalCluster) -> str:
    return str(cluster.scheduler_address)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    folder = tmp_path / "rows"
    folder.mkdir()
    for i, rows in enumerate(np.array_split(X, 3)):
        table = pa.table({"a": rows[:, 0], "b": rows[:, 1], "w": np.full(len(rows), 1.0 + i)})
        pyarrow.parquet.write_table(table, folder / f"{i}.parquet", row_group_size=150)
    return folder
