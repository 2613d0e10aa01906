"""Seconds of learner="auto" and of one scikit-learn fit at tol 1e-5, from 10,000 rows on.

    MIXFOLD_DATA=FOLDER python benchmarks/starts_time.py [--rounds 3] [--threads 1] [--processor]

The rows are those of `starts_data.py`. Both fit in turn in the same process, and the best of the
rounds counts. Without `--threads` both use as many threads as they use by default. `--processor`
measures processor time, for one thread on a machine with other work.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="fits of each, in turn")
    parser.add_argument("--threads", type=int, help="of both; default their own")
    parser.add_argument("--processor", action="store_true", help="processor time, not wall time")
    parser.add_argument("--components", type=int, nargs="+", default=[3, 10, 30])
    parser.add_argument("--sets", nargs="+", help="names of tables; default all")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    if given.threads:  # before NumPy is imported
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = str(given.threads)
    from sklearn.mixture import GaussianMixture as Original

    from _tables import fitted, heading
    from _timing import best_alternating
    from mixfold import Gaussian, Mixture
    from starts_data import MOST_ROWS, sized_tasks, tables

    found = sized_tasks(given.sets or tables(all_columns=False), 1, MOST_ROWS)
    chosen = [task for task in found if task.n >= 10_000 and task.k in given.components]
    print(heading("set", "rows", "d", "shape", "K", "auto s", "one scikit-learn fit s", "ratio"))
    faster, clock = 0, time.process_time if given.processor else time.perf_counter
    for task in chosen:
        train, _ = task.rows()
        ours = Mixture(Gaussian(task.shape), task.k, random_state=0, n_threads=given.threads)
        theirs = Original(
            task.k, covariance_type=task.shape, tol=1e-5, max_iter=1000, random_state=0
        )
        rivals: dict[str, Callable[[], object]] = {
            "auto": partial(fitted, ours, train),
            "scikit-learn": partial(fitted, theirs, train),
        }
        best = best_alternating(rivals, given.rounds, clock)
        ratio = best["auto"] / best["scikit-learn"]
        faster += ratio < 1.0
        print(
            f"| {task.name} | {len(train)} | {task.d} | {task.shape} | {task.k} "
            f"| {best['auto']:.2f} | {best['scikit-learn']:.2f} | {ratio:.2f} |",
            flush=True,
        )
    print(f"\nauto takes less time in {faster} of {len(chosen)} cells.")


if __name__ == "__main__":
    main()
