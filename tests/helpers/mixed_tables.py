"""Tables of groups for linear mixed models."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mixfold.core.rows import Array


def table_of(m: int, seed: int = 0) -> pd.DataFrame:
    """Pupils in schools, of 1 to 12 pupils, in random order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, size=m)
    school = np.repeat(np.arange(m), sizes)
    x = rng.normal(size=len(school))
    kind = rng.choice(["a", "b", "c"], size=len(school))
    slope = rng.multivariate_normal([0, 0], [[2.0, 0.3], [0.3, 0.5]], size=m)[school]
    y = 100 + 3 * x + (kind == "b") + slope[:, 0] + slope[:, 1] * x + rng.normal(size=len(x))
    table = pd.DataFrame({"y": y, "x": x, "kind": kind, "school": school})
    table["name"] = [f"school {s}" for s in school]
    return table.sample(frac=1.0, random_state=seed, ignore_index=True)


def arrays_of(table: pd.DataFrame) -> tuple[Array, Array, Array]:
    return table[["x"]].to_numpy(), table["y"].to_numpy(), table["school"].to_numpy()
