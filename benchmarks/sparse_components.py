"""How many of 15 components `OnlineVB(sparse=True)` uses for 3 to 8 separated clusters.

    python benchmarks/sparse_components.py

Centres are uniform in a cube of 2 to 4 columns and at least 6 standard deviations apart. Prints how
often the number of components above 1% differs from the number of clusters, by the difference, and
the numbers for Old Faithful in eight random orders of its rows, with 10 components.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from mixfold import Mixture, OnlineVB, datasets

LEARNERS = (
    OnlineVB(sparse=True),
    OnlineVB(form="streaming", sparse=True),
    OnlineVB(form="streaming", sparse=True, batch_size=256),
)


def clusters(number: int, d: int, n: int, seed: int) -> np.ndarray:
    """Rows of clusters with unit variance."""
    rng = np.random.default_rng(seed)
    while True:
        centres = rng.uniform(-1.0, 1.0, size=(number, d)) * 6.0 * number ** (1.0 / d)
        apart = np.sqrt(np.square(centres[:, None] - centres).sum(axis=2)) + 99.0 * np.eye(number)
        if apart.min() > 6.0:
            return np.asarray(centres[rng.integers(number, size=n)] + rng.normal(size=(n, d)))


def tables() -> Iterator[tuple[int, int, np.ndarray]]:
    """Numbers of clusters, seeds and rows."""
    for n in (1_000, 4_000):
        for number in range(3, 9):
            for seed in range(4):
                yield number, seed, clusters(number, 2 + seed % 3, n, seed)


def used(learner: OnlineVB, x: np.ndarray, k: int, seed: int, rows: int) -> int:
    """Components above 1% after a stream of blocks of rows."""
    model = Mixture(n_components=k, learner=learner, random_state=seed, n_threads=1)
    for first in range(0, len(x), rows):
        model.partial_fit(x[first : first + rows])
    return int((model.weights_ > 0.01).sum())


def main() -> None:
    faithful = np.asarray(datasets.load_faithful())
    for learner in LEARNERS:
        found = Counter(used(learner, x, 15, s, 100) - number for number, s, x in tables())
        orders = [np.random.default_rng(seed).permutation(272) for seed in range(8)]
        real = [used(learner, faithful[order], 10, i, 50) for i, order in enumerate(orders)]
        print(learner, dict(sorted(found.items())), "Old Faithful:", real, flush=True)


if __name__ == "__main__":
    main()
