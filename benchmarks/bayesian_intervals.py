"""How often 90% credible intervals of two means hold the truth, by the distance of the means.

    python benchmarks/bayesian_intervals.py [--rows 20000] [--simulations 300] [--distances 8 4 3]

Two Gaussians in one column with standard deviation 1 and equal weights. In parentheses: intervals
of the posterior that was learned, without the correction.
"""

from __future__ import annotations

import argparse

import numpy as np

from mixfold import Mixture, MomentMatching, OnlineVB

DISTANCES = 8.0, 4.0, 3.0, 2.0
LEARNERS = MomentMatching(), OnlineVB(form="streaming"), OnlineVB()


def coverage(
    learner: MomentMatching | OnlineVB, distance: float, rows: int, simulations: int
) -> tuple[float, float]:
    """The fractions of corrected and of plain intervals that hold the mean they are of."""
    held = {True: 0, False: 0}
    truth = np.array([0.0, distance])
    for seed in range(simulations):
        rng = np.random.default_rng([seed, rows, int(10 * distance)])
        x = rng.choice(truth, size=(rows, 1)) + rng.normal(size=(rows, 1))
        model = Mixture("gaussian", 2, learner=learner, random_state=seed, n_threads=1).fit(x)
        order = np.argsort(model.means_[:, 0])
        for corrected in held:
            found = model.credible_intervals(0.9, corrected=corrected)["means"]
            low, high = (end[order, 0] for end in found)
            held[corrected] += int(((low <= truth) & (truth <= high)).sum())
    return held[True] / (2 * simulations), held[False] / (2 * simulations)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--simulations", type=int, default=300)
    parser.add_argument("--distances", type=float, nargs="*", default=DISTANCES)
    given = parser.parse_args()
    for learner in LEARNERS:
        shares = (
            coverage(learner, distance, given.rows, given.simulations)
            for distance in given.distances
        )
        print(learner, *(f"{one:.1%} ({plain:.0%})" for one, plain in shares), flush=True)


if __name__ == "__main__":
    main()
