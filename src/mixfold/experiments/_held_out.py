"""Held-out likelihood over random splits; validation chooses the number of components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.datasets import data_home
from mixfold.experiments._labelled import some_of, standardised
from mixfold.experiments._race import OBMM, SCIKIT, Method, Race
from mixfold.experiments.templates import read_table

HELD_OUT = 0.1
COMPONENTS = tuple(range(2, 11))
SIGNIFICANT = 0.05
SCALES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "raw": lambda learned, judged: (learned, judged),
    "standardised": standardised,
}
# columns to leave out: names and classes
WITHOUT: dict[str, tuple[str, ...]] = {
    "abalone": ("sex",),
    "banknote": ("class",),
    "airfoil": (),
    "spoken_arabic_digit": ("utterance", "digit", "female", "test"),
    "transfusion": ("donated_2007",),
    "ccpp": (),
    "compact": (),
    "kin8nm": (),
    "plastic": (),
    "magic": ("class",),
}

Result = dict[str, Any]
# for every method its results over the splits
Values = dict[str, list[float]]


@dataclass(frozen=True)
class Measured:
    """Rows of a data set."""

    name: str
    x: Array


def measured_sets(names: tuple[str, ...], data: Path | None, n: int) -> Iterator[Measured]:
    """Those of the sets that the data folder has, at most n rows of each."""
    folder = data_home(data)
    for name in names:
        if (folder / f"{name}.parquet").is_file():
            table = read_table(name, folder)
            columns = [c for c in table.column_names if c not in WITHOUT[name]]
            chosen = some_of(table.num_rows, n)
            yield Measured(name, np.column_stack([table[c].to_numpy()[chosen] for c in columns]))


def split(x: Array, seed: int) -> tuple[Array, Array]:
    """Training rows in random order, and a tenth of the rows for testing."""
    order = np.random.default_rng(seed).permutation(len(x))
    held_out, rest = np.split(order, [max(1, round(HELD_OUT * len(x)))])
    return x[rest].astype(np.float64), x[held_out].astype(np.float64)


def replicate(
    measured: Measured, scale: str, rep: int, methods: Mapping[str, Method]
) -> list[Result]:
    """All methods on one split, each with the number of components chosen by validation."""
    learned, judged = SCALES[scale](*split(measured.x, rep))
    chosen = preferred(learned, rep, methods)
    races = {k: Race.begin(learned, k, rep) for k in sorted(set(chosen.values()))}
    begun = {name: races[k] for name, k in chosen.items()}
    return [{"scale": scale, **r} for r in compete(measured, rep, methods, begun, judged)]


def compete(
    measured: Measured,
    rep: int,
    methods: Mapping[str, Method],
    races: Mapping[str, Race],
    judged: Array,
) -> Iterator[Result]:
    """The result of every method."""
    rows, columns = measured.x.shape
    for name, method in methods.items():
        log_likelihood, seconds = judge(races[name], method, judged)
        yield {
            "set": measured.name,
            "rows": rows,
            "columns": columns,
            "split": rep,
            "method": name,
            "k": races[name].backend.model.k,
            "log_likelihood": log_likelihood,
            "seconds": seconds,
        }


def preferred(learned: Array, rep: int, methods: Mapping[str, Method]) -> dict[str, int]:
    """The K of highest likelihood on rows kept from learning; scikit-learn's is that of auto."""
    kept = len(learned) // 9
    tried = {name: method for name, method in methods.items() if name != SCIKIT}
    scores: dict[str, list[float]] = {name: [] for name in tried}
    for k in COMPONENTS:
        race = Race.begin(learned[kept:], k, rep)
        for name, method in tried.items():
            scores[name].append(judge(race, method, learned[:kept])[0])
    chosen = {name: COMPONENTS[int(np.argmax(found))] for name, found in scores.items()}
    return {name: chosen["auto" if name == SCIKIT else name] for name in methods}


def judge(race: Race, method: Method, judged: Array) -> tuple[float, float]:
    """Held-out log-likelihood per row and seconds; NaN if a method fails."""
    try:
        params, seconds = method(race)
    except ValueError:
        return float("nan"), float("nan")
    return race.held_out(params, judged), seconds


def over_splits(results: list[Result], measure: str) -> dict[tuple[str, str], Values]:
    """For every set and scale the values of every method, in the order of the splits."""
    values: dict[tuple[str, str], Values] = {}
    for r in results:
        of = values.setdefault((r["set"], r["scale"]), {})
        of.setdefault(r["method"], []).append(r[measure])
    return values


def verdict(values: list[float], base: list[float]) -> str:
    """An arrow if the signed-rank test finds values above or below the base."""
    from scipy.stats import wilcoxon

    gain = np.subtract(values, base)
    if not np.isfinite(gain).all() or not gain.any() or not wilcoxon(gain).pvalue < SIGNIFICANT:
        return ""
    return " ↑" if np.median(gain) > 0 else " ↓"


def cells(of: Values) -> Iterator[str]:
    """Mean likelihoods with the verdict against moment matching."""
    for values in of.values():
        failed = int(np.isnan(values).sum())
        mean = f"{np.mean(values):.2f}{verdict(values, of[OBMM])}"
        yield f"fails in {failed} of {len(values)}" if failed else mean
