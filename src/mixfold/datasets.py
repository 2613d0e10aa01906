"""Example data of the package, and the folder of larger data sets."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

import numpy as np

from mixfold.core.errors import SourceError
from mixfold.core.rows import Array

DATA_HOME = "MIXFOLD_DATA"


def faithful_path() -> Path:
    """The CSV file of 272 eruptions of Old Faithful: length and waiting time in minutes."""
    return Path(str(files("mixfold") / "data" / "faithful.csv"))


def load_faithful() -> Array:
    """Old Faithful as an array (272, 2).

    Examples
    --------
    >>> load_faithful().shape
    (272, 2)
    """
    return np.loadtxt(faithful_path(), delimiter=",", skiprows=1)


def data_home(folder: str | Path | None = None) -> Path:
    """The folder of larger data sets: the argument, or the environment's MIXFOLD_DATA."""
    chosen = folder if folder is not None else os.environ.get(DATA_HOME)
    if chosen is None:
        raise SourceError(f"no data folder: give --data FOLDER or set {DATA_HOME}")
    if not Path(chosen).is_dir():
        raise SourceError(f"the data folder {str(chosen)!r} does not exist")
    return Path(chosen)
