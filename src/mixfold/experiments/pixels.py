"""The data sets of the annealed-gradient paper, scaled to [0, 1], in one random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixfold.core.errors import SourceError
from mixfold.datasets import data_home

HELD_OUT = 0.1
CLASSES = 10

Pixels = NDArray[np.float32]


@dataclass(frozen=True)
class Pictures:
    """Rows to learn from and to judge by, with classes 0, 1, ...; `whole` if as published."""

    name: str
    whole: bool
    learned: Pixels
    judged: Pixels
    learned_class: np.ndarray
    judged_class: np.ndarray

    def only(self, wanted: range) -> Pictures:
        """The same with these classes alone."""
        learns, judges = (np.isin(y, wanted) for y in (self.learned_class, self.judged_class))
        return Pictures(
            self.name,
            self.whole,
            self.learned[learns],
            self.judged[judges],
            self.learned_class[learns],
            self.judged_class[judges],
        )


@dataclass(frozen=True)
class Stored:
    """How a file of the data folder holds a set: two parts, or one that is split here."""

    rows: tuple[str, ...] = ("X_train", "X_test")
    labels: tuple[str, ...] = ("y_train", "y_test")
    whole: bool = False
    joined: bool = False

    def read(self, name: str, path: Path, n: int | None) -> Pictures:
        """At most n rows of each part."""
        with np.load(path) as arrays:
            x, y = [arrays[key] for key in self.rows], [arrays[key] for key in self.labels]
        if self.joined:
            x, y = _split(np.concatenate(x), np.concatenate(y))
        rng = np.random.default_rng(0)
        chosen = [rng.permutation(len(part))[:n] for part in y]
        low, high = (0.0, 255.0) if x[0].dtype == np.uint8 else (x[0].min(), x[0].max())
        scaled = [
            (part[rows].astype(np.float32) - np.float32(low)) / np.float32(high - low)
            for part, rows in zip(x, chosen, strict=True)
        ]
        classes = [part[rows] - y[0].min() for part, rows in zip(y, chosen, strict=True)]
        return Pictures(name, self.whole, scaled[0], scaled[1], classes[0], classes[1])


def _split(x: np.ndarray, y: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Nine tenths and one tenth of the rows of the first ten classes."""
    rows = np.random.default_rng(1).permutation(np.flatnonzero(y < CLASSES))
    parts = np.split(rows, [len(rows) - round(HELD_OUT * len(rows))])
    return [x[part] for part in parts], [y[part] for part in parts]


ALL = Stored(whole=True)
SETS = {
    "mnist": ALL,
    "fashion_mnist": ALL,
    "devanagari": Stored(whole=True, joined=True),
    "notmnist_10k": Stored(("X",), ("y",), joined=True),
    "fruits360_10c_32x32": Stored(),
    "svhn_crop_5k": Stored(),
    "isolet_part_1_5": Stored(("X_isolet1", "X_isolet5"), ("y_isolet1", "y_isolet5")),
}


def pictures(data: Path | None, n: int | None, names: tuple[str, ...]) -> Iterator[Pictures]:
    """Those of the sets that the data folder has, at most n rows of each part."""
    folder, found = data_home(data), 0
    for name in names:
        path = folder / f"{name}.npz"
        if path.is_file():
            found += 1
            yield SETS[name].read(name, path, n)
    if not found:
        raise SourceError(f"the data folder {str(folder)!r} has none of {', '.join(names)}")
