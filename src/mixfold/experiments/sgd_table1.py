"""Annealed gradients from different starts, and without annealing."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.experiments._pixel_study import PixelStudy
from mixfold.experiments._writing import write_markdown
from mixfold.experiments.annealing import (
    CAP,
    K,
    Result,
    gathered,
    learned,
    spread,
    titled,
    together,
    trial,
)
from mixfold.experiments.pixels import CLASSES, SETS, Pictures
from mixfold.initializers.uniform import Uniform
from mixfold.learners.annealed_sgd import AnnealedSGD
from mixfold.models.mixture_model import MixtureParams

# means of final log-likelihoods: radius 0.1, 0.3, 0.5, centroids of class 0, no annealing
PUBLISHED = {
    "mnist": (205.47, 205.46, 205.68, 205.37, 124.1),
    "fashion_mnist": (231.22, 231.58, 231.00, 229.59, 183.0),
    "devanagari": (-15.95, -15.76, -17.01, -22.07, -263.4),
    "notmnist_10k": (-48.41, -48.59, -48.32, -49.37, -203.8),
    "fruits360_10c_32x32": (12095.80, 12000.70, 12036.25, 10912.79, 331.2),
    "svhn_crop_5k": (1328.06, 1327.99, 1328.40, 1327.80, 863.2),
    "isolet_part_1_5": (354.34, 354.36, 354.36, 354.20, 201.5),
}
RADII = {f"radius {radius}": radius for radius in (0.1, 0.3, 0.5)}
CLASS_0, NO_ANNEALING = "class 0", "no annealing"
STARTS = (*RADII, CLASS_0, NO_ANNEALING)
DEFAULT, PRINTED = "default", "paper's"


class SgdTable1(PixelStudy):
    """Table 1 of Gepperth and Pfülb: classes 1 to 9, three epochs, five ways to begin."""

    name = "sgd-table1"
    sets = tuple(SETS)
    reps = 10

    def replicate(self, found: Pictures, reps: int, out: Path) -> list[Result]:
        return replicate(found, reps)

    def summarize(self, path: Path, results: list[Result]) -> None:
        write_summary(path, results)


def replicate(found: Pictures, reps: int) -> list[Result]:
    """All starts of all replications on one set."""
    first, rest = found.only(range(1)), found.only(range(1, CLASSES))

    def one(settings: str, start: str, rep: int) -> Result:
        common = {"set": found.name, "title": titled(rest), "settings": settings, "start": start}
        sgd = learner(settings, start)
        reached = trial(rest, sgd, rep, init=init(sgd, start, first, rep))
        return {**common, "replication": rep, **reached}

    return together(lambda part: one(*part), product((DEFAULT, PRINTED), STARTS, range(reps)))


def learner(settings: str, start: str) -> AnnealedSGD:
    """The learner; without annealing the bump has its last width from the beginning."""
    sgd = AnnealedSGD(cap=CAP)
    if settings == PRINTED:
        sgd = replace(sgd, epsilon=0.001, epsilon_end=0.001, sigma=2.0)
    return replace(sgd, sigma=sgd.sigma_end) if start == NO_ANNEALING else sgd


def init(sgd: AnnealedSGD, start: str, first: Pictures, rep: int) -> Any:
    """Where means begin: in a box around zero, or where one epoch of class 0 has left them."""
    if start != CLASS_0:
        return Uniform(RADII.get(start, 0.1))
    enough = np.resize(first.learned, (max(K, len(first.learned)), first.learned.shape[1]))
    params = learned(enough, replace(sgd, max_iter=1), rep).params_
    return MixtureParams(np.full_like(params.weights, 1.0 / len(params.weights)), params.components)


def write_summary(path: Path, results: list[Result]) -> None:
    """A line per set and start: the bound with both settings, the published one, and the rest."""
    keys, measures = ("set", "title", "start", "settings"), ("bound", "log_likelihood", "used")
    bound, likelihood, used = (gathered(results, m, *keys) for m in measures)
    lines = [
        [
            title,
            start,
            *(spread(bound[name, title, start, s]) for s in (DEFAULT, PRINTED)),
            f"{PUBLISHED[name][STARTS.index(start)]:.1f}",
            f"{np.mean(likelihood[name, title, start, DEFAULT]):.2f}",
            *(f"{np.mean(used[name, title, start, s]):.1f}" for s in (DEFAULT, PRINTED)),
        ]
        for name, title, start in dict.fromkeys(key[:3] for key in bound)
    ]
    header = ["data set", "start", "bound", f"bound, {PRINTED} settings", "published"]
    header += ["log-likelihood", "components in use", f"in use, {PRINTED} settings"]
    write_markdown(path, header, lines)
