"""How long it takes to open sources and to learn a little, by the number of columns.

    python benchmarks/columns.py [COLUMNS ...]

One row of data (two for what learns), so that what is measured is the work per column. The first
number is the time of the first call, the second the better of two more.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from mixfold import Gaussian, Mixture
from mixfold.sources.opening import open_source

Timed = tuple[str, Callable[[], object]]


def read(path: Path) -> int:
    return sum(len(rows) for rows in open_source(path).blocks())


def tasks(d: int, folder: Path) -> Iterator[Timed]:
    names = [f"column number {i}" for i in range(d)]
    x = np.random.default_rng(0).normal(size=(2, d))
    table = pa.table(dict(zip(names, x[:1].T, strict=True)))
    pa.csv.write_csv(table, folder / "x.csv")
    pa.parquet.write_table(table, folder / "x.parquet")
    pa.feather.write_feather(table, folder / "x.arrow")
    frame = pd.DataFrame(x, columns=names)
    for suffix in ("csv", "parquet", "arrow"):
        path = folder / f"x.{suffix}"
        yield f"open .{suffix}", partial(open_source, path)
        yield f"open and read .{suffix}", partial(read, path)
    yield (
        "open .parquet, all columns by name",
        lambda: open_source(folder / "x.parquet", columns=names[::-1]),
    )
    yield "open an Arrow table", lambda: open_source(table)
    yield "open a pandas frame", lambda: open_source(frame)
    model = Mixture(Gaussian("diag"), 1, learner="online-em", random_state=0)
    yield "partial_fit on a pandas frame", lambda: model.partial_fit(frame)
    yield "score of a pandas frame", lambda: model.score(frame)
    yield "partial_fit on an Arrow table", lambda: model.partial_fit(table)
    yield "score of an Arrow table", lambda: model.score(table)
    yield "score of a .csv file", lambda: model.score(folder / "x.csv")


def seconds_of(task: Callable[[], object]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def main() -> None:
    for d in [int(number) for number in sys.argv[1:]] or [20_000, 100_000]:
        with tempfile.TemporaryDirectory() as folder:
            for name, task in tasks(d, Path(folder)):
                first, best = seconds_of(task), min(seconds_of(task) for _ in range(2))
                print(f"{d:>8,} columns {first:7.2f} s {best:7.2f} s  {name}", flush=True)


if __name__ == "__main__":
    main()
