"""How often `bootstrap_test` rejects a number of components, when it is true and when it is not.

    python benchmarks/bootstrap_size.py [--tables 200] [--replicates 19] [--only NAME ...]

Every table is drawn anew. With 19 replicates and a level of 5%, a number of components is rejected
if no replicate has a larger statistic, which has probability 5% if the distribution is right.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from mixfold import Auto, Gaussian, Mixture, bootstrap_test
from mixfold.core.family import Family
from mixfold.families.poisson import Poisson

Draw = Callable[[np.random.Generator], np.ndarray]


def normal(*centers: float, n: int) -> Draw:
    return lambda rng: np.asarray(rng.normal(rng.choice(centers, n))[:, None])


def counts(*means: float, n: int) -> Draw:
    return lambda rng: np.asarray(rng.poisson(rng.choice(means, n))[:, None])


# the name, the family, K and how rows are drawn
TABLES: tuple[tuple[str, Family, int, Draw], ...] = (
    ("one Poisson, mean 4, n=60", Poisson(), 1, counts(4.0, n=60)),
    ("two Poisson, means 3 and 8, n=60", Poisson(), 1, counts(3.0, 8.0, n=60)),
    ("one normal, n=50", Gaussian("EII"), 1, normal(0.0, n=50)),
    ("two normals 2.5 apart, n=50", Gaussian("EII"), 1, normal(0.0, 2.5, n=50)),
    ("two normals 5 apart against three, n=50", Gaussian("EII"), 2, normal(0.0, 5.0, n=50)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--replicates", type=int, default=19)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    print("| rows | K against K + 1 | rejected | of | mean p-value | seconds |")
    print("|---" * 6 + "|")
    for name, family, k, draw in TABLES:
        if given.only and not any(word in name for word in given.only):
            continue
        began, p = time.process_time(), []
        for seed in range(given.tables):
            x = draw(np.random.default_rng([seed, k]))
            learner = Auto(starts=4, prior_strength=0.0)
            mixture = Mixture(family, learner=learner, random_state=seed, n_threads=1)
            found = bootstrap_test(mixture, x, k, n_replicates=given.replicates)
            p.append(found.p_values[0])
        rejected = sum(one <= 0.05 for one in p)
        seconds = time.process_time() - began
        print(
            f"| {name} | {k} against {k + 1} | {rejected} | {len(p)} | {np.mean(p):.2f} | "
            f"{seconds:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
