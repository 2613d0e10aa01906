"""Tables of mixed columns of the data folder, as pandas frames of real numbers and categories.

Numbers of rows, dates and columns of many names are left out. Numbers of two values become
categories, and levels of fewer than 20 rows become one level, "other". Large tables are a sample of
5,000 rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mixfold.experiments.templates import read_table

LEFT_OUT: dict[str, list[str]] = {
    "penguins": [],
    "pbc": ["id"],
    "boys": [],
    "diamonds": [],
    "mlbench_housevotes84": [],
    "titanicsurvival": [],
    "wa_churn": [],
    "mplsstops": ["idNum", "date", "neighborhood"],
    "nmes_ofp_visits": [],
    "nyc_taxis": ["pickup", "dropoff", "pickup_zone", "dropoff_zone"],
}
MOST_ROWS, RARE, OTHER = 5_000, 20, "other"


def frame(name: str) -> Any:
    """A table: columns of float64, and of text or None."""
    import pandas as pd

    found = read_table(name, None).to_pandas().drop(columns=LEFT_OUT[name])
    if len(found) > MOST_ROWS:
        found = found.sample(MOST_ROWS, random_state=0)
    columns = {column: _column(found[column]) for column in found}
    return pd.DataFrame(columns).reset_index(drop=True)


def _column(values: Any) -> Any:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(values) and not is_bool_dtype(values) and values.nunique() > 2:
        return values.astype("float64")
    text = values.astype(object).map(str, na_action="ignore")
    counts = text.value_counts()
    text = text.where(~text.isin(counts.index[counts < RARE]), OTHER)
    return text.where(values.notna(), None)


def numbers(table: Any) -> list[str]:
    """The columns of real numbers."""
    return [column for column in table if table[column].dtype == np.float64]


def categories(table: Any) -> list[str]:
    """The columns of categories."""
    return [column for column in table if table[column].dtype != np.float64]
