"""Real data sets with labels, which learners do not use: their columns and components."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mixfold.core.rows import Array
from mixfold.datasets import data_home
from mixfold.experiments.templates import read_table

SCORES = 20
ROUNDING = 1e-12
FULL, DIAG = "full", "diag"


@dataclass(frozen=True)
class Labelled:
    """Rows, their classes as numbers, and the covariance structure that suits their number."""

    name: str
    x: Array
    labels: np.ndarray
    covariance: str = FULL

    @property
    def k(self) -> int:
        """A component for every class."""
        return int(self.labels.max()) + 1


@dataclass(frozen=True)
class Table:
    """A table with a label; columns that must not be learned from are left out."""

    label: str
    without: tuple[str, ...] = ()

    def read(self, name: str, n: int, data: Path) -> Labelled:
        """At most n rows, drawn from all over the file."""
        table = read_table(name, data)
        columns = [c for c in table.column_names if c not in (self.label, *self.without)]
        chosen = some_of(table.num_rows, n)
        x = np.column_stack([table[c].to_numpy()[chosen].astype(np.float64) for c in columns])
        labels = table[self.label].to_numpy()[chosen]
        return Labelled(name, x, numbered(labels))


@dataclass(frozen=True)
class Pictures:
    """Arrays of pixels or of many features, on their leading principal components."""

    rows: tuple[str, ...] = ("X_train", "X_test")
    labels: tuple[str, ...] = ("y_train", "y_test")
    covariance: str = FULL

    def read(self, name: str, n: int, data: Path) -> Labelled:
        """Scores of at most n pictures."""
        from sklearn.decomposition import PCA

        with np.load(data / f"{name}.npz") as arrays:
            y = np.concatenate([arrays[key] for key in self.labels])
            chosen = some_of(len(y), n)
            x = np.concatenate([arrays[key] for key in self.rows])[chosen].astype(np.float32)
        pca = PCA(SCORES, svd_solver="randomized", random_state=0)
        scores = pca.fit_transform(x).astype(np.float64)
        return Labelled(name, scores, numbered(y[chosen]), self.covariance)


# the last three are constant over the first 38% of the stream: a point mass in three columns
ELEC2 = ("date", "day", "vicprice", "vicdemand", "transfer")
SPEECH = ("utterance", "female", "test")
SETS: dict[str, Table | Pictures] = {
    "flea": Table("species"),
    "iris": Table("Species"),
    "elki_mouse": Table("label"),
    "transfusion": Table("donated_2007", ("monetary",)),  # 250 times the frequency
    "banknote": Table("class"),
    "abalone": Table("sex"),
    "magic": Table("class"),
    "elec2": Table("class", ELEC2),
    "kdd99_smtp": Table("anomaly"),
    "kdd99_http": Table("anomaly"),
    "covertype_2vs4": Table("anomaly"),
    "spoken_arabic_digit": Table("digit", SPEECH),
    "mnist": Pictures(),
    "fashion_mnist": Pictures(),
    "notmnist_10k": Pictures(("X",), ("y",)),
    "fruits360_10c_32x32": Pictures(),
    "svhn_crop_5k": Pictures(),
    # too few rows per class for a full covariance each
    "isolet_part_1_5": Pictures(("X_isolet1", "X_isolet5"), ("y_isolet1", "y_isolet5"), DIAG),
    "devanagari": Pictures(covariance=DIAG),
}


def labelled_sets(data: Path | None, n: int) -> Iterator[Labelled]:
    """Every set the data folder has, at most n rows of each."""
    folder = data_home(data)
    for name, reader in SETS.items():
        suffix = "parquet" if isinstance(reader, Table) else "npz"
        if (folder / f"{name}.{suffix}").is_file():
            yield reader.read(name, n, folder)


def some_of(length: int, n: int) -> np.ndarray:
    """At most n row numbers in order, the same in every run."""
    chosen = np.random.default_rng(0).permutation(length)[:n]
    return np.sort(chosen)


def numbered(labels: Any) -> np.ndarray:
    """Classes as 0, 1, 2, ..."""
    return np.asarray(np.unique(np.asarray(labels), return_inverse=True)[1])


def standardised(learned: Array, judged: Array) -> tuple[Array, Array]:
    """Both parts, in units of the first."""
    centre, scale = learned.mean(axis=0), learned.std(axis=0)
    # of a constant column rounding may leave a little
    scale = np.where(scale > ROUNDING * np.abs(centre), scale, 1.0)
    return (learned - centre) / scale, (judged - centre) / scale
