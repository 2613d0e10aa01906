"""Tables for the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

SCRIPT = str(Path(sys.executable).with_name("mixfold"))
Run = Callable[..., tuple[int, str, str]]


def table(n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    label = rng.integers(2, size=n)
    x = rng.normal(size=(n, 2)) + np.array([[0.0, 50.0], [6.0, 80.0]])[label]
    return pa.table({"length": x[:, 0], "wait": x[:, 1], "w": np.ones(n)})
