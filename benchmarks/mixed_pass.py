"""A pass of EM over a Parquet file of mixed columns against pyarrow reading it, and the memory.

    python benchmarks/mixed_pass.py [ROWS] [ROUNDS]

Three columns of float64, two of counts (int32), two of categories with five levels, of which one is
stored as a dictionary and one as text, and one of yes and no; K=3. Every measurement is made in a
process of its own: a pass is the difference between fits of one and of three passes, divided by
two. Processor time, of all threads, does not depend on what else the machine does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

N, GROUP, K, ROUNDS = 10_000_000, 500_000, 3, 3
LEVELS = ["ash", "beech", "cedar", "date", "elm"]

SHARED = """
import resource, sys, time
import pyarrow.parquet
from mixfold import Mixture
def used():
    found = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), found.ru_utime + found.ru_stime, found.ru_maxrss / 1024
def since(before, after=None):
    after = after or used()
    return [a - b for a, b in zip(after, before)]
start = used()
"""
READ = """
def read():
    before, rows = used(), 0
    file = pyarrow.parquet.ParquetFile(sys.argv[1], pre_buffer=False)
    for batch in file.iter_batches(2**18):
        rows += batch.num_rows
    return since(before)
read()  # a first time, as the fits have done
print(*read()[:2], since(start)[2])
"""
FIT = f"""
def fit(passes):
    model = Mixture("auto", {K}, learner="em", init="random-rows", max_iter=passes, random_state=0)
    before = used()
    model.fit(sys.argv[1])
    return model, since(before)
once = fit(1)[1][0]  # with what is loaded and compiled once
first = fit(1)[1]
model, third = fit(3)
assert model.n_iter_ == 3, model.n_iter_
print(*[(b - a) / 2 for a, b in zip(first[:2], third[:2])], since(start)[2], once)
"""


class Measured(NamedTuple):
    """Wall and processor seconds, the growth of memory in MB, and seconds of a fit of one pass."""

    wall: float
    processor: float
    memory: float
    fit: float = 0.0


def make(path: Path, n: int) -> None:
    """Write the file in chunks."""
    import pyarrow.parquet

    rng, writer = np.random.default_rng(0), None
    for _ in range(max(1, n // GROUP)):
        table = chunk(rng, min(n, GROUP))
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(path, table.schema, compression="snappy")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def chunk(rng: np.random.Generator, n: int) -> Any:
    """Rows of three components."""
    import pyarrow as pa

    z = rng.integers(K, size=n)
    columns: dict[str, Any] = {name: rng.normal(3.0 * z) for name in "abc"}
    columns |= {name: rng.poisson(2.0 + 4.0 * z).astype(np.int32) for name in ("calls", "visits")}
    codes = [(rng.binomial(4, 0.2 + 0.3 * z)).astype(np.int32) for _ in range(2)]
    tree = pa.DictionaryArray.from_arrays(codes[0], LEVELS)
    wood = pa.DictionaryArray.from_arrays(codes[1], LEVELS).cast("string")
    columns |= {"tree": tree, "wood": wood}
    columns["member"] = rng.random(n) < 0.2 + 0.3 * z
    return pa.table(columns)


def run(program: str, path: Path) -> Measured:
    """What a process of its own has measured."""
    command = [sys.executable, "-c", SHARED + program, str(path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return Measured(*map(float, out))


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else N
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.parquet"
        began = time.perf_counter()
        make(path, n)
        size = path.stat().st_size / 2**20
        print(f"{n:,} rows, {size:.0f} MB, written in {time.perf_counter() - began:.0f} s\n")
        pairs = [(run(READ, path), run(FIT, path)) for _ in range(rounds)]
    reads, fits = zip(*pairs, strict=True)
    print("| work | seconds | processor seconds | growth of memory, MB |\n|---|---|---|---|")
    best = []
    for name, found in (("pyarrow, iter_batches", reads), ("mixfold, a pass", fits)):
        wall, processor = min(f.wall for f in found), min(f.processor for f in found)
        print(f"| {name} | {wall:.2f} | {processor:.2f} | {max(f.memory for f in found):.0f} |")
        best.append((wall, processor))
    times = [own / other for other, own in zip(*best, strict=True)]
    print(f"| times reading (wanted 3) | {times[0]:.1f} | {times[1]:.1f} | |")
    print(f"\nfit with family='auto' and one pass: {min(f.fit for f in fits):.1f} s")


if __name__ == "__main__":
    main()
