"""A pass of EM over rows of mixed columns: the compiled kernel against the reference.

    python benchmarks/products.py [ROWS] [THREADS]

Three Gaussian, two Poisson, two categorical columns of five levels and one Bernoulli column, five
components; all cells, and 30% of them missing. The reference is measured on up to a million rows.
Then the processor time of a pass through `Mixture.fit`, of eight columns and of four times as many:
with 200 rows it is nearly all Python.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from _timing import passes_of_fit
from mixfold import Mixture
from mixfold.backends.threads import Threads
from mixfold.core.rows import Rows
from mixfold.core.value import replace
from mixfold.families.categorical import Categorical
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.product import Product
from mixfold.kernels.choice import kernel_for
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams
from mixfold.testing.families import example_mixture

PASSES, ROUNDS, K, MOST = 10, 5, 5, 1_000_000
MANY = 201


def seconds(work: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, float]:
    """The least of wall and of processor time."""
    found = []
    for _ in range(rounds):
        wall, processor = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - processor))
    return min(wall for wall, _ in found), min(processor for _, processor in found)


def mixed(times: int = 1) -> Product:
    """The product of eight columns, or of so many times as many."""
    kinds = ["gaussian"] * 3 + ["poisson"] * 2 + [Categorical(5)] * 2 + ["bernoulli"]
    factors: Any = dict(enumerate(kinds * times))
    return Product(factors)


def measure_passes(times: int, share: float, n: int) -> None:
    """Print the processor time of a pass of fit: that of many passes less that of one."""
    rng, family = np.random.default_rng(0), mixed(times)
    _, params, x = example_mixture(family, K, family.n_columns, n, rng)
    rows = np.where(rng.random(x.shape) < share, np.nan, x)

    def fit(passes: int) -> None:
        learner = EM(tol=0.0, max_iter=passes, accelerate=False)
        Mixture(mixed(times), K, learner=learner, init=params, n_threads=1).fit(rows)

    few, many = seconds(lambda: fit(1))[1], seconds(lambda: fit(MANY))[1]
    pass_of_fit = (many - few) / (MANY - 1)
    print(f"| {family.n_columns} | {share:.0%} | {n:,} | {pass_of_fit * 1e6:.0f} |")


def measure_kernel(kernel: Any, params: MixtureParams, rows: Rows, threads: int, what: str) -> None:
    """Print the time of a pass; that of the reference is measured once."""
    backend = Threads(kernel.model, threads, kernel)
    once = type(kernel) is ReferenceKernel
    sums = np.zeros(kernel.model.n_sums)
    wall, processor = seconds(lambda: backend.fold(params, rows, sums), 1 if once else ROUNDS)
    name = "reference" if once else "compiled"
    row = f"{name} kernel, {what}, n={len(rows):,}"
    print(f"| {row} | {wall * 1e3:.1f} | {processor * 1e3:.1f} |")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    threads = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng = np.random.default_rng(0)
    model, params, x = example_mixture(mixed(), K, 8, n, rng)
    holes = np.where(rng.random(x.shape) < 0.3, np.nan, x)
    print(f"{threads} threads\n\n| work | ms per pass | processor ms |\n|---|---|---|")
    incomplete = replace(model, family=with_missing(model.family))
    for one, rows, what in ((model, x, "all cells"), (incomplete, holes, "30% missing")):
        measure_kernel(kernel_for(one), params, Rows(rows), threads, what)
        measure_kernel(ReferenceKernel(one), params, Rows(rows[:MOST]), threads, what)
    learner = EM(tol=0.0, max_iter=PASSES, accelerate=False)
    fitted = Mixture(mixed(), K, learner=learner, random_state=0, n_threads=threads)
    wall = min(passes_of_fit(fitted, x).min() for _ in range(2))
    print(f"| Mixture.fit, all cells, n={n:,} | {wall * 1e3:.1f} | |")
    print("\n| columns | missing | rows | processor us per pass of fit |\n|---|---|---|---|")
    for times in (1, 4):
        for share in (0.0, 0.1, 0.4):
            for few in (200, 10_000):
                measure_passes(times, share, few)


if __name__ == "__main__":
    main()
