"""Annealed gradients against stepwise EM, on streams that do not change."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from mixfold.estimators.mixture import Mixture
from mixfold.experiments._pixel_study import PixelStudy
from mixfold.experiments._writing import write_markdown
from mixfold.experiments.annealing import (
    SGD,
    Result,
    gathered,
    judged,
    learned,
    methods,
    spread,
    titled,
    together,
)
from mixfold.experiments.grids import draw_grid
from mixfold.experiments.pixels import SETS, Pictures, Pixels
from mixfold.learners.em import EM

POLISHED, EM_12 = "SGD, then EM", "EM, 12 passes"

Method = Callable[..., Mixture]

# the bound that SGD and sEM reach
PUBLISHED = {
    "mnist": {SGD: 216.60, "sEM": 216.82},
    "fashion_mnist": {SGD: 234.59, "sEM": 222.95},
    "devanagari": {SGD: -14.65, "sEM": -13.46},
    "notmnist_10k": {SGD: -34.76, "sEM": -40.09},
    "fruits360_10c_32x32": {SGD: 11754.32, "sEM": 5483.00},
    "svhn_crop_5k": {SGD: 1329.83, "sEM": 1176.07},
    "isolet_part_1_5": {SGD: 354.21, "sEM": 354.55},
}


class SgdTable3(PixelStudy):
    """Table 3 of Gepperth and Pfülb: three epochs each, with EM on all rows as a measure."""

    name = "sgd-table3"
    sets = tuple(SETS)
    reps = 10

    def replicate(self, found: Pictures, reps: int, out: Path) -> list[Result]:
        return replicate(found, reps, out)

    def summarize(self, path: Path, results: list[Result]) -> None:
        write_summary(path, results)


def contest() -> dict[str, Method]:
    """The paper's two methods; EM with the same cap, from where SGD ends and from k-means++."""
    single = {name: partial(learned, learner=learner) for name, learner in methods().items()}
    whole = partial(learned, learner=EM(tol=0.0, max_iter=12))
    return {**single, POLISHED: polished, EM_12: whole}


def polished(x: Pixels, *, seed: int) -> Mixture:
    """Three epochs of SGD, one of EM."""
    begun = learned(x, methods()[SGD], seed)
    return learned(x, EM(tol=0.0, max_iter=1), seed, init=begun)


def replicate(found: Pictures, reps: int, out: Path) -> list[Result]:
    """All methods on one set, EM alone once; means of the first replication of SGD are drawn."""
    learners = contest()

    def one(method: str, rep: int) -> Result:
        began = time.thread_time()
        mixture = learners[method](found.learned, seed=rep)
        seconds = time.thread_time() - began
        if found.whole and method == SGD and rep == 0:
            draw_grid(out / f"sgd-table3-{found.name}.png", mixture.means_)
        common = {"set": found.name, "title": titled(found), "method": method, "replication": rep}
        return {**common, **judged(mixture, found.judged), "cpu_seconds": seconds}

    parts = [part for part in product(learners, range(reps)) if part[0] != EM_12 or part[1] == 0]
    return together(lambda part: one(*part), parts)


def write_summary(path: Path, results: list[Result]) -> None:
    """A line per set and method, the paper's bound beside it."""
    measures = ("bound", "log_likelihood", "responsibility", "used")
    bound, *others = (gathered(results, m, "set", "title", "method") for m in measures)
    lines = []
    for key, values in bound.items():
        name, title, method = key
        likelihood, responsibility, used = (float(np.mean(of[key])) for of in others)
        published = PUBLISHED[name].get(method)
        lines.append(
            [
                title,
                method,
                spread(values),
                "" if published is None else f"{published:.2f}",
                f"{likelihood:.2f}",
                f"{responsibility:.4f}",
                f"{used:.1f}",
            ]
        )
    header = ["data set", "method", "bound", "paper", "log-likelihood"]
    header += ["largest responsibility", "components in use"]
    write_markdown(path, header, lines)
