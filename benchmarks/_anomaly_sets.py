"""Labelled streams for the comparison of anomaly detectors.

Rows that are drawn from a class are drawn with a fixed seed, as sets of ODDS are made: most rows
of one kind, and a few of another, which are called anomalies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine

from mixfold.datasets import data_home
from mixfold.experiments.templates import read_table

IN_ORDER = ("kdd99_http", "kdd99_smtp", "covertype_2vs4", "shuttle")


@dataclass(frozen=True)
class Stream:
    """Rows in order, and whether each is an anomaly."""

    name: str
    x: np.ndarray
    y: np.ndarray

    def shuffled(self, seed: int) -> Stream:
        """The rows in another order; those of real streams keep theirs."""
        if self.name in IN_ORDER:
            return self
        order = np.random.default_rng(seed).permutation(len(self.x))
        return Stream(self.name, self.x[order], self.y[order])

    @property
    def first_scored(self) -> int:
        """The rows before this one are learned only."""
        return min(1000, max(50, len(self.x) // 4))


def one_class(
    x: np.ndarray, labels: np.ndarray, normal: list[Any], strange: list[Any], most: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of some classes, and at most so many of others."""
    rows = np.flatnonzero(np.isin(labels, strange))
    if most is not None and most < len(rows):
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    keep = np.sort(np.concatenate([np.flatnonzero(np.isin(labels, normal)), rows]))
    return x[keep], np.isin(labels[keep], strange)


def _numbers(frame: Any) -> np.ndarray:
    """Columns of numbers, with 0 for a missing cell, as in the set `pima` of ODDS."""
    return np.column_stack([np.nan_to_num(np.asarray(frame[c], dtype=float)) for c in frame])


def _table(
    name: str, label: str, normal: list[Any], strange: list[Any], most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    frame = read_table(name, None).to_pandas()
    labels = np.asarray(frame.pop(label))
    frame = frame.drop(columns=[c for c in ("Id", "ID", "V1") if c in frame and name != IONOSPHERE])
    return one_class(_numbers(frame), labels, normal, strange, most)


MOST = 30_000  # rows of the longest streams
IONOSPHERE, LETTERS = "mlbench_ionosphere", list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _part(rows: tuple[np.ndarray, np.ndarray], first: int) -> tuple[np.ndarray, np.ndarray]:
    """So many rows of a long stream, in their order."""
    return rows[0][first : first + MOST], rows[1][first : first + MOST]


def _shuttle() -> tuple[np.ndarray, np.ndarray]:
    from river import datasets

    rows = [(list(cells.values()), label) for cells, label in datasets.Shuttle()]
    x, y = np.array([row for row, _ in rows], dtype=float), np.array([y for _, y in rows]) > 0
    return _part((x, y), 0)


def _mnist() -> tuple[np.ndarray, np.ndarray]:
    """Digit 0 and 700 of digit 6, in 100 pixels that are drawn at random."""
    with np.load(data_home() / "mnist.npz") as arrays:
        x, labels = arrays["X_train"], arrays["y_train"]
    pixels = np.sort(np.random.default_rng(0).choice(x.shape[1], 100, replace=False))
    return one_class(x[:, pixels].astype(float), labels, [0], [6], 700)


def _digits() -> tuple[np.ndarray, np.ndarray]:
    x, labels = load_digits(return_X_y=True)
    return one_class(x, labels, list(range(1, 10)), [0], 48)


def _wine() -> tuple[np.ndarray, np.ndarray]:
    x, labels = load_wine(return_X_y=True)
    return one_class(x, labels, [1, 2], [0], 10)


SETS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "kdd99_http": lambda: _part(_table("kdd99_http", "anomaly", [0], [1]), 300_000),
    "kdd99_smtp": lambda: _part(_table("kdd99_smtp", "anomaly", [0], [1]), 40_000),
    "covertype_2vs4": lambda: _part(_table("covertype_2vs4", "anomaly", [0], [1]), 0),
    "shuttle": _shuttle,
    "magic": lambda: _table("magic", "class", ["g"], ["h"]),
    "mnist": _mnist,
    "letter": lambda: _table("mlbench_letterrecognition", "lettr", LETTERS[:3], LETTERS[3:], 100),
    "optdigits": _digits,
    "vowel": lambda: _table("mlbench_vowel", "Class", ["hYd", "had", "hOd"], ["hid"], 12),
    "pima": lambda: _table("mlbench_pimaindiansdiabetes2", "diabetes", ["neg"], ["pos"]),
    "breastw": lambda: _table("mlbench_breastcancer", "Class", ["benign"], ["malignant"]),
    "wdbc": lambda: _table("wdbc", "Diagnosis", ["B"], ["M"], 21),
    "ionosphere": lambda: _table(IONOSPHERE, "Class", ["good"], ["bad"]),
    "thyroid": lambda: _table("thyroid", "Diagnosis", ["Normal"], ["Hyper"]),
    "glass": lambda: _table("mlbench_glass", "Type", ["1", "2", "3", "5", "7"], ["6"]),
    "wine": _wine,
}


def load(name: str) -> Stream:
    """The stream of this name; the rows of classes are in the order of the file."""
    x, y = SETS[name]()
    return Stream(name, np.ascontiguousarray(x, dtype=np.float64), y.astype(bool))
