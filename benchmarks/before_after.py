"""Two checkouts with their compiled modules, measured in turn through the public API.

python benchmarks/before_after.py --before PATH --after PATH [--only WORD] [--rounds N]
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

Work = Callable[[], float]
"""Makes a measurement and returns its seconds per unit."""

THREADS, PASSES, ENOUGH = 2, 6, 0.1
SPELLINGS = {"max_iter": ("max_iter", "max_passes", "passes")}  # oldest names last
GAUSSIANS = [
    (1_000_000, 2, 3, "full"),
    (1_000_000, 4, 3, "full"),
    (500_000, 10, 8, "full"),
    (200_000, 16, 10, "full"),
    (100_000, 50, 10, "full"),
    (60_000, 784, 64, "diag"),
    (100_000, 50, 10, "diag"),
    (200_000, 16, 10, "spherical"),
]
BY_ROW = ["OnlineEM", "RecursiveEM", "OnlineKMLE", "MomentMatching", "AnnealedSGD"]
STORING = ["IncrementalEM", "VarianceReducedEM", "FastIncrementalEM"]


def best(work: Callable[[], object], units: int, clock: Callable[[], float]) -> float:
    """Seconds per unit of the fastest of the calls that fit into a short while."""
    found, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < ENOUGH:
        first = clock()
        work()
        found = min(found, clock() - first)
    return found / units


def one_thread(work: Callable[[], object], units: int) -> Work:
    """Processor time per unit, which other programs disturb less."""
    return partial(best, work, units, time.process_time)


def public(name: str, **options: Any) -> Any:
    """An object of a class of the package, with options as the checkout spells them."""
    import mixfold

    made = getattr(mixfold, name)
    known = {field.name for field in fields(made)}
    spelled = {}
    for option, given in options.items():
        names = SPELLINGS.get(option, (option,))
        spelled[next(name for name in names if name in known)] = given
    return made(**spelled)


def clusters(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows around centres."""
    rng = np.random.default_rng(0)
    centers = 2.0 * rng.normal(size=(k, d))
    return centers[rng.integers(k, size=n)] + rng.normal(size=(n, d)), centers


def mixture(family: Any, k: int, learner: Any, **options: Any) -> Any:
    from mixfold import Mixture

    given = {"random_state": 0, "n_threads": 1} | options
    return Mixture(family, k, learner=learner, **given)


def passes_of_fit(model: Any, x: np.ndarray) -> float:
    """Seconds of the fastest pass but the first, which checks the rows too."""
    return float(np.diff(model.fit(x).history_.time).min())


def gaussian_pass(
    n: int, d: int, k: int, covariance: str, dtype: str = "float64", learner: str = "EM"
) -> Work:
    from mixfold.models.mixture_model import MixtureParams

    x, centers = clusters(n, d, k)
    family = public("Gaussian", covariance=covariance)
    example = family.example(k, d, np.random.default_rng(0))
    others = list(vars(example).values())[1:]  # the first are means
    params = MixtureParams(np.full(k, 1.0 / k), type(example)(centers, *others))
    rule = public(learner, tol=0.0, max_iter=PASSES)
    model = mixture(family, k, rule, init=params, n_threads=THREADS)
    return partial(passes_of_fit, model, x.astype(dtype))


def counts_pass(family: str, n: int = 1_000_000, k: int = 3) -> Work:
    rng = np.random.default_rng(0)
    rates = np.array([1.0, 5.0, 20.0])[rng.integers(k, size=n)]
    x = rng.poisson(rates) if family == "Poisson" else rng.exponential(rates)
    learner = public("EM", tol=0.0, max_iter=PASSES)
    model = mixture(public(family), k, learner, n_threads=THREADS)
    return partial(passes_of_fit, model, x[:, None].astype(float))


def storing_pass(learner: str) -> Work:
    x, _ = clusters(50_000, 2, 3)
    model = mixture("gaussian", 3, public(learner, max_iter=PASSES))

    def fit() -> float:
        history = model.fit(x).history_
        return float(np.ptp(history.time) / np.ptp(history.rows))

    return fit


def stream(learner: Any, d: int = 2, k: int = 3, covariance: str = "full") -> Any:
    """A model that has begun, and rows."""
    x, _ = clusters(20_000, d, k)
    model = mixture(public("Gaussian", covariance=covariance), k, learner)
    return model.partial_fit(x), x


