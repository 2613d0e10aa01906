"""Pages of real tables are made from a data folder, and the committed ones are complete."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from make_table_pages import MOST_COMPONENTS, PAGES, main, make_page, write_index
from matplotlib.image import imread
from table_profiles import order_by_likeness, profile
from table_texts import TABLES, TableText

ROOT = Path(__file__).parents[2]
TEXT = TableText(
    "animals",
    "Animals",
    "Animals that were made up.",
    "Large and small ones.",
    left_out=("key",),
    left_out_because="The key is left out.",
    overrides={"young": "negative-binomial"},
    overrides_because="Animals have young of their own number.",
    labels={"weight": "weight, kg"},
)


def animals() -> pd.DataFrame:
    """Two groups that differ in all columns but the last, with missing cells."""
    rng = np.random.default_rng(0)
    n = 300
    large = rng.random(n) < 0.3
    colours = np.where(large, rng.choice(["grey", "brown"], n), rng.choice(["red", "brown"], n))
    table = pd.DataFrame(
        {
            "key": [f"animal {i}" for i in range(n)],
            "weight": rng.normal(np.where(large, 90.0, 20.0), 4.0),
            "young": rng.poisson(np.where(large, 1.0, 9.0)).astype(float),
            "colour": colours,
            "wild": rng.random(n) < np.where(large, 0.9, 0.2),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D"),
        }
    )
    table.loc[rng.random(n) < 0.1, ["weight", "colour"]] = None
    return table


def one_hot(labels: np.ndarray, k: int) -> np.ndarray:
    return np.asarray(np.eye(k)[labels])


def test_a_page_is_made_from_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    animals().to_parquet(tmp_path / "animals.parquet")
    line = make_page(TEXT, tmp_path, tmp_path / "pages", most=3)
    page = (tmp_path / "pages" / "animals.md").read_text()
    assert line.startswith("| [Animals](animals.md) | 300 x 5 | ")
    assert line.endswith(" | 2 |")
    assert "BIC is least with 2 of 1 to 3 components." in page
    assert "| NegativeBinomial | as given | `young` |" in page
    assert "components. Animals have young of their own number." in " ".join(page.split())
    assert "Large and small ones." in page
    assert "`key`" not in page
    assert imread(tmp_path / "pages" / "animals.png").shape[1] == 1200
    # what the page tells readers to run gives the fit of the page
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    variables: dict[str, object] = {}
    exec(code, variables)
    assert len(variables["best"].weights_) == 2  # type: ignore[attr-defined]


def test_a_profile_has_means_and_shares_of_the_rows_of_components() -> None:
    table = animals().drop(columns="key")
    labels = (table["young"] > 4).to_numpy().astype(int)
    choices = [
        SimpleNamespace(column="colour", levels=("brown", "grey", "red")),
        SimpleNamespace(column="wild", levels=(False, True)),
    ]
    lines = profile(table, choices, one_hot(labels, 2), {"weight": "weight, kg"})
    found = {line.label: line for line in lines}
    weights = table["weight"].groupby(labels).mean()
    expected = tuple(f"{x:.0f}" for x in (table["weight"].mean(), weights[0], weights[1]))
    assert found["weight, kg"].texts == expected
    deviations = (weights - table["weight"].mean()) / table["weight"].std(ddof=0)
    np.testing.assert_allclose(found["weight, kg"].deviations, deviations)
    red = (table["colour"] == "red")[table["colour"].notna()]
    shares = red.groupby(labels[table["colour"].notna()]).mean()
    expected = tuple(f"{x:.0%}" for x in (red.mean(), shares[0], shares[1]))
    assert found["colour: red"].texts == expected
    assert found["wild"].texts[0] == f"{table['wild'].mean():.0%}"
    assert found["seen"].texts[0] == table["seen"].mean().strftime("%b %Y")


def test_a_component_without_observed_cells_has_a_dash() -> None:
    table = pd.DataFrame({"x": [1.0, 2.0, np.nan, np.nan], "y": [1.0, 2.0, 3.0, 5.0]})
    x, y = profile(table, [], one_hot(np.array([0, 0, 1, 1]), 2), {})
    assert x.texts == ("1.50", "1.50", "–")
    assert np.isnan(x.deviations[1])
    assert y.texts == ("2.8", "1.5", "4.0")


def test_levels_that_repeat_a_line_are_left_out_and_many_levels_are_shortened() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    internet = np.where(labels == 0, "none", "dsl")
    table = pd.DataFrame({"internet": internet})
    choices = [SimpleNamespace(column="internet", levels=("dsl", "none"))]
    for j in range(12):
        name, other = f"service {j}", rng.choice(["a", "b"], 600)
        table[name] = np.where(internet == "none", "none", other)
        choices.append(SimpleNamespace(column=name, levels=("a", "b", "none")))
    lines = profile(table, choices, one_hot(labels, 3), {})
    assert [line.label for line in lines if "none" in line.label] == ["internet: none"]
    assert {line.label.partition(":")[0] for line in lines} == set(table.columns)
    assert len(lines) <= 27


def test_components_that_are_alike_stand_side_by_side() -> None:
    x = np.repeat([50.0, 1.0, 49.0, 0.0, 25.0], 20) + np.tile(np.arange(20.0), 5) / 10.0
    table = pd.DataFrame({"x": x, "y": -x})
    groups = one_hot(np.repeat(np.arange(5), 20), 5)
    assert order_by_likeness(profile(table, [], groups, {})).tolist() == [3, 1, 4, 2, 0]
    table["z"] = np.where(x > 20.0, 1000.0 * x, np.nan)  # not observed in two of them
    assert order_by_likeness(profile(table, [], groups, {})).tolist() == [3, 1, 4, 2, 0]
    assert sorted(order_by_likeness(profile(table[["z"]], [], groups, {}))) == [0, 1, 2, 3, 4]


def test_without_a_data_folder_the_message_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("MIXFOLD_DATA", raising=False)
    with pytest.raises(SystemExit, match="set MIXFOLD_DATA"):
        main(["--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"has no penguins\.parquet"):
        main(["--out", str(tmp_path), "--data", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


def test_the_list_of_tables_keeps_the_lines_of_other_tables(tmp_path: Path) -> None:
    write_index(tmp_path, "boys", "| [Boys](boys.md) | 1 |")
    write_index(tmp_path, "penguins", "| [Penguins](penguins.md) | 1 |")
    write_index(tmp_path, "boys", "| [Boys](boys.md) | 2 |")
    lines = (tmp_path / "index.md").read_text().splitlines()
    assert lines[-2:] == ["| [Penguins](penguins.md) | 1 |", "| [Boys](boys.md) | 2 |"]
    assert lines[0] == "# Real tables"


def test_an_unknown_table_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pinguins"])
    assert "no text of table 'pinguins': choose from penguins" in capsys.readouterr().err


def test_pages_of_all_tables_are_committed_and_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    listed = (PAGES / "index.md").read_text()
    for text in TABLES:
        page = (PAGES / f"{text.name}.md").read_text()
        assert page.startswith(f"# {text.title}\n")
        assert " ".join(text.meaning.split()) in " ".join(page.split())
        assert f"range(1, {MOST_COMPONENTS + 1})" in page
        assert (PAGES / f"{text.name}.png").is_file()
        assert f"({text.name}.md)" in listed
        assert f": real-tables/{text.name}.md" in navigation
