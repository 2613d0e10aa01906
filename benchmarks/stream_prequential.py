"""Streams that are scored before they learn, against refits.

    MIXFOLD_DATA=FOLDER python benchmarks/stream_prequential.py --jobs 2

Shuffled rows. From row 256 on, every block of 100 rows is scored, then learned. The rival is `fit`
on all rows seen so far, made anew whenever their number has reached a power of two, and scored on
the same blocks. Both are means over all rows scored, in nats above a single Gaussian that is
fitted to all rows; the share is the stream's gain over the rival's.

The order of time (electricity; taxis). When 50, 55, ... and 95% of the rows have been learned, the
next 5% are scored by the stream as it is, and by `fit` on the last tenth of the rows seen. Each is
the mean over these ten parts, in nats above a single Gaussian fitted to all rows; the loss is the
rival's gain minus the stream's, in % of the rival's gain, which a few rows with extreme prices can
decide, so that the parts in which the loss is at most 2% are counted too. Date and day are left out
of electricity, as the date only grows.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product

import numpy as np

from _tables import (
    IMAGES,
    SHAPES,
    Task,
    by_cell,
    fitted,
    heading,
    in_processes,
    mixture,
    names,
    single,
    stream_options,
    streamed,
    table,
    tasks,
)

FIRST, BLOCK = 256, 100
PARTS, LAST = range(50, 100, 5), 0.1
IN_TIME = {"elec2": slice(2, None), "nyc_taxis": slice(None)}
STREAMS = ("auto", "drift-aware")
LEAST_GAIN, LARGEST_LOSS = 0.02, 0.02


@dataclass(frozen=True)
class Outcome:
    """Mean gains in nats per row of the stream and of the refits."""

    task: Task
    n: int
    stream: float
    refits: float
    parts_held: int = 0


def shuffled(task: Task) -> Outcome:
    """Score, then learn, in blocks; refits at powers of two."""
    x = table(task.name)
    x = x[np.random.default_rng(task.seed).permutation(len(x))[: task.most]]
    stream = streamed(mixture(task.shape, task.k, task.seed), x[:FIRST], BLOCK)
    total = refits = 0.0
    begin = FIRST
    while begin < len(x):
        end = min(2 * begin, len(x))
        rival, _ = fitted(mixture(task.shape, task.k, task.seed), x[:begin])
        refits += rival.score_samples(x[begin:end]).sum()
        for block in range(begin, end, BLOCK):
            rows = x[block : min(block + BLOCK, end)]
            total += stream.score_samples(rows).sum()
            streamed(stream, rows, BLOCK)
        begin = end
    base = float(single(task.shape, x, x[FIRST:]).mean())
    scored = len(x) - FIRST
    return Outcome(task, len(x), total / scored - base, refits / scored - base)


def in_time(task: Task) -> Outcome:
    """The stream and refits on the last tenth, each scored on the next twentieth."""
    x = table(task.name)[:, IN_TIME[task.name]]
    stream = mixture(task.shape, task.k, task.seed, learner=task.learner)
    everything = fitted(mixture(task.shape, 1, 0), x)[0]
    gains, learned = [], 0
    for part in PARTS:
        seen, end = part * len(x) // 100, (part + 5) * len(x) // 100
        streamed(stream, x[learned:seen], BLOCK)
        learned = seen
        last, ahead = x[seen - int(LAST * seen) : seen], x[seen:end]
        rival, _ = fitted(mixture(task.shape, task.k, task.seed), last)
        base = everything.score(ahead)
        gains.append((stream.score(ahead) - base, rival.score(ahead) - base))
    held = sum(bool(ours >= theirs - LARGEST_LOSS * abs(theirs)) for ours, theirs in gains)
    ours, theirs = np.mean(gains, axis=0)
    return Outcome(task, len(x), float(ours), float(theirs), held)


def loss(outcome: Outcome) -> float:
    """In % of the gain of the refits; not a number where they gain nothing."""
    if outcome.refits < LEAST_GAIN:
        return float("nan")
    return 100.0 * (outcome.refits - outcome.stream) / outcome.refits


def print_shuffled(chosen: list[Task], jobs: int) -> None:
    print(heading("set", "n", "shape", "K", "gain of refits, nats", "share, median", "least"))
    shares: list[float] = []
    for outcomes in by_cell(in_processes(shuffled, chosen, jobs)):
        task = outcomes[0].task
        refits = float(np.median([o.refits for o in outcomes]))
        begin = f"| {task.name} | {outcomes[0].n} | {task.shape} | {task.k} | {refits:.3f} "
        if refits < LEAST_GAIN:
            apart = [o.stream - o.refits for o in outcomes]
            print(begin + f"| {np.median(apart):+.3f} nats | {min(apart):+.3f} nats |", flush=True)
            continue
        share = [o.stream / o.refits for o in outcomes]
        shares.append(float(np.median(share)))
        print(begin + f"| {shares[-1]:.3f} | {min(share):.3f} |", flush=True)
    good = sum(share >= 0.98 for share in shares)
    print(f"\nMedian share of at least 0.98 (wanted) in {good} of {len(shares)} cells with a gain.")


def print_in_time(chosen: list[Task], jobs: int) -> None:
    columns = ("set", "learner", "shape", "K", "stream, nats", "refit, nats")
    print("\n" + heading(*columns, "loss in %, median (wanted 2)", "largest", "parts held of 10"))
    for outcomes in by_cell(in_processes(in_time, chosen, jobs)):
        ours, theirs = np.median([(o.stream, o.refits) for o in outcomes], axis=0)
        lost = [loss(o) for o in outcomes]
        held = np.mean([o.parts_held for o in outcomes])
        begin = " | ".join(map(str, outcomes[0].task.cell))
        gains = f"{ours:.3f} | {theirs:.3f}"
        cells = f"{np.median(lost):.1f} | {max(lost):.1f} | {held:.1f}"
        print(f"| {begin} | {gains} | {cells} |", flush=True)


def arguments() -> argparse.Namespace:
    parser = stream_options(__doc__)
    parser.add_argument("--only", choices=("shuffled", "in-time"), help="one of the two tables")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    if given.only != "in-time":
        found = given.sets or [name for name in names() if name not in IMAGES]
        chosen = tasks((name for name in found if len(table(name)) >= 2 * FIRST), given)
        print_shuffled(chosen, given.jobs)
    if given.only != "shuffled":
        each = product(IN_TIME, STREAMS, SHAPES, given.components, range(given.seeds))
        chosen = [Task(name, shape, k, s, learner=by) for name, by, shape, k, s in each]
        print_in_time(chosen, given.jobs)


if __name__ == "__main__":
    main()
