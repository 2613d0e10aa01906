"""Pages of real tables: chosen families, number of components, a picture, what components are.

    MIXFOLD_DATA=FOLDER python docs/make_table_pages.py [NAME ...]

Writes docs/real-tables/NAME.md and NAME.png for all tables of `table_texts.py`, or for those named,
and their lines of the list of tables, index.md. The folder has NAME.parquet.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from table_pictures import draw_table
from table_profiles import order_by_likeness, profile
from table_texts import TABLES, TableText

from mixfold import Mixture
from mixfold.core.errors import SourceError
from mixfold.experiments.templates import read_table

PAGES = Path(__file__).parent / "real-tables"
MOST_COMPONENTS = 8
INDEX = """# Real tables

{about}

| table | rows x columns | missing cells | families | K |
|---|---|---|---|---|
{lines}
"""
ABOUT = (
    '`Mixture("auto")` fitted to tables as they are, with categories, counts, dates and missing '
    "cells: which families were chosen, how many components of 1 to {most} have the least BIC, and "
    "what they are. A page says so where a family was given instead. The tables are those of R "
    "packages and of seaborn; they are not part of mixfold. The pages are made by "
    "`MIXFOLD_DATA=FOLDER python docs/make_table_pages.py`."
)
PAGE = """# {title}

{about}

{meaning}

![{title}: BIC, weights and profiles of the components]({name}.png)

{caption}

## Number of components

{bic}

## Families

| family | the column has | columns |
|---|---|---|
{families}

## Run it

```python
{code}```
"""
CAPTION = (
    "Above, BIC and the weights. Below, the mean of every column in all rows and in every "
    "component, or the share of a level; colours are differences from all rows in standard "
    "deviations, red above and blue below. Of categories with several levels, those in which "
    "components differ most are shown. Components that are alike stand side by side."
)
CODE = """import pandas as pd
from mixfold import Mixture

table = pd.read_parquet("{name}.parquet"){drop}
{models}
best = min(models, key=lambda model: model.bic(table))
for choice in best.chosen_families_:
    print(choice.column, choice.family, choice.reason)
