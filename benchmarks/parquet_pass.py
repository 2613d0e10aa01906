"""One pass over a large Parquet file against pyarrow merely reading it, and the peak memory.

    python benchmarks/parquet_pass.py [FILE]

FILE is made if it is not there: 1e8 rows of 4 float32 columns (1.6 GB). pyarrow reads with its
defaults, and with `pre_buffer=False`, which does not hold the whole file in memory.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

N, GROUP = 100_000_000, 1_000_000

FIT = """
import resource, sys, time
from mixfold import Mixture
import pyarrow.parquet
began = time.perf_counter()
model = Mixture(n_components=3, max_iter=1, random_state=0).fit(sys.argv[1])
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
READ = """
import resource, sys, time
import pyarrow.parquet
began = time.perf_counter()
rows = 0
file = pyarrow.parquet.ParquetFile(sys.argv[1], pre_buffer=sys.argv[2] == "True")
for batch in file.iter_batches(2**18):
    rows += batch.num_rows
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def make(path: Path, n: int = N) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pyarrow.parquet.ParquetWriter(path, schema, compression="snappy") as writer:
        for _ in range(n // GROUP):
            shift = 4.0 * rng.integers(3, size=GROUP).astype(np.float32)
            columns = [rng.standard_normal(GROUP, dtype=np.float32) + shift for _ in names]
            writer.write_table(pa.table(columns, schema=schema))


def run(program: str, path: Path, pre_buffer: bool = False) -> tuple[float, float]:
    command = [sys.executable, "-c", program, str(path), str(pre_buffer)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(out[0]), float(out[1])


def main() -> None:
    default = Path(tempfile.gettempdir()) / "mixfold-benchmark.parquet"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    if not path.exists():
        began = time.perf_counter()
        make(path)
        print(f"made {path.name} in {time.perf_counter() - began:.0f} s")
    defaults, reads, fits = [], [], []
    for _ in range(4):
        defaults.append(run(READ, path, pre_buffer=True))
        reads.append(run(READ, path))
        fits.append(run(FIT, path))
    fit, memory = min(fits)[0], max(m for _, m in fits)
    print(f"mixfold, one pass, K=3 full: {fit:.2f} s, {memory:.0f} MB peak (wanted below 400)")
    for name, (seconds, megabytes) in (
        ("its defaults", min(defaults)),
        ("pre_buffer=False", min(reads)),
    ):
        print(
            f"pyarrow reading with {name}: {seconds:.2f} s, {megabytes:.0f} MB; "
            f"mixfold takes {fit / seconds:.2f} times that (wanted at most 1.5)"
        )


if __name__ == "__main__":
    main()
