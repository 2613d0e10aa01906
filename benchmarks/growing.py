"""The number of components that a stream finds, against BIC on the same rows read at once.

    [MIXFOLD_DATA=FOLDER] OMP_NUM_THREADS=1 python benchmarks/growing.py PART

PART is constructions, streams, tables or speed.

All components are Gaussians with full covariances ("VVV"). A stream is `SplitMergeEM` in blocks of
100 rows, with at most 20 components; BIC is `AutoMixture`. Held-out differences are nats per row of
the stream minus those of BIC.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from _tables import split, table
from mixfold import AutoMixture, Gaussian, Mixture
from mixfold.core.errors import LearningWarning
from mixfold.learners.split_merge_em import SplitMergeEM

MOST, BLOCK, SEEDS = 20, 100, 3
SIZES = (500, 2000, 8000)
HELD_OUT_ROWS = 5000
# columns, components, and the least distance of centres; standard deviations are 0.5 to 1.2
SEPARATED = ((2, 2, 6.0), (2, 5, 6.0), (2, 15, 6.0), (5, 5, 6.0), (5, 15, 6.0), (10, 8, 6.0))
OVERLAPPING = ((2, 3, 2.0), (5, 5, 2.0), (10, 8, 2.0))
TABLES = ("faithful", "iris", "banknote", "magic", "elec2")


def drawn(d: int, k: int, distance: float, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of K components, the lightest with 2% or more, and their components."""
    rng = np.random.default_rng([seed, d, k])
    weights = 0.02 + (1.0 - 0.02 * k) * rng.dirichlet(np.full(k, 2.0))
    centres: list[np.ndarray] = []
    half = distance * max(1.0, k ** (1.0 / d))
    while len(centres) < k:
        new = rng.uniform(-half, half, size=d)
        if all(np.linalg.norm(new - one) >= distance for one in centres):
            centres.append(new)
    scales = rng.uniform(0.5, 1.2, size=(k, d))
    roots = np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] * scale for scale in scales])
    labels = rng.choice(k, size=n, p=weights)
    noise = np.einsum("nij,nj->ni", roots[labels], rng.normal(size=(n, d)))
    return np.stack(centres)[labels] + noise, labels


def stream(recent_rows: int | None = None) -> Mixture:
    learner = SplitMergeEM(recent_rows=recent_rows)
    return Mixture("gaussian", MOST, learner=learner, random_state=0, n_threads=1)


def blocks(x: np.ndarray, length: int = BLOCK) -> Iterator[np.ndarray]:
    return (x[first : first + length] for first in range(0, len(x), length))


def at_once(x: np.ndarray, most: int) -> AutoMixture:
    return AutoMixture(range(1, most + 1), ["VVV"], random_state=0, n_threads=1).fit(x)


def constructions() -> None:
    """How often the right number is found after n rows in random order."""
    print("| d, K, distance | rows | stream is right | BIC is right | same K | held out |")
    print("|---|---|---|---|---|---|")
    for d, k, distance in (*SEPARATED, *OVERLAPPING):
        found: dict[int, list[tuple[int, int, float]]] = {size: [] for size in SIZES}
        for seed in range(SEEDS):
            x, _ = drawn(d, k, distance, SIZES[-1] + HELD_OUT_ROWS, seed)
            held, model, first = x[SIZES[-1] :], stream(), 0
            for size in SIZES:
                for block in blocks(x[first:size]):
                    model.partial_fit(block)
                first, whole = size, at_once(x[:size], k + 4)
                better = model.score(held) - whole.score(held)
                found[size].append((model.n_components_, len(whole.weights_), better))
        for size, rows in found.items():
            ours, bic, better = (np.array(column) for column in zip(*rows, strict=True))
            print(
                f"| {d}, {k}, {distance:g} | {size:,} | {np.mean(ours == k):.0%} "
                f"| {np.mean(bic == k):.0%} | {np.mean(ours == bic):.0%} | {better.mean():+.4f} |",
                flush=True,
            )


def after_each(parts: Iterable[np.ndarray], recent_rows: int | None = None) -> str:
    """The numbers of components after each part of a stream."""
    model, after = stream(recent_rows), []
    for part in parts:
        for block in blocks(part):
            model.partial_fit(block)
        after.append(str(model.n_components_))
    return "-".join(after)


def streams() -> None:
    """Clusters that appear one after the other, and one that vanishes."""
    print("| stream | learner | right after each part | found, by seed |")
    print("|---|---|---|---|")
    appear, vanish, forget = list[str](), list[str](), list[str]()
    for seed in range(SEEDS):
        x, labels = drawn(5, 6, 6.0, 12_000, seed)
        appear.append(after_each(x[labels == k] for k in range(6)))
        x, labels = drawn(5, 5, 6.0, 24_000, seed)
        parts = x[:6000], x[6000:][labels[6000:] != 0]
        vanish.append(after_each(parts))
        forget.append(after_each(parts, 4000))
    print(f"| six appear, one by one | default | 1-2-3-4-5-6 | {', '.join(appear)} |")
    print(f"| one of five vanishes | default | 5-5 | {', '.join(vanish)} |")
    print(f"| one of five vanishes | recent_rows=4000 | 5-4 | {', '.join(forget)} |")


def tables() -> None:
    """Tables in random order, and elec2 in the order of time; a fifth of the rows is held out."""
    print("| table | rows | columns | K of the stream | K of BIC | held out | BIC: stream - BIC |")
    print("|---|---|---|---|---|---|---|")
    for name in TABLES:
        x = table(name)
        train, held = split(x, 0)
        if name == "elec2":
            chosen = np.random.default_rng(0).permutation(len(x))
            held, train = x[chosen[: len(x) // 5]], x[np.sort(chosen[len(x) // 5 :])]
        model = stream()
        for block in blocks(train, 1000):
            model.partial_fit(block)
        whole = at_once(train, MOST)
        print(
            f"| {name} | {len(train):,} | {x.shape[1]} | {model.n_components_} "
            f"| {len(whole.weights_)} | {model.score(held) - whole.score(held):+.4f} "
            f"| {model.bic(train) - whole.bic(train):+.1f} |",
            flush=True,
        )


def speed() -> None:
    """Rows per second of processor time, blocks of 1000 rows, parameters read at the end."""
    print("| d, K | rows | default learner, K given | SplitMergeEM | recent_rows=8192 |")
    print("|---|---|---|---|---|")
    for d, k in ((2, 5), (5, 8), (10, 8)):
        x, _ = drawn(d, k, 6.0, 50_000, 0)
        given = Mixture(Gaussian(), k, random_state=0, n_threads=1)
        rates = []
        for model in (given, stream(), stream(8192)):
            began = time.process_time()
            for block in blocks(x, 1000):
                model.partial_fit(block)
            assert len(model.weights_) == k, len(model.weights_)
            rates.append(len(x) / (time.process_time() - began))
        print(f"| {d}, {k} | {len(x):,} | " + " | ".join(f"{rate:,.0f}" for rate in rates) + " |")


PARTS: dict[str, Callable[[], None]] = {
    "constructions": constructions,
    "streams": streams,
    "tables": tables,
    "speed": speed,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore", LearningWarning)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", choices=PARTS)
    PARTS[parser.parse_args().part]()
