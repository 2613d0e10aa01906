"""EM on Spark against MLlib's GaussianMixture, and what the driver receives.

    python benchmarks/spark.py [ROWS] [ROUNDS] [speed]

local[2], ROWS (1e6) rows of 28 columns in four partitions that are cached before, K = 4 full
covariances, 20 passes, and as many as the default learner makes, ROUNDS (2) of each in turn; with
"speed" nothing else is measured. All fits have their own starts, whose time counts. Processor
seconds are those of the JVM, of its Python workers and of this process together, which other work
on the machine does not change much. The log-likelihood is the mean over all rows. Bytes are those
of the states that the driver receives in a pass.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.ml.clustering import GaussianMixture
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from mixfold import EM, Mixture

D, K, PASSES, PARTS = 28, 4, 20, 4
TICKS = os.sysconf("SC_CLK_TCK")


def session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "2g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def write_rows(folder: Path, n: int) -> None:
    """Overlapping Gaussians with correlated columns, in PARTS files."""
    rng = np.random.default_rng(0)
    means = rng.normal(0.0, 1.5, size=(K, D))
    turns = rng.normal(size=(K, D, D)) / np.sqrt(D)
    for i in range(PARTS):
        label = rng.integers(K, size=n // PARTS)
        x = rng.normal(size=(n // PARTS, D))
        for k in range(K):
            x[label == k] = x[label == k] @ turns[k] + means[k]
        table = pa.table({f"x{j}": x[:, j] for j in range(D)})
        pq.write_table(table, folder / f"{i}.parquet")


def write_elsewhere(folder: str, n: int) -> None:
    """Write rows in another process, whose memory is not that of the driver."""
    writer = get_context("spawn").Process(target=write_rows, args=(Path(folder), n))
    writer.start()
    writer.join()


def processor() -> str:
    """The name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.partition(": ")[2] for line in lines if line.startswith("model name"))


def processor_seconds() -> dict[int, float]:
    """Of this process and of each that it has started, by any number of generations."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parts = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(folder.name)] = int(parts[1])
        used[int(folder.name)] = sum(map(int, parts[11:15])) / TICKS
    ours = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {one: used[one] for one in ours}


def timed(work: Any) -> tuple[float, float, Any]:
    """Seconds, processor seconds and the result."""
    began, before = time.perf_counter(), processor_seconds()
    result = work()
    seconds, after = time.perf_counter() - began, processor_seconds()
    return seconds, sum(used - before.get(one, 0.0) for one, used in after.items()), result


def warm(batches: Iterator[Any]) -> Iterator[Any]:
    """The numbers of rows of batches, by workers that import what a fit needs."""
    import mixfold.estimators.mixture  # noqa: F401

    for batch in batches:
        yield pa.record_batch({"n": [batch.num_rows]})


def speed(rows: Any, rounds: int) -> None:
    names = rows.columns
    vectors = VectorAssembler(inputCols=names, outputCol="features").transform(rows)
    vectors = vectors.select("features").persist()
    n = vectors.count()

    def ours() -> Mixture:
        learner = EM(tol=0.0, max_iter=PASSES)
        return Mixture("gaussian", K, learner=learner, random_state=0).fit(rows)

    def default() -> Mixture:
        return Mixture("gaussian", K, random_state=0).fit(rows)

    def mllib() -> Any:
        return GaussianMixture(k=K, maxIter=PASSES, tol=0.0, seed=0).fit(vectors)

    works = {"mixfold": ours, "mixfold, auto": default, "MLlib": mllib}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    rows.mapInArrow(warm, "n long").collect()  # Python workers start
    for _ in range(rounds):
        for name, work in works.items():
            seconds, used, model = timed(work)
            found[name].append((seconds, used))
            total = model.summary.logLikelihood if name == "MLlib" else n * model.score(rows)
            nats = float(total) / n
            print(f"{name}: {seconds:.1f} s, {used:.1f} processor seconds, {nats:.6f} nats")
    for i, clock in enumerate(("seconds", "processor seconds")):
        a, auto, b = (min(one[i] for one in found[name]) for name in works)
        print(f"{clock}: MLlib / EM {b / a:.1f}, MLlib / auto {b / auto:.1f} (wanted 10)")
    vectors.unpersist()


def received(spark: SparkSession, sizes: list[int]) -> None:
    """Bytes that the driver receives in a pass, and its largest memory."""
    sent: list[int] = []

    collect = DataFrame.collect

    def counting(frame: Any) -> Any:
        rows = collect(frame)
        if "state" in frame.columns:
            sent.append(sum(len(row["state"]) for row in rows))
        return rows

    for n in sizes:
        sent.clear()
        with tempfile.TemporaryDirectory() as folder:
            write_elsewhere(folder, n)
            data = spark.read.parquet(folder).repartition(PARTS)
            start = np.random.default_rng(1).normal(size=(K, D))
            model = Mixture("gaussian", K, learner=EM(tol=0.0, max_iter=2), init=start)
            with patch.object(DataFrame, "collect", counting):
                model.fit(data)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{n:,} rows: sample {sent[0]:,}, passes {sent[1:]} bytes; driver {peak:.0f} MB")


def main() -> None:
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 1_000_000
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    warnings.simplefilter("ignore")
    print(processor())
    spark = session()
    if "speed" not in sys.argv:
        received(spark, [n // 100, n // 10, n])
    with tempfile.TemporaryDirectory() as folder:
        write_elsewhere(folder, n)
        rows = spark.read.parquet(folder).repartition(PARTS).persist()
        rows.count()
        speed(rows, rounds)
    spark.stop()


if __name__ == "__main__":
    main()
