"""float32 against float64, and the one-parameter families against the NumPy reference.

python benchmarks/kernels.py
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from _timing import best_alternating
from em_iteration import THREADS, example, ours
from mixfold.backends.threads import Threads
from mixfold.core.family import Family
from mixfold.core.rows import Rows
from mixfold.families.exponential import Exponential
from mixfold.families.mean_params import MeanParams
from mixfold.families.poisson import Poisson
from mixfold.kernels.reference import ReferenceKernel
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def narrow_against_wide() -> None:
    print("| work | float64 ms | float32 ms | ratio (wanted 1.5x) |\n|---|---|---|---|")
    for n, d, k in ((1_000_000, 2, 3), (1_000_000, 4, 3), (500_000, 10, 8), (200_000, 16, 10)):
        x, params = example(n, d, k, "full")
        rivals: dict[str, Callable[[], object]] = {
            "wide": ours(x, params, "full"),
            "narrow": ours(x.astype(np.float32), params, "full"),
        }
        best = best_alternating(rivals, 5)
        wide, narrow = best["wide"] * 1e3, best["narrow"] * 1e3
        print(f"| n={n:,} d={d} K={k} | {wide:.1f} | {narrow:.1f} | {wide / narrow:.2f}x |")


def iteration(backend: Threads, params: MixtureParams, x: np.ndarray) -> Callable[[], object]:
    """One E and M step of a kernel that no user can choose."""
    learner = EM(tol=0.0)
    state = learner.init(backend, params)

    def iterate() -> None:
        after, _ = learner.step(backend, state, Rows(x))
        learner.end_pass(backend, after)

    return iterate


def native_against_reference() -> None:
    print("\n| work | native ms | NumPy ms | ratio (wanted 15x) |\n|---|---|---|---|")
    rng = np.random.default_rng(0)
    n, means = 10_000_000, np.array([[1.0], [5.0], [12.0]])
    labels = rng.choice(3, size=n, p=[0.8, 0.1, 0.1])
    families: list[Family] = [Poisson(), Exponential()]
    for family in families:
        x = family.sample(MeanParams(means), labels, rng)
        params = MixtureParams(np.full(3, 1 / 3), MeanParams(means))
        backend = Threads(MixtureModel(family, 3, 1), THREADS)
        slow = Threads(backend.model, THREADS)
        slow.kernel = ReferenceKernel(backend.model)
        fast = best_alternating({"native": iteration(backend, params, x)}, 9)["native"] * 1e3
        numpy = best_alternating({"numpy": iteration(slow, params, x)}, 2)["numpy"] * 1e3
        name = type(family).__name__
        print(f"| {name} n={n:,} K=3 | {fast:.1f} | {numpy:.0f} | {numpy / fast:.0f}x |")


if __name__ == "__main__":
    narrow_against_wide()
    native_against_reference()
