"""Estimates of lme4 and lmerTest, and the tables they are from; see `fits.R` beside them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mixfold.core.rows import Array

FOLDER = Path(__file__).parents[1] / "fixtures" / "mixed_models"


@cache
def _fits() -> pd.DataFrame:
    return pd.read_csv(FOLDER / "fits.csv", keep_default_na=False)


def estimates(model: str, quantity: str) -> Array:
    """The numbers of one model, in the order of lme4."""
    fits = _fits()
    chosen = fits[(fits["model"] == model) & (fits["quantity"] == quantity)]
    assert len(chosen), f"fits.csv has no {quantity} of {model}"
    return np.asarray(chosen["value"], dtype=np.float64)


def table(name: str) -> pd.DataFrame:
    """A small table beside the fits, or a larger one of the data folder; skip where that lacks."""
    if (FOLDER / f"{name}.csv").exists():
        return pd.read_csv(FOLDER / f"{name}.csv")
    if "MIXFOLD_DATA" not in os.environ:
        pytest.skip(f"{name}.parquet is needed: set MIXFOLD_DATA to the folder that has it")
    return pd.read_parquet(Path(os.environ["MIXFOLD_DATA"]) / f"{name}.parquet")
