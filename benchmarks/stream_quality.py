"""One pass of `partial_fit` against `fit` on the tables of the data folder, rows shuffled.

    MIXFOLD_DATA=FOLDER python benchmarks/stream_quality.py --jobs 2 [--memory-budget BYTES]

Rows are shuffled by the seed and a fifth is held out. The gain is what `fit` has above a single
Gaussian, in nats per held-out row; the share is the part of it that one pass reaches. Where `fit`
gains less than 0.02 nats, or less than two standard errors, the shares say nothing: such cells
follow in a table of differences in nats. Blocks of one row are tried up to 1,500 rows. The rows
of the tables come as they are: columns are neither centred nor scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from _tables import (
    Task,
    by_cell,
    fitted,
    gain,
    heading,
    in_processes,
    mixture,
    names,
    single,
    split,
    stream_options,
    streamed,
    table,
    tasks,
)
from mixfold import Mixture, ReservoirEM

BLOCKS, ONE_ROW_UP_TO = (100, 10_000), 1500
LEAST_GAIN, LEAST_ERRORS = 0.02, 2.0


@dataclass(frozen=True)
class Outcome:
    """Nats per row of `fit` above a single Gaussian, their error, and those of each stream."""

    task: Task
    size: tuple[int, int]
    fit: float
    error: float
    streams: dict[int, float]
    parameters: float
    same_bits: bool

    @property
    def stream(self) -> float:
        """The least gain of all blocks, which should be the same."""
        return min(self.streams.values())


def blocks_for(n: int) -> tuple[int, ...]:
    return (1, *BLOCKS) if n <= ONE_ROW_UP_TO else BLOCKS


def measure(task: Task, memory_budget: int) -> Outcome:
    x = table(task.name)
    train, held = split(x, task.seed, task.most)
    learner = ReservoirEM(memory_budget=memory_budget)
    base = single(task.shape, train, held)
    whole, _ = fitted(mixture(task.shape, task.k, task.seed), train)
    passes = {
        block: streamed(mixture(task.shape, task.k, task.seed, learner=learner), train, block)
        for block in blocks_for(len(train))
    }
    above, error = gain(whole.score_samples(held), base)
    gains = {block: gain(model.score_samples(held), base)[0] for block, model in passes.items()}
    first, *others = passes.values()
    return Outcome(
        task,
        (len(train) + len(held), x.shape[1]),
        above,
        error,
        gains,
        parameter_difference(whole, first),
        all(equal_bits(first, other) for other in others),
    )


def parameter_difference(one: Mixture, other: Mixture) -> float:
    """The largest difference of means and standard deviations, in units of the deviations."""
    deviations = [
        np.sqrt(m.covariances_.diagonal(0, 1, 2) if m.covariances_.ndim == 3 else m.covariances_)
        for m in (one, other)
    ]
    apart = (other.means_ - one.means_, deviations[1] - deviations[0])
    return float(np.abs(np.stack(apart) / deviations[0]).max())


def equal_bits(one: Mixture, other: Mixture) -> bool:
    """Whether weights, means and covariances are the same numbers."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("weights_", "means_", "covariances_")
    )


def is_informative(outcomes: list[Outcome]) -> bool:
    """Whether `fit` gains enough for shares to mean something."""
    above = float(np.median([o.fit for o in outcomes]))
    error = float(np.median([o.error for o in outcomes]))
    return above >= max(LEAST_GAIN, LEAST_ERRORS * error)


def begin(outcomes: list[Outcome]) -> str:
    task, (n, d) = outcomes[0].task, outcomes[0].size
    above = np.median([o.fit for o in outcomes])
    return f"| {task.name} | {n} | {d} | {task.shape} | {task.k} | {above:.3f} "


def bits(outcomes: list[Outcome]) -> str:
    return "yes" if all(o.same_bits for o in outcomes) else "no"


def print_shares(cells: list[list[Outcome]]) -> None:
    shares = [np.array([o.stream / o.fit for o in outcomes]) for outcomes in cells]
    good = sum(bool(np.median(s) >= 0.99) for s in shares)
    never = sum(bool(s.min() >= 0.95) for s in shares)
    middles = np.quantile([np.median(s) for s in shares], [0.0, 0.1, 0.5, 0.9]) if shares else []
    print(f"\n{len(cells)} cells with a gain: median of at least 0.99 in {good}, ", end="")
    print(f"least of at least 0.95 in {never}; quantiles 0, 10, 50 and 90% of the medians:", end="")
    print("", *(f"{m:.3f}" for m in middles))


def print_differences(cells: list[list[Outcome]]) -> None:
    print("\n" + heading(*COLUMNS, "stream - fit, median", "least", "same bits"))
    for outcomes in cells:
        apart = [o.stream - o.fit for o in outcomes]
        print(
            f"{begin(outcomes)}| {np.median(apart):+.4f} | {min(apart):+.4f} | {bits(outcomes)} |"
        )


def print_single(cells: list[list[Outcome]]) -> None:
    """K=1, where a stream should be exact."""
    print("\n" + heading("set", "shape", "K=1: stream - fit, nats", "parameters", "same bits"))
    exact = 0
    for outcomes in cells:
        nats = max((o.stream - o.fit for o in outcomes), key=abs)
        parameters = max(o.parameters for o in outcomes)
        exact += bool(max(abs(nats), parameters) <= 1e-9)
        task = outcomes[0].task
        print(f"| {task.name} | {task.shape} | {nats:+.1e} | {parameters:.1e} | {bits(outcomes)} |")
    print(f"\nK=1 equals `fit` to 1e-9 in {exact} of {len(cells)} cells.")


COLUMNS = ("set", "n", "d", "shape", "K", "gain of fit, nats")


def main() -> None:
    parser = stream_options(__doc__)
    parser.add_argument("--memory-budget", type=int, default=ReservoirEM().memory_budget)
    given = parser.parse_args()
    given.components.insert(0, 1)
    chosen = tasks(given.sets or names(), given)
    work = partial(measure, memory_budget=given.memory_budget)
    results = in_processes(work, chosen, given.jobs)
    informative, others, ones = [], [], []
    print(heading(*COLUMNS, "share, median (wanted 0.99)", "least (0.95)", "same bits"))
    for outcomes in by_cell(results):
        if outcomes[0].task.k == 1:
            ones.append(outcomes)
        elif is_informative(outcomes):
            informative.append(outcomes)
            share = [o.stream / o.fit for o in outcomes]
            middle = f"| {np.median(share):.3f} | {min(share):.3f} | {bits(outcomes)} |"
            print(begin(outcomes) + middle, flush=True)
        else:
            others.append(outcomes)
    print_shares(informative)
    print_differences(others)
    print_single(ones)


if __name__ == "__main__":
    main()
