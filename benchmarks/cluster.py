"""EM on Dask workers over a Parquet file: one worker, two, the threads of one process; bytes moved.

    python benchmarks/cluster.py [FILE] [ROWS]

FILE is made with ROWS rows (1e8) of 4 float32 columns if it is not there. Seconds are those of an
iteration, the best of several, after one that warms up. Bytes are what workers sent to each other,
counted from their logs by the pickled sizes of what was sent, and the graph and its result, which
pass between the driver, the scheduler and the workers.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from distributed import Client, LocalCluster

from mixfold import EM, Mixture
from mixfold.backends.threads import Threads
from mixfold.core.source import Source, no_check
from mixfold.engines.dask import Dask, graph
from mixfold.fitting.fit import Fit
from mixfold.fitting.history import no_history
from mixfold.fitting.sharded_pass import Folding, ShardedPass
from mixfold.models.mixture_model import MixtureModel
from mixfold.sources.opening import open_source
from mixfold.testing.families import example_mixture
from parquet_pass import make

PASSES = 4
K = 3


def seconds_per_pass(path: Path, cluster: str | None, start: Any) -> float:
    learner = EM(tol=0.0, max_iter=PASSES)
    model = Mixture(n_components=K, learner=learner, init=start, cluster=cluster).fit(path)
    return float(np.diff(model.history_.time).min())


def speed(path: Path) -> None:
    start = Mixture(n_components=K, max_iter=1, random_state=0).fit(path.with_name("start.parquet"))
    found = {"threads": seconds_per_pass(path, None, start)}
    for workers in (1, 2):
        with LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0"
        ) as cluster:
            found[f"{workers} workers"] = seconds_per_pass(path, cluster.scheduler_address, start)
    for name, seconds in found.items():
        print(f"{name}: {seconds:.2f} s per iteration")
    one, two, threads = found["1 workers"], found["2 workers"], found["threads"]
    print(f"two workers are {one / two:.2f} times one (wanted 1.6)")
    print(f"their overhead over threads is {100 * (two / threads - 1):.0f}% (wanted at most 15%)")


def sent(dask_worker: Any) -> list[str]:
    """What a worker has sent to others: the kinds of tasks whose results they were."""
    keys = (key for entry in dask_worker.transfer_outgoing_log for key in entry["keys"])
    return [str(key).split("-")[0] for key in keys]


def moved(client: Client, source: Source, model: MixtureModel, params: Any) -> tuple[int, int]:
    """Bytes between workers, and to and from them, in one iteration."""
    backend, learner = Threads(model, 1), EM()
    state = learner.init(backend, params)
    pass_runner = ShardedPass(Dask(client), model, learner, source, no_check)
    work, shards = Folding(model, learner, no_check, 1), [[part] for part in pass_runner.partitions]
    folded = work.begin(state, 0)
    given, result = len(pickle.dumps((work, state))), len(pickle.dumps(folded))
    (future,) = client.scatter([(work, state)], hash=False)
    tasks = len(cloudpickle.dumps(dict(graph(future, shards).__dask_graph__())))
    before = Counter(key for keys in client.run(sent).values() for key in keys)
    for _ in range(PASSES):
        list(pass_runner.states(Fit(state, no_history(), passes=1)))
    after = Counter(key for keys in client.run(sent).values() for key in keys)
    sizes = {"_first": result, "_merge": result}
    between = sum(sizes.get(kind, given) * n for kind, n in (after - before).items())
    return between // PASSES, 2 * tasks + given + result


def traffic(folder: Path) -> None:
    print("\n| workers | rows | partitions | bytes between workers | tasks and result |")
    print("|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    from mixfold.families.gaussian import Gaussian

    model, params, _ = example_mixture(Gaussian(), 8, 10, 1, rng)
    for workers in (1, 2, 4, 8):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=":0"
            ) as cluster,
            Client(cluster) as client,
        ):
            for n in (2**20, 2**22):
                file = folder / f"{n}.npy"
                if not file.exists():
                    np.save(file, rng.normal(size=(n, 10)).astype(np.float32))
                source = open_source(file)
                between, tasks = moved(client, source, model, params)
                parts = len(source.partitions())
                print(f"| {workers} | {n:,} | {parts} | {between:,} | {tasks:,} |")


def main() -> None:
    default = Path(tempfile.gettempdir()) / "mixfold-benchmark.parquet"
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    rows = int(float(sys.argv[2])) if len(sys.argv) > 2 else 100_000_000
    for file, n in ((path, rows), (path.with_name("start.parquet"), 1_000_000)):
        if not file.exists():
            began = time.perf_counter()
            make(file, n)
            print(f"made {file.name} in {time.perf_counter() - began:.0f} s")
    speed(path)
    with tempfile.TemporaryDirectory() as folder:
        traffic(Path(folder))


if __name__ == "__main__":
    main()
