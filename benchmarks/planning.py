"""What a pass costs on a cluster larger than any at hand: measured parts, and a simulated tree.

    python benchmarks/planning.py [--rounds 5] [--passes 20] [--picture FILE]

Measured here, on one thread, through the functions that workers run (`Folding` of
`fitting.sharded_pass`): the processor time of a row in the E-step of EM, of merging eight states,
of writing and reading a state, and of an M-step; the bytes of states, of the description of a task,
and of results; the time that Dask spends on a task, scheduler and worker together. Assumed, and
printed, are network, disks, stragglers and failures. From these come the time of a pass over 1e12
rows on 1000 workers, and a simulation of the tree of `core.engine.tree` for up to 10,000 workers.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log2
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from _tables import heading
from mixfold.backends.threads import Threads
from mixfold.core.engine import FAN_IN, tree
from mixfold.core.source import LARGEST_PART, no_check, part_length, same
from mixfold.engines.dask import graph
from mixfold.families.gaussian import Gaussian
from mixfold.fitting.sharded_pass import Folding
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.sources.array_source import ArraySource
from mixfold.sources.opening import open_source

SHAPES = [(8, 10), (100, 50), (64, 200)]  # K and d
MOST_SIMULATED = 10**5
ROWS, WORKERS, CELL = 1e12, 1000, 4  # of the plan, and bytes of a number


@dataclass(frozen=True)
class Cluster:
    """What is assumed."""

    latency: float = 5e-4  # seconds of a message
    bandwidth: float = 1.25e9  # bytes per second of a machine, 10 Gbit/s
    disk: float = 1e9  # bytes per second that a worker reads
    spread: float = 0.1  # standard deviation of the logarithm of a worker's speed
    slow: float = 0.005  # fraction of partitions that take three times as long
    between_failures: float = 30 * 86400.0  # seconds of a worker
    noticed: float = 30.0  # seconds until a failure is


@dataclass(frozen=True)
class Costs:
    """What was measured, in seconds and bytes."""

    k: int
    d: int
    row: float
    merge: float
    copy: float
    maximize: float
    state: int
    result: int
    task_bytes: float
    task: float

    @property
    def flops(self) -> float:
        """Multiplications and additions of a row: distances, and sums of products."""
        return 2.0 * self.k * (self.d * (self.d + 1.0) + 2.0 * self.d)


def least(work: Callable[[], object], rounds: int) -> float:
    """The least processor time of several calls."""
    found = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


def measure(k: int, d: int, task: float, rounds: int) -> Costs:
    """The costs of EM for full Gaussians."""
    rng, n = np.random.default_rng(0), max(2**14, 40_000_000 // (k * d * d))
    model, params, x = overlapping(k, d, n, rng)
    learner = EM()
    backend = Threads(model, 1)
    state = learner.init(backend, params)
    work = Folding(model, learner, no_check, FAN_IN)
    source = ArraySource(x.astype(np.float32))

    def fold() -> Any:
        return work.fold(work.begin(state, 0), 0, same, source)

    folded = fold()
    parts, given = [folded] * FAN_IN, pickle.dumps((work, state))
    result = pickle.dumps(folded)
    (merged,) = [work.merge(state, parts)]
    return Costs(
        k,
        d,
        least(fold, rounds) / n,
        least(lambda: work.merge(state, parts), rounds),
        least(lambda: pickle.loads(pickle.dumps(folded)), rounds),
        least(lambda: learner.end_pass(backend, merged.state), rounds),
        len(given),
        len(result),
        bytes_of_a_task(),
        task,
    )


def overlapping(k: int, d: int, n: int, rng: np.random.Generator) -> tuple[Any, Any, np.ndarray]:
    """A mixture, its parameters, and rows that belong to many components: none is skipped."""
    family = Gaussian()
    drawn = family.example(k, d, rng)
    same_scale = np.repeat(drawn.scale[:1], k, axis=0)
    alike = replace(drawn, means=drawn.means / 30.0, scale=same_scale)
    params = MixtureParams(np.full(k, 1.0 / k), alike)
    x = family.sample(params.components, rng.integers(k, size=n), rng)
    return MixtureModel(family, k, d), params, x


def bytes_of_a_task(parts: int = 512) -> float:
    """Bytes of the description of a task, of a graph of partitions of a file."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(file := Path(folder) / "rows.npy", np.zeros((parts, 1)))
        shards = [[part] for part in open_source(file).partitions(1)]
        made = dict(graph(None, shards).__dask_graph__())
    return len(cloudpickle.dumps(made)) / len(made)


