"""What missing cells cost: errors of estimates, and the time of fits of complete rows.

    python benchmarks/missing_efficiency.py [REPLICATIONS]

Three Gaussians with covariances in three columns, 500 rows, of which 30% of the cells are missing
at random, against 350 complete rows, which have as many cells. EM starts from the true parameters,
so that components keep their order. Errors are root mean squares over the replications and over
all entries. Then complete rows fitted with missing="marginalize" and with missing="error", in turn.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np

from _tables import heading
from mixfold import Gaussian, Mixture
from mixfold.families.gaussian import GaussianParams
from mixfold.learners.em import EM
from mixfold.models.mixture_model import MixtureParams

N, D, K, MISSING, REPLICATIONS, ROUNDS = 500, 3, 3, 0.3, 100, 9
WEIGHTS = np.array([0.4, 0.35, 0.25])
MEANS = np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 3.0], [0.0, 4.0, -3.0]])
ROOTS = np.array(
    [
        [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.3, 0.3, 0.9]],
        [[1.2, 0.0, 0.0], [-0.5, 0.9, 0.0], [0.0, 0.4, 0.8]],
        [[0.8, 0.0, 0.0], [0.4, 1.0, 0.0], [-0.4, 0.2, 1.1]],
    ]
)
TRUTH = MixtureParams(WEIGHTS, GaussianParams(MEANS, ROOTS))


def drawn(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of the true mixture."""
    z = rng.choice(K, p=WEIGHTS, size=n)
    return np.asarray(MEANS[z] + np.einsum("nij,nj->ni", ROOTS[z], rng.normal(size=(n, D))))


def errors(x: np.ndarray) -> list[np.ndarray]:
    """Estimates less the truth: weights, means and covariances."""
    model = Mixture(Gaussian("full"), K, learner=EM(tol=1e-4), init=TRUTH, n_threads=1).fit(x)
    covariances = ROOTS @ ROOTS.swapaxes(1, 2)
    return [model.weights_ - WEIGHTS, model.means_ - MEANS, model.covariances_ - covariances]


def compare_errors(replications: int) -> None:
    found: dict[str, list[list[np.ndarray]]] = {"missing": [], "complete": [], "all": []}
    for seed in range(replications):
        rng = np.random.default_rng(seed)
        x = drawn(N, rng)
        found["all"].append(errors(x))
        found["missing"].append(errors(np.where(rng.random(x.shape) < MISSING, np.nan, x)))
        found["complete"].append(errors(drawn(round((1.0 - MISSING) * N), rng)))
    print(heading("error of", "500 rows", "30% missing", "350 rows", "ratio (wanted 1.3)"))
    for i, what in enumerate(("weights", "means", "covariances")):
        size = {name: _root([each[i] for each in one]) for name, one in found.items()}
        missing, complete = size["missing"], size["complete"]
        line = f"{size['all']:.4f} | {missing:.4f} | {complete:.4f} | {missing / complete:.2f}"
        print(f"| {what} | {line} |")


def _root(found: list[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.square(found))))


def fitted(x: np.ndarray, missing: str) -> tuple[Mixture, float]:
    """A fit of twenty passes and its processor seconds."""
    learner = EM(tol=0.0, max_iter=20)
    model = Mixture(Gaussian("full"), K, learner=learner, init=TRUTH, missing=missing, n_threads=1)
    began = time.process_time()
    return model.fit(x), time.process_time() - began


def compare_time(n: int) -> None:
    """Print whether both fits have the same bits, and the ratio of their times."""
    x, least = drawn(n, np.random.default_rng(0)), {"error": np.inf, "marginalize": np.inf}
    models: dict[str, Any] = {}
    for _ in range(ROUNDS):
        for missing, before in list(least.items()):
            models[missing], seconds = fitted(x, missing)
            least[missing] = min(before, seconds)
    a, b = models["error"], models["marginalize"]
    parts = ("weights_", "means_", "covariances_")
    same = all(getattr(a, part).tobytes() == getattr(b, part).tobytes() for part in parts)
    ratio = least["marginalize"] / least["error"]
    print(f"| {n:,} | {'yes' if same else 'no'} | {least['error'] * 1e3:.1f} | {ratio:.3f} |")


def main() -> None:
    warnings.simplefilter("ignore")
    compare_errors(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS)
    print(heading("rows", "same bits", 'missing="error", ms', "ratio (wanted 1.05)"))
    for n in (1_000, 100_000, 1_000_000):
        compare_time(n)


if __name__ == "__main__":
    main()