print(best.weights_)
"""


@dataclass(frozen=True)
class Fits:
    """The best of the fits of a table, BIC of all, and what its fit warned of."""

    best: Any
    bics: list[float]
    warned: list[str]


def fit_table(table: Any, overrides: Mapping[str, str], most: int) -> Fits:
    """Mixtures of 1 to `most` components, as in the code that the page shows."""
    models, bics, warned = [], [], []
    for k in range(1, most + 1):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = Mixture("auto", k, overrides=dict(overrides) or None, random_state=0)
            models.append(model.fit(table))
        warned.append([str(one.message).partition(":")[0] for one in caught])
        bics.append(float(models[-1].bic(table)))
    least = int(np.argmin(bics))
    return Fits(models[least], bics, warned[least])


def make_page(text: TableText, data: Path | None, out: Path, most: int = MOST_COMPONENTS) -> str:
    """Write page and picture of a table; returns its line of the list of tables."""
    table = read_table(text.name, data).to_pandas().drop(columns=list(text.left_out))
    fits = fit_table(table, text.overrides, most)
    shares, choices = fits.best.predict_proba(table), fits.best.chosen_families_
    order = order_by_likeness(profile(table, choices, shares, text.labels))
    lines = profile(table, choices, shares[:, order], text.labels)
    out.mkdir(parents=True, exist_ok=True)
    draw_table(out / f"{text.name}.png", fits.bics, fits.best.weights_[order], lines)
    page = page_text(text, table, fits)
    (out / f"{text.name}.md").write_text(page, encoding="utf-8")
    return index_line(text, table, fits)


def page_text(text: TableText, table: Any, fits: Fits) -> str:
    """The page in Markdown."""
    drop = f".drop(columns={json.dumps(text.left_out)})" if text.left_out else ""
    size = f"{len(table):,} rows and {len(table.columns)} columns"
    holes = (
        f"{missing(table):.1%} of the cells are missing" if missing(table) else "no cell is missing"
    )
    about = " ".join([text.about, text.left_out_because, f"There are {size}; {holes}."])
    models = models_code(text.overrides, len(fits.bics))
    warned = [f"The fit warns: {'; '.join(fits.warned)}."] if fits.warned else []
    return PAGE.format(
        title=text.title,
        name=text.name,
        about=paragraph(about),
        meaning=paragraph(text.meaning),
        caption=paragraph(CAPTION),
        bic=paragraph(" ".join([bic_text(fits.bics), text.overrides_because, *warned])),
        families="\n".join(family_lines(fits.best.chosen_families_)),
        code=CODE.format(name=text.name, drop=drop, models=models),
    )


def models_code(overrides: Mapping[str, str], most: int) -> str:
    """The lines of code that fit all mixtures."""
    given = "overrides=overrides, " if overrides else ""
    first = f"overrides = {json.dumps(dict(overrides))}\n" if overrides else ""
    fit = f'Mixture("auto", k, {given}random_state=0).fit(table)'
    return f"{first}models = [{fit} for k in range(1, {most + 1})]"


def paragraph(text: str) -> str:
    """The text in lines of up to 120 characters."""
    return fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def missing(table: Any) -> float:
    """The fraction of missing cells."""
    return float(table.isna().to_numpy().mean())


def bic_text(bics: list[float]) -> str:
    """Which number of components has the least BIC."""
    k, most = int(np.argmin(bics)) + 1, len(bics)
    if k == most:
        return (
            f"BIC is least with {most} components, the largest number that was tried, so that it "
            "would take more. This is usual for large tables whose columns depend on each other: "
            f"components also describe how. The picture has {most}, which can still be read."
        )
    return f"BIC is least with {k} of 1 to {most} components."


def family_lines(choices: Iterable[Any]) -> list[str]:
    """Columns by family and reason, in the order of the table."""
    groups: dict[tuple[str, str], list[str]] = {}
    for choice in choices:
        reason = choice.reason.partition(", ")[0] if choice.levels else choice.reason
        groups.setdefault((family_name(choice), reason), []).append(column_name(choice.column))
    return [
        f"| {family} | {reason} | {', '.join(columns)} |"
        for (family, reason), columns in groups.items()
    ]


def family_name(choice: Any) -> str:
    """The name of a family without its settings."""
    return str(choice.family).partition("(")[0]


def column_name(column: Any) -> str:
    """The name of a column, or the names of several that have one family."""
    names = column if isinstance(column, tuple) else (column,)
    joined = ", ".join(f"`{name}`" for name in names)
    return f"({joined})" if len(names) > 1 else joined


def index_line(text: TableText, table: Any, fits: Fits) -> str:
    """A line of the list of tables."""
    families = [family_name(choice) for choice in fits.best.chosen_families_]
    counted = ", ".join(f"{families.count(name)} {name}" for name in dict.fromkeys(families))
    size = f"{len(table):,} x {len(table.columns)}"
    k = int(np.argmin(fits.bics)) + 1
    return f"| [{text.title}]({text.name}.md) | {size} | {missing(table):.1%} | {counted} | {k} |"


def write_index(out: Path, name: str, line: str) -> None:
    """Write the list of tables with this line, and with those it had of other tables."""
    path = out / "index.md"
    known = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    lines = {text.name: one for text in TABLES for one in known if f"]({text.name}.md)" in one}
    lines[name] = line
    ordered = [lines[text.name] for text in TABLES if text.name in lines]
    about = paragraph(ABOUT.format(most=MOST_COMPONENTS))
    path.write_text(INDEX.format(about=about, lines="\n".join(ordered)), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Make the pages that are wanted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = [text.name for text in TABLES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--data", type=Path, help="folder of the tables; default MIXFOLD_DATA")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the pages")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.names) - set(names))
    if unknown:
        parser.error(f"there is no text of table {unknown[0]!r}: choose from {', '.join(names)}")
    try:
        for text in TABLES:
            if not given.names or text.name in given.names:
                write_index(given.out, text.name, make_page(text, given.data, given.out))
    except SourceError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
