"""Checkpoints resumed with other data, or with other settings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from attacks import Attack
from mixfold import EM, Mixture, OnlineEM
from mixfold.core.errors import LearningWarning, ModelFileError
from mixfold.core.value import equal

Data = tuple[np.ndarray, np.ndarray, list[str]]
Write = Callable[[Data, Path], tuple[Any, Any]]
"""Makes what `fit` takes, and weights, from rows, weights and names of columns."""
Change = Callable[[Data, np.random.Generator], Data]

NAMES = ["a", "b", "c"]


def some(rng: np.random.Generator, n: int = 60) -> Data:
    """Rows of two clear clusters, in numbers that single precision and text can hold."""
    x = np.round(rng.normal(size=(n, 3)) + 6.0 * rng.integers(2, size=(n, 1)), 3)
    return x.astype(np.float32).astype(float), rng.integers(1, 4, n).astype(float), NAMES


def frame(data: Data) -> pd.DataFrame:
    x, weight, names = data
    return pd.DataFrame(x, columns=names).assign(w=weight)


def arrow_table(data: Data) -> pa.Table:
    return pa.table(dict(frame(data).items()))


def _two_files(data: Data, folder: Path) -> tuple[Any, Any]:
    whole = frame(data)
    whole[:20].to_parquet(folder / "one.parquet")
    whole[20:].to_parquet(folder / "two.parquet")
    return [folder / "one.parquet", folder / "two.parquet"], "w"


def _file(name: str, write: Callable[[Data, Path], Any]) -> Write:
    def made(data: Data, folder: Path) -> tuple[Any, Any]:
        write(data, folder / name)
        return folder / name, None if name.endswith("npy") else "w"

    return made


SOURCES: dict[str, Write] = {
    "array": lambda data, folder: (data[0], None),
    "weighted array": lambda data, folder: (data[0], data[1]),
    "frame": lambda data, folder: (frame(data), "w"),
    "table": lambda data, folder: (arrow_table(data), "w"),
    "blocks": lambda data, folder: ([data[0][:25], data[0][25:]], None),
    "npy": _file("x.npy", lambda data, path: np.save(path, data[0])),
    "csv": _file("x.csv", lambda data, path: frame(data).to_csv(path, index=False)),
    "parquet": _file("x.parquet", lambda data, path: frame(data).to_parquet(path)),
    "feather": _file("x.feather", lambda data, path: frame(data).to_feather(path)),
    "two files": _two_files,
}
UNWEIGHTED, UNNAMED = {"array", "blocks", "npy"}, {"array", "weighted array", "blocks", "npy"}


def _cell(data: Data, rng: np.random.Generator) -> Data:
    x = data[0].copy()
    x[rng.integers(len(x)), rng.integers(3)] += 2.0**-5
    return x, *data[1:]


def _weight(data: Data, rng: np.random.Generator) -> Data:
    weight = data[1].copy()
    weight[rng.integers(len(weight))] += 1.0
    return data[0], weight, data[2]


def _order(data: Data, rng: np.random.Generator) -> Data:
    i, j = rng.choice(len(data[0]), 2, replace=False)
    order = np.arange(len(data[0]))
    order[[i, j]] = j, i
    return data[0][order], data[1][order], data[2]


def _columns(data: Data, rng: np.random.Generator) -> Data:
    return data[0][:, ::-1], data[1], data[2][::-1]


def _narrow(data: Data, rng: np.random.Generator) -> Data:
    return data[0].astype(np.float32), *data[1:]


def _other(data: Data, rng: np.random.Generator) -> Data:
    return some(rng)


def _fewer(data: Data, rng: np.random.Generator) -> Data:
    return data[0][:-1], data[1][:-1], data[2]


def _renamed(data: Data, rng: np.random.Generator) -> Data:
    return *data[:2], ["a", "b", "d"]


CHANGES: dict[str, Change] = {
    "one cell": _cell,
    "one weight": _weight,
    "two rows swapped": _order,
    "columns turned round": _columns,
    "a column renamed": _renamed,
    "single precision": _narrow,
    "other rows": _other,
    "a row less": _fewer,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "another seed": {"random_state": 1},
    "more components": {"n_components": 3},
    "another learner": {"learner": OnlineEM()},
    "another start": {"init": "random-rows"},
    "more starts": {"n_init": 2},
    "another family": {"family": "exponential"},
}


def changes_of(source: str) -> list[str]:
    """Changes that make other data of a source of this kind."""
    left = set(CHANGES)
    if source in UNWEIGHTED:
        left -= {"one weight"}
    if source in UNNAMED:
        left -= {"a column renamed"}
    if source == "csv":
        left -= {"single precision"}  # the text is the same
    return sorted(left)


def mixture(**more: Any) -> Mixture:
    learner = EM(tol=0.0, max_iter=4)
    settings: dict[str, Any] = {"n_components": 2, "learner": learner, "random_state": 0}
    return Mixture(**{**settings, **more})


class Case:
    """A checkpoint of a fit to data of one kind, in a folder of its own."""

    def __init__(self, source: str, rng: np.random.Generator, folder: Path, passes: int) -> None:
        self.write, self.folder = SOURCES[source], folder
        self.kept = folder / "kept"
        self.before, self.after = folder / "before", folder / "after"
        for made in (folder, self.before, self.after):
            made.mkdir()
        self.data = some(rng)
        rows, weight = self.write(self.data, self.before)
        self.alone = mixture().fit(rows, sample_weight=weight)
        mixture(max_iter=passes, checkpoint=self.kept).fit(rows, sample_weight=weight)

    def resume(self, data: Data, resume: Any = True, **more: Any) -> Mixture:
        """Go on with data written elsewhere."""
        rows, weight = self.write(data, self.after)
        model = mixture(checkpoint=self.kept, resume=resume, **more)
        return model.fit(rows, sample_weight=weight)

    def refuses(self, data: Data, **more: Any) -> None:
        """Go on with something else, which must not work."""
        whole = self.kept.read_bytes()
        try:
            self.resume(data, **more)
        except ModelFileError as error:
            message = str(error)
        else:
            raise AssertionError("it was resumed")
        assert "another fit" in message, message
        assert self.kept.read_bytes() == whole, "the checkpoint was changed"

    def resumes(self) -> None:
        """Go on with the same data."""
        found = self.resume(self.data)
        assert equal(found.params_, self.alone.params_), "the bits differ"

    def can_be_forced(self, data: Data) -> None:
        """Go on with other data, with a warning."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.resume(data, resume="force")
        assert any(w.category is LearningWarning and "other data" in str(w.message) for w in told)


def attack(source: str, what: str, rng: np.random.Generator, folder: Path, passes: int) -> None:
    """One checkpoint, resumed in one way."""
    case = Case(source, rng, folder, passes)
    if what == "nothing":
        case.resumes()
    elif what in SETTINGS:
        case.refuses(case.data, **SETTINGS[what])
    else:
        changed = CHANGES[what](case.data, rng)
        case.refuses(changed)
        if what in ("one cell", "two rows swapped"):
            case.can_be_forced(changed)


def attacks(rng: np.random.Generator, folder: Path) -> Iterator[Attack]:
    """Checkpoints of all kinds of data, half of them complete, resumed with one change."""
    sources = list(SOURCES)
    for number in count():
        source = sources[number % len(sources)]
        what = str(rng.choice([*changes_of(source), *SETTINGS, "nothing"]))
        seed, passes = int(rng.integers(2**31)), int(rng.choice([2, 4]))
        place = folder / f"resuming-{number}"

        def run(
            source: str = source,
            what: str = what,
            seed: int = seed,
            place: Path = place,
            passes: int = passes,
        ) -> None:
            attack(source, what, np.random.default_rng(seed), place, passes)

        yield Attack(f"{source}, {what} changed, after {passes} passes (seed {seed})", run)
