"""EM and TruncatedEM with many components: processor time of a pass, and held-out likelihood.

python benchmarks/truncated.py [passes] [crossover] [large] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from mixfold import EM, Gaussian, Mixture, TruncatedEM
from mixfold.models.mixture_model import MixtureParams

PASSES = (5, 10, 30)
HELD_OUT = 20_000


def clusters(n: int, d: int, k: int, spread: float, seed: int = 0) -> np.ndarray:
    """Rows of K clusters, whose centres have a standard deviation `spread` and they 0.4 to 1.2."""
    rng = np.random.default_rng(seed)
    centres, scale = spread * rng.normal(size=(k, d)), rng.uniform(0.4, 1.2, size=(k, d))
    label = rng.integers(k, size=n)
    return np.asarray(centres[label] + rng.normal(size=(n, d)) * scale[label])


def spoken_digits(folder: Path) -> np.ndarray:
    """The 13 coefficients of frames of spoken digits, shuffled."""
    from pyarrow import parquet

    table = parquet.read_table(folder / "spoken_arabic_digit.parquet")
    x = np.column_stack([table[i].to_numpy() for i in range(13)]).astype(np.float64)
    return np.asarray(np.random.default_rng(0).permutation(x))


def starting_at(x: np.ndarray, k: int, family: Gaussian) -> MixtureParams:
    """Components around rows drawn at random."""
    rng = np.random.default_rng(1)
    centres, some = x[rng.choice(len(x), k, replace=False)], x[:20_000]
    return MixtureParams(np.full(k, 1.0 / k), family.around(centres, some, np.ones(len(some))))


def fitted(
    x: np.ndarray, family: Gaussian, init: MixtureParams, learner: Any
) -> tuple[Mixture, float]:
    """A fit on one thread, and the processor seconds that it took."""
    k = len(init.weights)
    model = Mixture(family, k, learner=learner, init=init, n_threads=1)
    began = time.process_time()
    model.fit(x)
    return model, time.process_time() - began


def passes(name: str, x: np.ndarray, k: int, covariance: str) -> None:
    """Processor time and held-out gain after several numbers of passes."""
    family = Gaussian(covariance, floor=1e-6)
    x, test = x[:-HELD_OUT], x[-HELD_OUT:]
    one = Mixture(family, 1, learner="em", random_state=0).fit(x).score(test)
    init = starting_at(x, k, family)
    rivals = {"EM": EM, "TruncatedEM": TruncatedEM}
    for rival, learner in rivals.items():
        _, first = fitted(x, family, init, learner(tol=0.0, max_iter=1))
        cells = []
        for count in PASSES:
            model, seconds = fitted(x, family, init, learner(tol=0.0, max_iter=count))
            cells += [f"{seconds:.1f}", f"{model.score(test) - one:.3f}"]
        per_pass = (seconds - first) / (PASSES[-1] - 1)
        work = f"{name}, n={len(x):,} d={x.shape[1]} K={k:,} {covariance}"
        print(f"| {work} | {rival} | {first:.2f} | {per_pass:.3f} | {' | '.join(cells)} |")
        sys.stdout.flush()


def crossover(d: int, covariance: str) -> None:
    """Processor time of fits until both have converged alike, for several numbers of components."""
    for k in (16, 32, 64, 128, 256, 512):
        x = clusters(200 * k + HELD_OUT, d, k, 3.0)
        x, test = x[:-HELD_OUT], x[-HELD_OUT:]
        family = Gaussian(covariance, floor=1e-6)
        init = starting_at(x, k, family)
        cells = []
        for learner in (
            EM(tol=1e-4, criterion="step"),
            EM(tol=1e-4, criterion="step", accelerate=True),
            TruncatedEM(),
        ):
            model, seconds = fitted(x, family, init, learner)
            cells += [f"{seconds:.2f}", f"{model.score(test):.3f}"]
        print(f"| n={len(x):,} d={d} K={k} {covariance} | {' | '.join(cells)} |")
        sys.stdout.flush()


def memory() -> float:
    """Largest memory of the process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def large(covariance: str) -> None:
    """K=10,000 on a million rows of 32 columns, from rows drawn at random."""
    n, d, k = 1_000_000, 32, 10_000
    x = clusters(n, d, k, 3.0).astype(np.float32)
    family = Gaussian(covariance, floor=1e-6)
    init = starting_at(x.astype(np.float64), k, family)
    rows = x.nbytes / 1e6
    began = time.process_time(), time.perf_counter()
    learner = TruncatedEM(max_iter=30)
    model = Mixture(family, k, learner=learner, init=init).fit(x)
    cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    print(
        f"{covariance}: {model.n_iter_} passes, {cpu:.0f} s of processor, {wall:.0f} s, bound "
        f"{model.lower_bound_:.3f}, {memory():.0f} MB in all with {rows:.0f} MB of rows"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["passes"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--covariance", default="full")
    given = parser.parse_args()
    if "passes" in given.what:
        heads = "".join(f" {p} passes, s | held-out gain |" for p in PASSES)
        print(f"| work | learner | first pass, s | later pass, s |{heads}")
        print("|---|---|---|---|" + "---|---|" * len(PASSES))
        n = 100_000 + HELD_OUT
        passes("overlapping clusters", clusters(n, 10, 1000, 2.0), 1000, "full")
        passes("separate clusters", clusters(n, 10, 1000, 10.0), 1000, "full")
        if given.data is not None:
            passes("spoken digits", spoken_digits(given.data)[:n], 1000, "full")
    if "crossover" in given.what:
        crossover(10, "full")
        crossover(10, "diag")
    if "large" in given.what:
        large(given.covariance)


if __name__ == "__main__":
    main()
