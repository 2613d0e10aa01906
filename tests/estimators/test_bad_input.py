"""Bad rows, columns and streams get a clear error, and change nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from bad_input import (
    CALLS,
    COUNTS,
    LEARN,
    NAMED,
    NAMED_COUNTS,
    X,
    fitted,
    mixture,
    nothing_changes,
    refuses,
    spoiled,
)
from mixfold import GaussianMixture, Mixture
from mixfold.core.errors import (
    InvalidInputError,
)
from mixfold.core.value import equal

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")


# values


@pytest.mark.parametrize(
    "estimator", [Mixture(missing="error"), GaussianMixture()], ids=["Mixture", "GM"]
)
@pytest.mark.parametrize(("value", "named"), [(np.nan, "NaN"), (np.inf, "infinity")])
@pytest.mark.parametrize("method", [*CALLS, "predict_proba", "score_samples", "bic", "aic", "icl"])
def test_values_that_are_not_finite(estimator: Any, method: str, value: float, named: str) -> None:
    refuses(fitted(estimator, X), method, spoiled(X, value), named)


@pytest.mark.parametrize(
    ("family", "value", "needs"),
    [
        ("poisson", -1.0, "whole numbers >= 0"),
        ("poisson", 2.5, "whole numbers >= 0"),
        ("exponential", -0.5, "must be >= 0"),
        ("geometric", 2.5, "whole numbers >= 0"),
        ("multinomial", -1.0, "whole numbers >= 0"),
    ],
)
@pytest.mark.parametrize("method", CALLS)
def test_values_outside_the_support(method: str, family: str, value: float, needs: str) -> None:
    model = fitted(mixture(family), COUNTS)
    says = (family, needs, "row 151, column 2 ", f"is {value}")
    refuses(model, method, spoiled(COUNTS, value), *says)
    named = fitted(mixture(family), NAMED_COUNTS)
    table = pd.DataFrame(spoiled(COUNTS, value), columns=["a", "b"])
    refuses(named, method, table, needs, "row 151 (counted from 1), column 'b'", f"is {value}")


@pytest.mark.parametrize(
    ("family", "row", "says"),
    [
        ("gaussian", [1.0, np.nan], "nan"),
        ("gaussian", [1.0, np.inf], "inf"),
        ("gaussian", [1.0, 2.0, 3.0], "3"),
        ("poisson", [1.0, -2.0], "-2"),
        ("poisson", [1.0, 0.5], "0.5"),
        ("exponential", [1.0, -2.0], "-2"),
    ],
)
@pytest.mark.parametrize("kind", [np.array, list])
def test_learn_one(family: str, row: list[float], says: str, kind: Callable[..., Any]) -> None:
    model = mixture(family).partial_fit(COUNTS)
    given = kind(row)
    with nothing_changes(model), pytest.raises(ValueError, match=f"(?i){re.escape(says)}"):
        model.learn_one(given)
    model.learn_one(COUNTS[0])
    seen = model.n_seen_
    with nothing_changes(model), pytest.raises(ValueError, match=f"(?i){re.escape(says)}"):
        model.learn_one(given)
    assert model.learn_one(COUNTS[1]).n_seen_ == seen + 1


def test_learn_one_of_a_dict_goes_by_name() -> None:
    rows = [dict(zip("ab", row, strict=True)) for row in X]
    turned = [{name: row[name] for name in "ba"} for row in rows]
    straight, mixed, whole = mixture(new_columns="error"), mixture(), mixture()
    for i, row in enumerate(rows):
        straight.learn_one(row)
        mixed.learn_one(row if i % 2 == 0 else turned[i])
    assert equal(straight._now(), mixed._now())
    np.testing.assert_array_equal(straight.means_, whole.partial_fit(X).means_)
    assert straight.feature_names_in_.tolist() == ["a", "b"]
    for wrong in ({"a": 1.0}, {"a": 1.0, "c": 2.0}, {"a": 1.0, "b": 2.0, "c": 3.0}):
        with nothing_changes(straight), pytest.raises(InvalidInputError, match="columns"):
            straight.learn_one(wrong)
    straight.learn_one([1.0, 2.0])
    straight.learn_one(np.array([1.0, 2.0]))


# columns


@pytest.mark.parametrize("method", [m for m in CALLS if m != "fit"])
def test_columns_of_arrays_and_tables(method: str) -> None:
    model = fitted(mixture(), X)
    refuses(model, method, np.ones((9, 3)), "X has 3 features, but Mixture is expecting 2 features")
    named = fitted(mixture(), NAMED)
    refuses(named, method, NAMED[["b", "a"]], "must be in the same order")
    refuses(named, method, NAMED[["a"]], "now missing", "- b")
    refuses(named, method, NAMED.rename(columns={"a": "z"}), "unseen at fit time", "- z")
    polars = pl.DataFrame(X, schema=["b", "a"])
    refuses(named, method, polars, "must be in the same order")
    refuses(named, method, pa.table({"b": X[:, 0]}), "no column 'a'", "its columns are b")


@pytest.mark.parametrize("method", CALLS)
def test_shapes_and_types_of_arrays(method: str) -> None:
    model = fitted(mixture(), X)
    refuses(model, method, X[0], "Expected 2D array")
    refuses(model, method, X[None], "dim 3")
    refuses(model, method, np.empty((0, 2)), "0 sample(s)")
    refuses(model, method, np.empty((9, 0)), "0 feature(s)")
    refuses(model, method, X + 1j, "Complex data not supported")
    refuses(model, method, np.array([["a", "b"]]), "could not convert string to float")
    refuses(model, method, [], "2D array")
    refuses(model, method, 3, "2D array")
    refuses(model, method, object(), "not 'object'", kind=TypeError)


# streams


@pytest.mark.parametrize("method", CALLS)
def test_bad_streams(method: str) -> None:
    model = fitted(mixture(), X)
    refuses(model, method, iter([]), "empty")
    refuses(model, method, iter([X[:0]]), "empty")
    refuses(model, method, pa.table({"a": X[:0, 0], "b": X[:0, 1]}), "no rows")
    refuses(model, method, iter([X, X[:, :1]]), "a block has 1 columns, the first had 2")
    refuses(model, method, [X, X[:, :1]], "a block has 1 columns, the first had 2")
    refuses(model, method, iter(X), "shape (2,)")
    refuses(model, method, iter(["ab"]), "shape ()")
    refuses(
        model,
        method,
        iter([X, spoiled(X, np.nan)]),
        "row 351, column 2 (both counted from 1)",
        "NaN",
    )

    def breaks() -> Iterator[np.ndarray]:
        yield X
        raise RuntimeError("the generator's own")

    refuses(model, method, breaks(), "the generator's own", kind=RuntimeError)


@pytest.mark.parametrize("method", LEARN)
def test_blocks_of_tables_go_by_name(method: str) -> None:
    table = pa.table({"a": X[:, 0], "b": X[:, 1]})
    turned = pa.table({"b": X[:, 1], "a": X[:, 0]})
    model = getattr(mixture(), method)([table, turned])
    same = getattr(mixture(), method)([table, table])
    assert equal(model._learned.params, same._learned.params)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    refuses(model, method, [table, pa.table({"a": X[:, 0], "c": X[:, 1]})], "no column 'b'")
