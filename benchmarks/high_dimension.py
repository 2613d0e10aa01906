"""Images of 30,000 pixels, one per step, that are never in memory together; and of 784 pixels.

python benchmarks/high_dimension.py
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from _timing import best_alternating
from mixfold import AnnealedSGD, Gaussian, Mixture

HEIGHT, WIDTH, K = 150, 200, 64
ROWS, BLOCK, PASSES = 300, 10, 3


class Pictures:
    """Smooth random patterns in [0, 1], the same in every pass."""

    def __iter__(self) -> Iterator[np.ndarray]:
        rng = np.random.default_rng(0)
        for _ in range(ROWS // BLOCK):
            yield np.stack([pattern(rng, HEIGHT, WIDTH) for _ in range(BLOCK)])


def pattern(rng: np.random.Generator, height: int, width: int, waves: int = 4) -> np.ndarray:
    y, x = (np.linspace(0.0, 1.0, m, dtype=np.float32) for m in (height, width))
    (a, b), phase = rng.uniform(0.0, 9.0, (2, waves, 1)), rng.uniform(0.0, 6.3, (2, waves, 1))
    sides = np.cos(a * y + phase[0]), np.cos(b * x + phase[1])
    picture: np.ndarray = np.einsum("wi,wj->ij", *sides).astype(np.float32).ravel()
    picture = 0.5 + picture / waves
    return picture.clip(0.0, 1.0)


def resident() -> int:
    """Bytes of memory in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def rows_per_second(batch_size: int, side: int = 28, n: int = 5000) -> float:
    """Of small images, on one thread, in a pass of `fit`."""
    rng = np.random.default_rng(0)
    x = np.stack([pattern(rng, side, side) for _ in range(n)])

    def fitted(passes: int) -> Callable[[], object]:
        learner = AnnealedSGD(batch_size=batch_size, max_iter=passes)
        model = Mixture(Gaussian("diag"), K, learner=learner, random_state=0, n_threads=1)
        return lambda: model.fit(x)

    best = best_alternating({"one": fitted(1), "three": fitted(3)}, 3)
    return 2 * n / (best["three"] - best["one"])


def main() -> None:
    learner = AnnealedSGD(max_iter=PASSES)
    model = Mixture(Gaussian("diag"), K, learner=learner, random_state=0, n_threads=1)
    for _ in Pictures():
        pass
    before, began = resident(), time.perf_counter()
    model.fit(Pictures())
    seconds = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    began = time.perf_counter()
    for _ in range(PASSES):
        for _ in Pictures():
            pass
    making = time.perf_counter() - began
    finite = np.isfinite(model.history_.table).all() and np.isfinite(model.means_).all()
    print(f"d={HEIGHT * WIDTH:,}, K={K}, {PASSES} passes over {ROWS} rows, one per step")
    print(f"memory grown by {grown / 1e6:.0f} MB at most (wanted 100)")
    print(
        f"{PASSES * ROWS / seconds:.0f} rows/s, {PASSES * ROWS / making:.0f} of making them alone"
    )
    print(f"every number is finite: {bool(finite)}")
    for size in (1, 100):
        print(f"d=784, K={K}, batches of {size}: {rows_per_second(size):,.0f} rows/s")


if __name__ == "__main__":
    main()