def seconds_of_a_task(tasks: int = 2000) -> float:
    """The processor time of a task that does nothing, of the scheduler and a worker."""
    from distributed import Client, LocalCluster

    settings: dict[str, Any] = {"processes": False, "dashboard_address": None}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, **settings) as local,
        Client(local) as client,
    ):
        client.gather(client.map(abs, range(100)))
        began = time.process_time()
        client.gather(client.map(abs, range(-tasks, 0)))
        return (time.process_time() - began) / tasks


def n_merges(leaves: int) -> int:
    """Merges in the tree of so many leaves, counted from the tree itself."""
    merges = 0

    def join(_: list[None]) -> None:
        nonlocal merges
        merges += 1

    tree([None] * leaves, join)
    return merges


# the simulation


def simulated(
    costs: Costs, cluster: Cluster, rows: float, workers: int, parts: int, seed: int
) -> float:
    """Seconds of a pass: partitions in order, whichever worker is free, and a tree of merges.

    The scheduler hands out one task at a time. A merge begins when the last of its parts has ended
    and all have arrived, one after the other, at the machine of the first. What a worker had begun
    when it failed is begun again, once that is noticed.
    """
    rng = np.random.default_rng(seed)
    send = cluster.latency + costs.result / cluster.bandwidth + costs.copy
    broadcast = log2(max(workers, 2)) * (cluster.latency + costs.state / cluster.bandwidth)
    own = rows / parts * max(costs.row, costs.d * CELL / cluster.disk)
    speeds = np.exp(cluster.spread * rng.normal(size=workers))
    free = [(broadcast, i) for i in range(workers)]
    heapq.heapify(free)
    scheduler, ends, heads = broadcast, np.empty(parts), rng.random(parts) < cluster.slow
    for part in range(parts):
        scheduler += costs.task
        ready, worker = heapq.heappop(free)
        begun = max(ready, scheduler)
        seconds = own * speeds[worker] * (3.0 if heads[part] else 1.0)
        if rng.random() < seconds / cluster.between_failures:
            begun += rng.random() * seconds + cluster.noticed
        ends[part] = begun + seconds
        heapq.heappush(free, (ends[part], worker))
    level = ends.tolist()
    while len(level) > 1:
        joined = []
        for first in range(0, len(level), FAN_IN):
            own_parts = level[first : first + FAN_IN]
            scheduler += costs.task
            arrived = max(*own_parts, scheduler) + (len(own_parts) - 1) * send
            joined.append(arrived + costs.merge * len(own_parts) / FAN_IN)
        level = joined
    return level[0] + send + costs.maximize


def pass_of(costs: Costs, cluster: Cluster, rows: float, workers: int, parts: int) -> float:
    """The mean of five simulated passes; of very many partitions, the slower of two things."""
    if parts > MOST_SIMULATED:
        return max(rows * costs.row / workers, (parts + n_merges(parts)) * costs.task)
    return float(np.mean([simulated(costs, cluster, rows, workers, parts, s) for s in range(5)]))


# tables


def default_parts(rows: float, d: int) -> int:
    """Partitions that are made by default."""
    return ceil(rows / part_length(int(rows), d))


def parts_for(costs: Costs, rows: float, workers: int, most: int = 32) -> int:
    """Partitions, 1 to `most` a worker, such that a task takes a hundred times its overhead."""
    tasks = rows * costs.row / (100.0 * costs.task)
    return workers * int(np.clip(tasks / workers, 1, most))


def print_measured(found: list[Costs]) -> None:
    print("Measured, on one thread:\n")
    print(
        heading(
            *("K, d", "us of a row", "GF/s", "state, bytes", "result, bytes"),
            *("merge of 8, ms", "copy, ms", "M-step, ms", "task, bytes", "task, ms"),
        )
    )
    for c in found:
        print(
            f"| {c.k}, {c.d} | {1e6 * c.row:.3g} | {c.flops / c.row / 1e9:.1f} | {c.state:,} "
            f"| {c.result:,} | {1e3 * c.merge:.3g} | {1e3 * c.copy:.3g} | {1e3 * c.maximize:.3g} "
            f"| {c.task_bytes:.0f} | {1e3 * c.task:.2f} |"
        )


