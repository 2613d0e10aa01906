"""How often 90% credible intervals of two means hold the truth, by the distance of the means.

    python benchmarks/bayesian_intervals.py [SIMULATIONS]

Two Gaussians in one column with standard deviation 1 and equal weights, 2,000 rows.
"""

from __future__ import annotations

import sys

import numpy as np

from mixfold import Mixture, MomentMatching, OnlineVB

ROWS = 2_000
DISTANCES = 8.0, 4.0, 3.0, 2.0
LEARNERS = MomentMatching(), OnlineVB(form="streaming")


def coverage(learner: MomentMatching | OnlineVB, distance: float, simulations: int) -> float:
    """The fraction of intervals that hold the mean they are of."""
    held = 0
    truth = np.array([0.0, distance])
    for seed in range(simulations):
        rng = np.random.default_rng(seed)
        x = rng.choice(truth, size=(ROWS, 1)) + rng.normal(size=(ROWS, 1))
        model = Mixture("gaussian", 2, learner=learner, random_state=seed, n_threads=1).fit(x)
        order = np.argsort(model.means_[:, 0])
        low, high = (end[order, 0] for end in model.credible_intervals(0.9)["means"])
        held += int(((low <= truth) & (truth <= high)).sum())
    return held / (2 * simulations)


def main() -> None:
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for learner in LEARNERS:
        shares = [coverage(learner, distance, simulations) for distance in DISTANCES]
        print(type(learner).__name__, *(f"{share:.0%}" for share in shares), flush=True)


if __name__ == "__main__":
    main()
