"""Clusterings by annealed gradients and stepwise EM."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixfold.experiments._pixel_study import PixelStudy
from mixfold.experiments._writing import write_markdown
from mixfold.experiments.annealing import (
    SEM,
    SGD,
    Result,
    gathered,
    learned,
    methods,
    spread,
    titled,
    together,
)
from mixfold.experiments.pixels import Pictures, Pixels

# Davies-Bouldin of SGD and sEM, Dunn index of SGD and sEM
PUBLISHED = {
    "mnist": (2.50, 2.47, 0.18, 0.16),
    "fashion_mnist": (2.06, 2.20, 0.20, 0.19),
    "devanagari": (2.60, 2.64, 0.33, 0.27),
    "notmnist_10k": (2.30, 2.12, 0.15, 0.14),
    "svhn_crop_5k": (2.34, 2.41, 0.15, 0.15),
}
STARTS = {SGD: "auto", SEM: "k-means++"}
BLOCK = 1000
FEW = 1000  # both measures depend on the number of rows; with so many they are near the paper's


class SgdTable2(PixelStudy):
    """Table 2 of Gepperth and Pfülb: Davies-Bouldin scores and Dunn indices of held-out rows."""

    name = "sgd-table2"
    sets = tuple(PUBLISHED)
    reps = 5

    def replicate(self, found: Pictures, reps: int, out: Path) -> list[Result]:
        return replicate(found, reps)

    def summarize(self, path: Path, results: list[Result]) -> None:
        write_summary(path, results)


def replicate(found: Pictures, reps: int) -> list[Result]:
    """Both methods on one set: sEM from k-means++, as in the paper, SGD from near zero."""
    learners = methods()
    parts = list(product(learners, range(reps)))

    def label(part: tuple[str, int]) -> np.ndarray:
        method, rep = part
        mixture = learned(found.learned, learners[method], rep, init=STARTS[method])
        return np.asarray(mixture.predict(found.judged))

    labels = together(label, parts)
    return [
        {
            "set": found.name,
            "title": titled(found),
            "rows": rows,
            "method": method,
            "replication": rep,
            "davies_bouldin": davies_bouldin,
            "dunn": dunn,
        }
        for rows in dict.fromkeys((min(FEW, len(found.judged)), len(found.judged)))
        for (method, rep), davies_bouldin, dunn in measured(found.judged[:rows], parts, labels)
    ]


def measured(
    x: Pixels, parts: list[tuple[str, int]], labels: list[np.ndarray]
) -> Iterator[tuple[tuple[str, int], float, float]]:
    """Both measures of every labeling, by the first rows of it."""
    from sklearn.metrics import davies_bouldin_score

    first = [of[: len(x)] for of in labels]
    for part, of, dunn in zip(parts, first, dunn_indices(x, first), strict=True):
        yield part, float(davies_bouldin_score(x, of)), dunn


def dunn_indices(x: Pixels, labelings: list[np.ndarray]) -> list[float]:
    """Least distance between rows of two clusters over the largest within one, per labeling."""
    apart, across = np.full(len(labelings), np.inf), np.zeros(len(labelings))
    for first in range(0, len(x), BLOCK):
        squares = squared_distances(x[first : first + BLOCK], x)
        for i, labels in enumerate(labelings):
            same = labels[first : first + BLOCK, None] == labels
            apart[i] = min(apart[i], squares.min(initial=np.inf, where=~same))
            across[i] = max(across[i], squares.max(initial=0.0, where=same))
    return [float(ratio) for ratio in np.sqrt(np.maximum(apart, 0.0) / across)]


def squared_distances(a: Pixels, b: Pixels) -> NDArray[np.float32]:
    """|a_i - b_j|^2."""
    squares = np.square(a).sum(axis=1)[:, None] + np.square(b).sum(axis=1)
    return np.asarray(squares - 2.0 * (a @ b.T), dtype=np.float32)


def write_summary(path: Path, results: list[Result]) -> None:
    """A line per set and number of rows: both measures of both methods, the paper's in brackets."""
    measures, keys = ("davies_bouldin", "dunn"), ("set", "title", "rows", "method")
    found = [gathered(results, measure, *keys) for measure in measures]
    lines = []
    for name, title, rows in dict.fromkeys(key[:3] for key in found[0]):
        values = [of[name, title, rows, method] for of in found for method in STARTS]
        pairs = zip(values, PUBLISHED[name], strict=True)
        lines.append([title, f"{rows:,}", *(f"{spread(v)} ({p:.2f})" for v, p in pairs)])
    names = [f"{m}, {method}" for m in ("Davies-Bouldin", "Dunn") for method in STARTS]
    write_markdown(path, ["data set", "rows judged", *names], lines)
