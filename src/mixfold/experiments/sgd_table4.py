"""Annealed gradients with more and with fewer components."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np

from mixfold.experiments._pixel_study import PixelStudy
from mixfold.experiments._writing import write_markdown
from mixfold.experiments.annealing import (
    CAP,
    Result,
    gathered,
    spread,
    titled,
    together,
    trial,
)
from mixfold.experiments.pixels import Pictures
from mixfold.learners.annealed_sgd import AnnealedSGD

EPOCHS = 50
SIDES = (5, 6, 7, 8, 9)
PUBLISHED = {
    "mnist": (205.4, 215.2, 222.7, 229.6, 235.1),
    "fashion_mnist": (215.9, 250.5, 266.4, 273.9, 281.8),
    "devanagari": (-15.7, -0.7, 20.9, 24.3, 66.7),
    "fruits360_10c_32x32": (12095.7, 13003.0, 12953.2, 12866.6, 13193.7),
}


class SgdTable4(PixelStudy):
    """Table 4 of Gepperth and Pfülb: fifty epochs with 25 to 81 components."""

    name = "sgd-table4"
    sets = tuple(PUBLISHED)
    reps = 1

    def replicate(self, found: Pictures, reps: int, out: Path) -> list[Result]:
        return replicate(found, reps)

    def summarize(self, path: Path, results: list[Result]) -> None:
        write_summary(path, results)


def replicate(found: Pictures, reps: int) -> list[Result]:
    """All numbers of components on one set; the largest first, so that cores end together."""
    # so many epochs allow smaller steps than three do
    sgd = AnnealedSGD(cap=CAP, max_iter=EPOCHS, epsilon_end=0.001)

    def one(side: int, rep: int) -> Result:
        common = {"set": found.name, "title": titled(found), "side": side, "replication": rep}
        return {**common, **trial(found, sgd, rep, k=side**2)}

    return together(lambda part: one(*part), product(SIDES[::-1], range(reps)))


def write_summary(path: Path, results: list[Result]) -> None:
    """A line per set: the bound for every number of components, the paper's in brackets."""
    bound = gathered(results, "bound", "set", "title", "side")
    likelihood = gathered(results, "log_likelihood", "set", "title", "side")
    lines = []
    for name, title in dict.fromkeys((r["set"], r["title"]) for r in results):
        cells = [
            f"{spread(bound[name, title, side], 1)} ({published:.1f})"
            for side, published in zip(SIDES, PUBLISHED[name], strict=True)
        ]
        true = [f"{np.mean(likelihood[name, title, side]):.1f}" for side in SIDES]
        lines += [[title, "bound", *cells], [title, "log-likelihood", *true]]
    write_markdown(path, ["data set", "measure", *(f"K = {side**2}" for side in SIDES)], lines)
