"""Commands on tables of mixed columns: text, dates and missing cells."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import mixfold
from command_line import Run

N, FIRST = 120, datetime.date(2026, 1, 1)


@pytest.fixture
def visits(run: Run) -> str:
    """A file in the folder of the test."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=N)
    frame = pd.DataFrame(
        {
            "age": rng.normal(30.0 + 30.0 * z, 5.0),
            "plan": np.array(["a", "b", "c"])[rng.integers(2, size=N) + z],
            "day": [FIRST + datetime.timedelta(int(d)) for d in 9 * z + rng.integers(5, size=N)],
            "count": rng.poisson(2.0 + 6.0 * z),
        }
    )
    for column in ("age", "plan", "day"):
        frame.loc[rng.random(N) < 0.1, column] = None
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), "visits.parquet")
    return "visits.parquet"


@pytest.fixture
def fitted(run: Run, visits: str) -> str:
    code, _, err = run("fit", visits, "-k", "2", "--family", "auto", "-o", "m.mixfold")
    assert (code, err) == (0, "")
    return "m.mixfold"


def test_inspect_says_why_families_were_chosen(run: Run, fitted: str) -> None:
    code, out, _ = run("inspect", fitted)
    assert code == 0
    assert "categorical: values that are not numbers, 3 of them" in out
    assert "gaussian: dates, as days since 1970" in out


def test_filled_and_drawn_files_have_dates(run: Run, fitted: str, visits: str) -> None:
    assert run("impute", fitted, visits, "-o", "filled.parquet")[0] == 0
    filled, given = pq.read_table("filled.parquet"), pq.read_table(visits)
    assert filled.schema.field("day").type == given.schema.field("day").type == pa.date32()
    there = given["day"].is_valid()
    assert filled["day"].filter(there).equals(given["day"].filter(there))
    assert filled["day"].null_count == 0
    assert run("sample", fitted, "-n", "5", "-o", "drawn.csv")[0] == 0
    assert pa.csv.read_csv("drawn.csv").schema.field("day").type == pa.date32()


def test_arrays_hold_neither_text_nor_dates(run: Run, fitted: str) -> None:
    code, _, err = run("sample", fitted, "-n", "5", "-o", "drawn.npy")
    assert code != 0
    assert "column 'plan' is" in err
    assert ".csv or .parquet" in err


def test_learners_are_compared_on_mixed_columns(run: Run, visits: str) -> None:
    command = ("compare", visits, "-k", "2", "--family", "auto", "--learners", "em,online-em")
    code, out, err = run(*command, "--family-of", "count=poisson")
    assert (code, err) == (0, "")
    frame = pd.read_parquet(visits)
    rest = np.arange(N) % 10 != 9
    model = mixfold.Mixture("auto", 2, learner="em", overrides={"count": "poisson"}, random_state=0)
    expected = model.fit(frame[rest]).score(frame[~rest])
    line = next(line for line in out.splitlines() if line.split()[:1] == ["em"])
    assert float(line.split()[1]) == pytest.approx(expected, abs=2e-6)


def test_compare_names_text_where_numbers_are_needed(run: Run, visits: str) -> None:
    code, _, err = run("compare", visits, "-k", "2")
    assert code != 0
    assert "column 'plan' is" in err


def test_compare_takes_missing_cells(run: Run, visits: str) -> None:
    code, out, err = run(
        "compare", visits, "-k", "1", "--columns", "age,count", "--learners", "em,online-em"
    )
    assert (code, err) == (0, "")
    assert "failed" not in out


def changed(visits: str, **columns: object) -> str:
    """The same file with other columns."""
    frame = pd.read_parquet(visits).assign(**columns)
    frame.to_parquet("changed.parquet", index=False)
    return "changed.parquet"


BAD: dict[str, tuple[dict[str, object], tuple[str, ...], str]] = {
    "a family twice": (
        {},
        ("--family-of", "count=poisson", "--family-of", "count=gamma"),
        "--family-of 'count=gamma': count has a family already, Poisson",
    ),
    "a family twice in a group": (
        {},
        ("--family-of", "count=poisson", "--family-of", "age,count=gaussian"),
        "column 'count' has two families: give it one",
    ),
    "a family of no column": ({}, ("--family-of", "no=poisson"), "column 'no', which the data do"),
    "text with a family of numbers": ({}, ("--family-of", "plan=gamma"), "use Categorical()"),
    "lists": ({"plan": [[1]] * N}, (), "column 'plan' is list"),
    "no values": ({"age": None}, (), "column 'age' has no values in 120 rows: leave it out"),
    "outside the support": (
        {"count": -1},
        ("--family-of", "count=poisson"),
        "row 1 (counted from 1), column 'count' is -1.0: values must be whole numbers >= 0",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_tables_that_cannot_be_fitted(run: Run, visits: str, name: str) -> None:
    columns, options, says = BAD[name]
    code, _, err = run("fit", changed(visits, **columns), "-k", "1", "--family", "auto", *options)
    assert code != 0
    assert says in " ".join(err.split())


@pytest.mark.parametrize("command", ["score", "impute"])
def test_a_table_with_other_categories(run: Run, fitted: str, visits: str, command: str) -> None:
    code, _, err = run(command, fitted, changed(visits, plan="d"), "-o", "out.csv")
    assert code != 0
    assert "column 'plan' has 'd', which was not in the data of fit; known are a, b, c" in err
    assert "--unseen own-level" in err
