"""Detectors of anomalies on labelled streams: every row is scored, then learned.

    pip install pyod pysad numba
    MIXFOLD_DATA=FOLDER python benchmarks/anomaly_streams.py

The streams are those of `_anomaly_sets.py`. Real streams keep their order, and 30,000 rows in a
row are used of each; the other sets are in three random orders, of which means are printed, or in
one if they have more than 5,000 rows. Scores count from row min(1000, max(50, n / 4)) on.

The detectors get rows one by one, as dicts or arrays, as their libraries want them. "blocks" is
the same detector of mixfold with `score_many` and `learn_many` of 512 rows. Detectors that
cannot learn row by row (isolation forest, ECOD, COPOD) are fitted again to the last 2,000 rows
whenever a quarter more rows have come, or 2,000; meanwhile they score blocks, which is kind to
their time. HalfSpaceTrees and LODA of river are scaled by `MinMaxScaler`; the tuned
HalfSpaceTrees have 25 trees of height 6, and windows of 50 rows, or 1000 for streams of more than
5,000. RSHash is given the bounds of all rows, and, as xStream, run on sets of at most 3,000 rows.

Time is processor time of one thread in microseconds per row, and size that of the pickled model.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyod.models.copod import COPOD
from pyod.models.ecod import ECOD
from pysad.models import LODA, RSHash, xStream
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score

from _anomaly_sets import IN_ORDER, SETS, Stream, load
from _tables import heading
from mixfold.river import MixtureAnomaly
from river import anomaly, preprocessing

BLOCK, RECENT, GROWTH, ORDERS = 512, 2000, 4, 3
MANY = 5000  # rows of the sets of which one order is used
FEW = 3000  # rows of the sets on which slow detectors are run
SAME = 0.01  # areas that differ by less are tied

Run = Callable[[np.ndarray], tuple[np.ndarray, Any]]


def by_dicts(make: Callable[[int], Any]) -> Run:
    """A detector with the methods of river."""

    def run(x: np.ndarray) -> tuple[np.ndarray, Any]:
        model, scores = make(len(x)), np.empty(len(x))
        for i, row in enumerate(x.tolist()):
            cells = dict(enumerate(row))
            scores[i] = model.score_one(cells)
            model.learn_one(cells)
        return scores, model

    return run


def by_arrays(make: Callable[[np.ndarray], Any]) -> Run:
    """A detector with the methods of PySAD, which scores before it learns or nearly so."""

    def run(x: np.ndarray) -> tuple[np.ndarray, Any]:
        model, scores = make(x), np.zeros(len(x))
        for i, row in enumerate(x):
            scores[i] = model.score_partial(row) if i else 0.0
            model.fit_partial(row)
        return scores, model

    return run


def by_blocks(x: np.ndarray) -> tuple[np.ndarray, Any]:
    """The detector of mixfold, block by block."""
    model, scores = MixtureAnomaly(seed=0), np.empty(len(x))
    begin = 0
    while begin < len(x):
        rows = slice(begin, begin + max(50, min(BLOCK, begin // 8)))
        frame = pd.DataFrame(x[rows])
        scores[rows] = model.score_many(frame)
        model.learn_many(frame)
        begin = rows.stop
    return scores, model


def refitted(make: Callable[[], Any], score: Callable[[Any, np.ndarray], np.ndarray]) -> Run:
    """A detector that is fitted again to the last rows."""

    def run(x: np.ndarray) -> tuple[np.ndarray, Any]:
        scores, seen, model = np.zeros(len(x)), 50, None
        while seen < len(x):
            recent = x[max(0, seen - RECENT) : seen]
            model = make().fit(recent)
            rows = slice(seen, seen + min(RECENT, seen // GROWTH))
            scores[rows] = score(model, x[rows])
            seen = rows.stop
        return scores, (model, recent)

    return run


def scaled(detector: Any) -> Any:
    return preprocessing.MinMaxScaler() | detector


def tuned(n: int) -> Any:
    window = 1000 if n > 5000 else 50
    return scaled(anomaly.HalfSpaceTrees(n_trees=25, height=6, window_size=window, seed=0))


OWN = "mixfold"
DETECTORS: dict[str, Run] = {
    OWN: by_dicts(lambda n: MixtureAnomaly(seed=0)),
    f"{OWN}, blocks": by_blocks,
    "HalfSpaceTrees": by_dicts(lambda n: scaled(anomaly.HalfSpaceTrees(seed=0))),
    "HalfSpaceTrees tuned": by_dicts(tuned),
    "LODA (river)": by_dicts(lambda n: scaled(anomaly.LODA(seed=0))),
    "LODA (PySAD)": by_arrays(lambda x: LODA(random_state=0)),
    "xStream": by_arrays(lambda x: xStream(random_state=0)),
    "RSHash": by_arrays(
        lambda x: RSHash(feature_mins=x.min(0), feature_maxes=x.max(0) + 1e-9, random_state=0)
    ),
    "IsolationForest": refitted(
        lambda: IsolationForest(random_state=0), lambda model, x: -model.score_samples(x)
    ),
    "ECOD": refitted(ECOD, lambda model, x: model.decision_function(x)),
    "COPOD": refitted(COPOD, lambda model, x: model.decision_function(x)),
}
SLOW = ("xStream", "RSHash")


@dataclass(frozen=True)
class Outcome:
    """Means over the orders of a set."""

    area: float
    precision: float
    microseconds: float
    kilobytes: float


def measured(run: Run, stream: Stream) -> Outcome:
    began = time.process_time()
    scores, model = run(stream.x)
    spent = time.process_time() - began
    first = stream.first_scored
    y, scores = stream.y[first:], scores[first:]
    return Outcome(
        float(roc_auc_score(y, scores)),
        float(average_precision_score(y, scores)),
        1e6 * spent / len(stream.x),
        len(pickle.dumps(model)) / 1024,
    )


def outcome(name: str, run: Run, stream: Stream) -> Outcome:
    orders = 1 if stream.name in IN_ORDER or len(stream.x) > MANY else ORDERS
    found = [measured(run, stream.shuffled(seed)) for seed in range(orders)]
    means = np.mean([(o.area, o.precision, o.microseconds, o.kilobytes) for o in found], axis=0)
    return Outcome(*map(float, means))


def print_table(title: str, found: dict[str, dict[str, Outcome]], field: str, form: str) -> None:
    print(f"\n{title}\n\n" + heading("set", *DETECTORS), flush=True)
    for name, outcomes in found.items():
        cells = [
            format(getattr(outcomes[d], field), form) if d in outcomes else "" for d in DETECTORS
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


def print_places(found: dict[str, dict[str, Outcome]], field: str, title: str) -> None:
    """On how many sets mixfold is first or tied, and the means over the sets."""
    held = 0
    for outcomes in found.values():
        best = max(getattr(o, field) for d, o in outcomes.items() if OWN not in d)
        held += getattr(outcomes[OWN], field) >= best - SAME
    print(f"\n{title}: first or within {SAME} of the first on {held} of {len(found)} sets; means:")
    for detector in DETECTORS:
        of = [getattr(o[detector], field) for o in found.values() if detector in o]
        if len(of) == len(found):
            print(f"- {detector}: {np.mean(of):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    found: dict[str, dict[str, Outcome]] = {}
    for name in given.sets:
        stream = load(name)
        runs = {d: r for d, r in DETECTORS.items() if d not in SLOW or len(stream.x) <= FEW}
        found[name] = {d: outcome(d, run, stream) for d, run in runs.items()}
        shown = ", ".join(f"{d} {o.area:.3f}" for d, o in found[name].items())
        print(f"{name}, {len(stream.x)} rows: {shown}", flush=True)
    print_table("Area under ROC", found, "area", ".3f")
    print_table("Average precision", found, "precision", ".3f")
    print_table("Microseconds per row", found, "microseconds", ".1f")
    print_table("Pickled model, KiB", found, "kilobytes", ".0f")
    print_places(found, "area", "Area under ROC")
    print_places(found, "precision", "Average precision")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