def print_plan(found: list[Costs], cluster: Cluster, passes: int) -> None:
    print(f"\n{ROWS:.0e} rows of float32 on {WORKERS:,} workers, {passes} passes of EM:\n")
    print(
        heading(
            *("K, d", "data, TB", "flops of a pass", "partitions", "messages", "bytes of a pass"),
            *("computing, s", "reading, s", "scheduler, s", "pass, s", f"{passes} passes, h"),
        )
    )
    for c in found:
        for parts in (default_parts(ROWS, c.d), parts_for(c, ROWS, WORKERS)):
            merges = n_merges(parts)
            messages = 2 * (parts + merges) + WORKERS
            moved = WORKERS * c.state + (parts + merges) * (c.result + 2.0 * c.task_bytes)
            simulated_pass = pass_of(c, cluster, ROWS, WORKERS, parts)
            print(
                f"| {c.k}, {c.d} | {ROWS * c.d * CELL / 1e12:.0f} | {ROWS * c.flops:.1e} "
                f"| {parts:,} | {messages:,} | {moved:.1e} | {ROWS * c.row / WORKERS:,.0f} "
                f"| {ROWS * c.d * CELL / cluster.disk / WORKERS:,.0f} "
                f"| {(parts + merges) * c.task:,.0f} | {simulated_pass:,.0f} "
                f"| {simulated_pass * passes / 3600:,.1f} |"
            )


def print_tree(c: Costs, cluster: Cluster) -> list[tuple[int, float, float]]:
    """How the pass of a constant time of computing grows with workers, and what adds to it."""
    print(f"\nK = {c.k}, d = {c.d}, 1e9 rows a worker, 4 partitions each; seconds of a pass:\n")
    names = ("workers", "computing", "nothing goes wrong", "+ stragglers", "+ failures")
    print(heading(*names, "failures a pass", "scheduler of 0.1 ms"))
    calm = replace(cluster, spread=0.0, slow=0.0, between_failures=1e30)
    safe = replace(cluster, between_failures=1e30)
    found = []
    for workers in (10, 100, 1000, 10_000):
        rows, parts = 1e9 * workers, 4 * workers
        ideal = rows / workers * max(c.row, c.d * CELL / cluster.disk)
        times = [pass_of(c, how, rows, workers, parts) for how in (calm, safe, cluster)]
        quick = pass_of(replace(c, task=1e-4), cluster, rows, workers, parts)
        failures = ideal * workers / cluster.between_failures
        shown = " | ".join(f"{one:,.1f}" for one in times)
        print(f"| {workers:,} | {ideal:,.1f} | {shown} | {failures:.2g} | {quick:,.1f} |")
        found.append((workers, ideal / times[-1], ideal / quick))
    return found


def print_short_passes(c: Costs, cluster: Cluster) -> None:
    """Where a pass is so short that the tree and the scheduler matter: strong scaling."""
    print(f"\nK = {c.k}, d = {c.d}, 1e11 rows in all, one partition a worker; seconds of a pass:\n")
    names = ("workers", "computing", "tree and M-step", "pass", "the share of computing")
    print(heading(*names))
    for workers in (100, 1000, 10_000):
        ideal = 1e11 / workers * max(c.row, c.d * CELL / cluster.disk)
        only_tree = pass_of(replace(c, task=0.0), cluster, 1e-9, workers, workers)
        whole = pass_of(c, cluster, 1e11, workers, workers)
        share = 100 * ideal / whole
        print(f"| {workers:,} | {ideal:.2f} | {only_tree:.2f} | {whole:.2f} | {share:.0f}% |")


def draw(found: list[tuple[int, float, float]], path: Path) -> None:
    """The share of a pass that is spent computing."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    workers, now, quick = zip(*found, strict=True)
    axes.semilogx(workers, now, "o-", label="as measured")
    axes.semilogx(workers, quick, "s--", label="with 0.1 ms of the scheduler for a task")
    axes.set(xlabel="workers", ylabel="computing as a fraction of a pass", ylim=(0.0, 1.0))
    axes.legend()
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--picture", type=Path)
    wanted = parser.parse_args()
    task, cluster = seconds_of_a_task(), Cluster()
    costs = [measure(k, d, task, wanted.rounds) for k, d in SHAPES]
    print_measured(costs)
    print(f"\nAssumed: {cluster}; a partition has at most {LARGEST_PART:,} numbers by default")
    print_plan(costs, cluster, wanted.passes)
    shares = print_tree(costs[0], cluster)
    print_short_passes(costs[0], cluster)
    if wanted.picture is not None:
        draw(shares, wanted.picture)


if __name__ == "__main__":
    main()
