"""Calls that a new user gets wrong are refused with the remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from mixfold import Mixture, Poisson
from mixfold.errors import InvalidInputError

X = np.random.default_rng(0).normal(size=(50, 2))


@pytest.mark.parametrize(
    "column", [pd.Series(X[:, 0]), pl.Series(X[:, 0])], ids=["pandas", "polars"]
)
def test_a_single_column_is_no_table(column: object) -> None:
    model = Mixture(n_components=2, random_state=0)
    with pytest.raises(InvalidInputError, match=r"one column.*to_frame"):
        model.fit(column)
    model.fit(X[:, :1])
    with pytest.raises(InvalidInputError, match=r"one column.*to_frame"):
        model.predict(column)


def test_a_function_is_to_be_called() -> None:
    def blocks() -> list[np.ndarray]:
        return [X]

    with pytest.raises(InvalidInputError, match=r"has no rows.*X\(\)"):
        Mixture(n_components=2).fit(blocks)


def test_attributes_that_a_family_has_not() -> None:
    model = Mixture(Poisson(), 2, random_state=0).fit(np.abs(X).round())
    with pytest.raises(AttributeError, match="the poisson family has none"):
        _ = model.covariances_
