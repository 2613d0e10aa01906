"""Calls that must be refused, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.base import clone

from mixfold import Mixture
from mixfold.core.value import equal, flatten, unflatten

X = np.random.default_rng(0).normal(size=(200, 2))
COUNTS = np.random.default_rng(1).poisson(3.0, size=(200, 2)).astype(float)
NAMED = pd.DataFrame(X, columns=["a", "b"])
NAMED_COUNTS = pd.DataFrame(COUNTS, columns=["a", "b"])
FITTED: dict[tuple[str, int], Any] = {}


def mixture(family: Any = "gaussian", **settings: Any) -> Mixture:
    """A mixture that refuses missing values, unless it is told otherwise."""
    return Mixture(family, n_components=2, random_state=0, **{"missing": "error"} | settings)


def fitted(estimator: Any, rows: Any) -> Any:
    """A copy of the estimator fitted to one of the tables above, which is done only once."""
    key = repr(estimator), id(rows)
    if key not in FITTED:
        FITTED[key] = clone(estimator).fit(rows)
    return deepcopy(FITTED[key])


def copied(thing: Any) -> Any:
    arrays: dict[str, np.ndarray] = {}
    tree = flatten(thing, "thing", arrays)
    return unflatten(tree, {name: array.copy() for name, array in arrays.items()})


@contextmanager
def nothing_changes(model: Any) -> Iterator[None]:
    """The model is the same to the bit afterwards, and so is everything it shows."""
    learned = copied(model._learned)
    shown = {name: getattr(model, name) for name in vars(model) if name.endswith("_")}
    kept = {name: copied(part) for name, part in shown.items() if name != "feature_names_in_"}
    names = [*shown.get("feature_names_in_", [])]
    yield
    model._now()
    assert equal(model._learned, learned)
    assert {n for n in vars(model) if n.endswith("_")} == set(shown)
    assert all(equal(getattr(model, name), part) for name, part in kept.items())
    assert [*getattr(model, "feature_names_in_", [])] == names


def refuses(
    model: Any, method: str, data: Any, *says: str, kind: type[Exception] = ValueError, **more: Any
) -> None:
    """A call fails with a message that has all of `says`, and the model stays as it was."""
    with nothing_changes(model), pytest.raises(kind) as caught:
        getattr(model, method)(data, **more)
    for part in says:
        assert part in str(caught.value)


def spoiled(x: np.ndarray, value: float, row: int = 150) -> np.ndarray:
    x = x.copy()
    x[row, 1] = value
    return x


CALLS = ["fit", "partial_fit", "predict", "score"]
LEARN = ["fit", "partial_fit"]


def write(folder: Path, name: str, table: Any) -> Path:
    path = folder / name
    if name.endswith("csv"):
        pyarrow.csv.write_csv(table, path)
    elif name.endswith("parquet"):
        pyarrow.parquet.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path)
    return path


# model files and checkpoints


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