def mini_batches(size: int, d: int = 2, k: int = 3) -> Work:
    model, x = stream(public("MiniBatchEM", batch_size=size), d, k)
    return one_thread(lambda: model.partial_fit(x), len(x) // size)


def mini_batches_of_fit(size: int) -> Work:
    x, _ = clusters(20_000, 2, 3)
    model = mixture("gaussian", 3, public("MiniBatchEM", batch_size=size, max_iter=4))
    return one_thread(lambda: model.fit(x), 4 * len(x) // size)


def rows_in_many(learner: str, d: int = 2, k: int = 3, covariance: str = "full") -> Work:
    model, x = stream(public(learner), d, k, covariance)
    return one_thread(lambda: model.partial_fit(x), len(x))


def rows_in_calls(method: str, calls: int, learner: Any = "online-em") -> Work:
    model, x = stream(learner, 4, 3)
    call, rows = getattr(model, method), cycle(x if method == "learn_one" else x[:, None])

    def work() -> None:
        for _ in range(calls):
            call(next(rows))

    return one_thread(work, calls)


def scores(n: int, calls: int) -> Work:
    x, _ = clusters(n, 4, 3)
    model = mixture("gaussian", 3, public("EM", max_iter=2), n_threads=THREADS)
    model.fit(np.tile(x, (50, 1)) + 0.1 if n < 50 else x)

    def work() -> None:
        for _ in range(calls):
            model.score_samples(x)

    return partial(best, work, calls, time.perf_counter) if n > 1e5 else one_thread(work, calls)


def start() -> Work:
    x, _ = clusters(20_000, 10, 20)
    model = mixture("gaussian", 20, public("EM", max_iter=1), init="k-means++")
    return one_thread(lambda: model.fit(x), 1)


def file(method: str) -> Work:
    import mixfold

    x, _ = clusters(2_000, 10, 8)
    model = mixture("gaussian", 8, "em").fit(x)
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "model.mixfold"
    model.save(path)
    calls = {"save": lambda: model.save(path), "load": lambda: mixfold.load(path)}

    def work(kept: Any = folder) -> None:  # the folder lasts as long as the function
        calls[method]()

    return partial(best, work, 1, time.process_time)


CASES: dict[str, Callable[[], Work]] = {
    **{
        f"pass of fit, n={n:,} d={d} K={k} {covariance}": partial(
            gaussian_pass, n, d, k, covariance
        )
        for n, d, k, covariance in GAUSSIANS
    },
    **{
        f"pass of fit, n={n:,} d={d} K={k} {covariance} float32": partial(
            gaussian_pass, n, d, k, covariance, "float32"
        )
        for n, d, k, covariance in GAUSSIANS[:4]
    },
    "pass of fit, Poisson": partial(counts_pass, "Poisson"),
    "pass of fit, exponential": partial(counts_pass, "Exponential"),
    "pass of fit, k-MLE": partial(gaussian_pass, 200_000, 4, 3, "full", learner="KMLE"),
    **{f"row of fit, {name}": partial(storing_pass, name) for name in STORING},
    **{f"update, mini-batch of {n:,}": partial(mini_batches, n) for n in (100, 1_000, 10_000)},
    "update, mini-batch of 100, d=10 K=8": partial(mini_batches, 100, 10, 8),
    "update, mini-batch of 100 in fit": partial(mini_batches_of_fit, 100),
    **{f"row of many, {name}": partial(rows_in_many, name, covariance="diag") for name in BY_ROW},
    "row of many, OnlineEM full": partial(rows_in_many, "OnlineEM"),
    "row of many, OnlineEM full d=10 K=8": partial(rows_in_many, "OnlineEM", 10, 8),
    "row of many, MomentMatching full": partial(rows_in_many, "MomentMatching"),
    "learn_one": partial(rows_in_calls, "learn_one", 1_000),
    "partial_fit of one row": partial(rows_in_calls, "partial_fit", 50),
    "score_samples of one row": partial(scores, 1, 100),
    "score_samples of 1,000 rows": partial(scores, 1_000, 50),
    "score_samples of 1,000,000 rows": partial(scores, 1_000_000, 1),
    "k-means++ start and a pass": start,
    "save": partial(file, "save"),
    "load": partial(file, "load"),
}


def serve(tree: Path) -> None:
    """Answer the name of a case with its seconds per unit, line by line."""
    sys.path.insert(0, str(tree / "src"))
    import mixfold

    if not Path(mixfold.__file__).is_relative_to(tree):
        sys.exit(f"mixfold is imported from {mixfold.__file__}: uninstall it, or use its checkout")
    __import__("mixfold._native")
    known, work = "", None
    for line in sys.stdin:
        if line.strip() != known:
            work = None
            gc.collect()
            known, work = line.strip(), CASES[line.strip()]()
        assert work is not None
        print(work(), flush=True)


class Checkout:
    """A process that measures one checkout."""

    def __init__(self, tree: Path) -> None:
        command = [sys.executable, "-W", "ignore", __file__, "--serve", str(tree.resolve())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, case: str) -> float:
        """Of one measurement, per unit."""
        to, answers = self._process.stdin, self._process.stdout
        assert to is not None
        assert answers is not None
        to.write(case + "\n")
        to.flush()
        return float(answers.readline())


def shown(seconds: float) -> str:
    unit, factor = next(
        (u, f) for u, f in (("ms", 1e3), ("us", 1e6), ("ns", 1e9)) if seconds * f >= 1
    )
    return f"{seconds * factor:.3g} {unit}"


def compare(before: Path, after: Path, only: str, rounds: int) -> None:
    trees = [Checkout(before), Checkout(after)]
    print("| work | before | after | after / before |\n|---|---|---|---|")
    for case in (name for name in CASES if only in name):
        found = [[tree.seconds(case) for tree in trees] for _ in range(rounds)]
        least = np.min(found, axis=0)
        print(f"| {case} | {shown(least[0])} | {shown(least[1])} | {least[1] / least[0]:.2f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--after", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of cases")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
    else:
        compare(given.before, given.after, given.only, given.rounds)
