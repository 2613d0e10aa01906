"""Products of families for a device, with and without missing cells, and rows of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gpu_rows import rng
from mixfold import Gaussian, Poisson, Product
from mixfold.core.family import Family
from mixfold.core.rows import Rows
from mixfold.families.bernoulli import Bernoulli
from mixfold.families.categorical import Categorical
from mixfold.families.exponential import Exponential
from mixfold.families.geometric import Geometric
from mixfold.families.incomplete_rows import with_missing
from mixfold.models.mixture_model import MixtureModel, MixtureParams
from mixfold.testing import families

MIXED: Any = {
    3: Poisson(),
    0: Gaussian(),
    (1, 5): Gaussian("diag"),
    2: Categorical(3),
    4: Bernoulli(),
    6: Exponential(),
    7: Categorical(40),
}
COMPLETE: list[Family] = [
    Product(MIXED),
    Product({1: Geometric(), 0: Poisson()}),
    Product({0: Gaussian(), 1: Gaussian()}),
    Product({0: Categorical(2)}),
    Categorical(4),
]
WITH_HOLES = [
    with_missing(family)
    for family in (*COMPLETE, Gaussian("diag"), Poisson(), Bernoulli(), Exponential())
]


def example(family: Family, k: int, n: int) -> tuple[MixtureModel, MixtureParams, np.ndarray]:
    """Rows of which some cells are missing, and one row has none, if the family accepts that."""
    model, params, x = families.example_mixture(family, k, family.n_columns or 3, n, rng())
    if family.accepts_missing:
        x[rng().random(x.shape) < 0.3] = np.nan
        x[:1] = np.nan
    return model, params, x


def on_device(rows: Rows, device: str) -> Rows:
    weight: Any = None if rows.weight is None else torch.tensor(rows.weight, device=device)
    x: Any = torch.tensor(rows.x, device=device)
    return Rows(x, weight)
