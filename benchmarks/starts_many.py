"""Seconds, memory and quality of initial parameters of many components.

    MIXFOLD_DATA=FOLDER python benchmarks/starts_many.py SOURCE,SHAPE,K,ROWS[,COLUMNS] ...

SOURCE is a table of the data folder, "mnist pc" or "mixture", random clusters with unequal weights
and deviations, as many as components (`--clusters`: another number), in so many columns. Of a
table the rows are shuffled, and a third as many are held out. The seconds are of one thread of the
processor, from a call of `fit` until there are initial parameters. The gain is that of held-out
rows over a single Gaussian, after 15 more passes of EM, which `--only-time` leaves out. The memory
is what the peak of the process grows by while initial parameters are searched for.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

from _tables import heading, single, table  # noqa: E402
from mixfold import Gaussian, Mixture  # noqa: E402
from mixfold.fitting.initialization import SampledParams  # noqa: E402
from mixfold.learners.em import EM  # noqa: E402

PASSES, TOGETHER = 15, 50_000


class _FoundError(Exception):
    """Ends a fit that has its initial parameters."""


def clusters(k: int, d: int, n: int) -> np.ndarray:
    """Rows of k clusters that overlap little, drawn some at a time."""
    rng = np.random.default_rng(1)
    distance = 4.0 * max(1.0, k ** (1.0 / d) / 1.5)
    means = rng.normal(size=(k, d)) * distance / np.sqrt(2.0 * d)
    deviations, weights = rng.uniform(0.5, 1.5, size=(k, d)), rng.dirichlet(np.full(k, 3.0))
    x = np.empty((n, d))
    for first in range(0, n, TOGETHER):
        part = x[first : first + TOGETHER]
        label = rng.choice(k, len(part), p=weights)
        part[:] = means[label] + deviations[label] * rng.normal(size=part.shape)
    return x


def initial(x: np.ndarray, shape: str, k: int, seed: int) -> tuple[Any, float]:
    """Initial parameters of a fit, and the seconds they took."""
    found, original, begin = [], SampledParams.params, time.process_time()

    def params(self: SampledParams, number: int) -> Any:
        found.append((original(self, number), time.process_time() - begin))
        raise _FoundError

    SampledParams.params = params  # type: ignore[method-assign]
    try:
        Mixture(Gaussian(shape), k, n_threads=1, random_state=seed).fit(x)
    except _FoundError:
        pass
    finally:
        SampledParams.params = original  # type: ignore[method-assign]
    return found[0]


def measure(text: str, given: argparse.Namespace) -> str:
    name, shape, k_text, n_text, *rest = text.split(",")
    k, n = int(k_text), int(float(n_text))
    more = 0 if given.only_time else n // 3
    if name == "mixture":
        every = clusters(given.clusters or k, int(rest[0]), n + more)
    else:
        every = table(name)
        every = every[np.random.default_rng(0).permutation(len(every))[: n + more]]
    x, held = every[: len(every) - more], every[len(every) - more :]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    params, seconds = initial(x, shape, k, given.seed)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    gained = ""
    if more:
        model = Mixture(Gaussian(shape), k, learner=EM(max_iter=PASSES, tol=0.0), init=params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has not converged
            gained = f"{(model.fit(x).score_samples(held) - single(shape, x, held)).mean():.3f}"
    size = f"{name} | {shape} | {k} | {len(x)} | {x.shape[1]}"
    return f"| {size} | {seconds:.1f} | {memory} | {gained} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cells", nargs="+", help="SOURCE,SHAPE,K,ROWS[,COLUMNS]")
    parser.add_argument("--clusters", type=int, help="of a mixture; default K")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only-time", action="store_true")
    given = parser.parse_args()
    print(heading("rows", "shape", "K", "n", "d", "seconds of start", "MB", "held-out gain, nats"))
    for text in given.cells:
        print(measure(text, given), flush=True)


if __name__ == "__main__":
    main()
