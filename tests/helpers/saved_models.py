"""Rows of models that are saved, and whether two models are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mixfold.core.family import Family
from mixfold.core.value import equal

COUNTS = np.random.default_rng(0).poisson(3.0, size=(300, 2)).astype(float)
NAMED = pd.DataFrame(COUNTS, columns=["a", "b"])
PROPORTIONS = 0.1 + COUNTS / 20.0


def rows_of(model: Any) -> np.ndarray:
    """Counts or, where the family does not accept them, numbers between 0 and 1."""
    family = getattr(model, "family", None)
    outside = family.out_of_support(COUNTS) if isinstance(family, Family) else None
    return COUNTS if outside is None or not outside.any() else PROPORTIONS


def named_rows_of(model: Any) -> pd.DataFrame:
    """The same rows, with names of columns."""
    return pd.DataFrame(rows_of(model), columns=NAMED.columns)


def shown(model: Any) -> set[str]:
    """Names of the fitted attributes; those of rows learned one by one are made when asked for."""
    names = {*vars(model), *getattr(model, "_shows", ())}
    family = getattr(getattr(model, "model_", None), "family", None)
    if isinstance(family, Family):
        names |= {f"{name}_" for name in family.attributes(model.params_.components)}
    return {name for name in names if name.endswith("_") and hasattr(model, name)}


def same(a: Any, b: Any) -> None:
    """Two estimators agree to the bit in all they have learned and show."""
    assert type(a) is type(b)
    assert equal(a._now(), b._now())
    assert shown(a) == shown(b)
    assert a.n_features_in_ == b.n_features_in_
    assert [*getattr(a, "feature_names_in_", [])] == [*getattr(b, "feature_names_in_", [])]
    rows = named_rows_of(a) if hasattr(a, "feature_names_in_") else rows_of(a)
    np.testing.assert_array_equal(a.score_samples(rows), b.score_samples(rows))
