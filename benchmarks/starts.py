"""How often `auto` finds what EM finds from the true parameters, on mixtures that are known.

    python benchmarks/starts.py --jobs 2 [--seeds 10] [--first-seed 0] [--only WORD ...] [--rivals]

The share is the held-out gain over a single Gaussian, divided by that of `learner="em"` started
from the true parameters, with as many components as the truth has. `--rivals` adds scikit-learn's
default and its best of ten starts, which take far longer. Every seed draws the mixture and its
rows anew. The constructions and their numbers of rows are in `_constructions.py`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.mixture import GaussianMixture as Original

from _constructions import CONSTRUCTIONS
from _tables import by_cell, fitted, gain, heading, in_processes, mixture, options, single

AUTO, DEFAULT, BEST_OF_TEN = "auto", "scikit-learn", "scikit-learn, best of 10"
WANTED_SHARE, WANTED_RUNS = 0.98, 0.95


@dataclass(frozen=True)
class Run:
    """A construction by its name, a learner and a seed."""

    name: str
    learner: str
    seed: int

    @property
    def cell(self) -> tuple[str, str]:
        """What it has in common with the runs of other seeds."""
        return self.name, self.learner


@dataclass(frozen=True)
class Outcome:
    """The share of the gain that was reached, and the seconds."""

    task: Run
    n: int
    d: int
    k: int
    gain: float
    share: float
    seconds: float


def rival(learner: str, k: int, seed: int) -> Any:
    if learner == AUTO:
        return mixture("full", k, seed)
    return Original(k, n_init=10 if learner == BEST_OF_TEN else 1, random_state=seed)


def measure(task: Run) -> Outcome:
    construction = CONSTRUCTIONS[task.name]
    truth, train, held = construction.draw(task.seed)
    true_k = truth.model.k
    base = single("full", train, held)
    from_truth = mixture("full", true_k, task.seed, learner="em", init=truth.params)
    reached, _ = gain(fitted(from_truth, train)[0].score_samples(held), base)
    k = true_k + construction.surplus
    model, seconds = fitted(rival(task.learner, k, task.seed), train)
    ours, _ = gain(model.score_samples(held), base)
    n, d = train.shape
    return Outcome(task, n, d, k, reached, ours / reached, seconds)


def line(outcomes: list[Outcome]) -> tuple[str, bool]:
    """The row of a construction, and whether it is found as often as wanted."""
    shares = np.array([o.share for o in outcomes])
    found = float((shares >= WANTED_SHARE).mean())
    first, seconds = outcomes[0], np.mean([o.seconds for o in outcomes])
    size = f"{first.n} | {first.d} | {first.k} | {np.median([o.gain for o in outcomes]):.3f}"
    reached = f"{found:.2f} | {np.median(shares):.3f} | {shares.min():.3f} | {seconds:.2f}"
    text = f"| {first.task.name} | {first.task.learner} | {size} | {reached} |"
    return text, found >= WANTED_RUNS


def arguments() -> argparse.Namespace:
    parser = options(__doc__, 10)
    parser.add_argument("--only", nargs="+", default=[""], help="words in names of constructions")
    parser.add_argument("--first-seed", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--rivals", action="store_true", help="scikit-learn as well")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    learners = (AUTO, DEFAULT, BEST_OF_TEN) if given.rivals else (AUTO,)
    chosen = [
        Run(name, learner, seed)
        for name in CONSTRUCTIONS
        if any(word in name for word in given.only)
        for learner in learners
        for seed in range(given.first_seed, given.first_seed + given.seeds)
    ]
    begin = ("construction", "learner", "n", "d", "K", "gain from the truth, nats")
    print(heading(*begin, "runs >= 0.98 (wanted 0.95)", "median share", "least", "s"))
    found: dict[str, list[bool]] = {learner: [] for learner in learners}
    results = in_processes(measure, chosen, given.jobs)
    for outcomes in by_cell(results):
        text, often = line(outcomes)
        found[outcomes[0].task.learner].append(often)
        print(text, flush=True)
    for learner, each in found.items():
        print(f"\n{learner}: {sum(each)} of {len(each)} constructions as often as wanted.")


if __name__ == "__main__":
    main()
