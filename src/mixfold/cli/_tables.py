"""Models as tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mixfold.cli._output import column_names
from mixfold.cli._terminal import can_show, shown
from mixfold.core.capabilities import StandardDeviations
from mixfold.core.registry import name_of
from mixfold.fitting.atomic_files import is_special

WIDTH_OF_FILES = 100
EDGES, GAP = 2, 3
MOST_COMPONENTS = 20
LONGEST_NAME = 40


def console(output: Path | None = None) -> Console:
    """The console for results: stdout, or stderr if the output itself goes to stdout.

    In a terminal it has the width of the terminal.
    """
    aside = output is not None and is_special(output)
    made = Console(highlight=False, stderr=aside)
    if made.is_terminal or "COLUMNS" in os.environ:
        return made
    return Console(highlight=False, stderr=aside, width=WIDTH_OF_FILES)


def print_plain(out: Console, text: str) -> None:
    """Print text that may contain file names."""
    out.print(shown(text), soft_wrap=True, markup=False)


def plus_minus(out: Console) -> str:
    """The plus-minus sign, or a replacement if the console cannot show it."""
    return "±" if can_show("±", out.encoding) else "+/-"


def facts(rows: Sequence[tuple[str, str]]) -> Table:
    """Names and values, one pair per line."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", overflow="fold", max_width=LONGEST_NAME)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, escape(shown(text)))
    return table


def standard_deviations(model: Any) -> np.ndarray | None:
    """Standard deviations (K, d); None if the family has no scale parameter."""
    family = model.model_.family.for_complete_rows()
    if not isinstance(family, StandardDeviations):
        return None
    return family.standard_deviations(model.params_.components)


def chosen_families(model: Any, out: Console) -> None:
    """The families that were chosen for columns, and why."""
    choices = getattr(model, "chosen_families_", ())
    if choices:
        rows = [(str(one.column), f"{name_of(one.family)}: {one.reason}") for one in choices]
        out.print(facts(rows))


def components(model: Any, out: Console, everything: bool = False) -> None:
    """Weight and, for every column, mean and spread of each component."""
    k, names, spread = len(model.weights_), column_names(model), standard_deviations(model)
    location = locations(model)
    most = k if everything else min(MOST_COMPONENTS, k)
    sign = plus_minus(out)
    columns = []
    for j, name in enumerate(names):
        if location is None:
            break
        width = None if spread is None else spread[:most, j]
        cells = _levels(model, j, most) or _cells(location[:most, j], width, sign)
        columns.append([_cut(shown(name)), *cells])
    first = _first_columns(model, most)
    parts = list(_parts(columns, out.width - EDGES - _width(first)))
    for part in parts if everything else parts[:1]:
        out.print(_table([*first, *part]))
    hidden = []
    if most < k:
        hidden.append(counted(k - most, "more component"))
    if not everything and len(parts) > 1:
        hidden.append(counted(len(names) - len(parts[0]), "more column"))
    if hidden:
        out.print(f"[dim]{' and '.join(hidden)}: mixfold inspect MODEL --all[/]")


def _cut(name: str) -> str:
    """A name of a column, whose end is left out if it is long."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 3]}..."


def _first_columns(model: Any, most: int) -> list[list[str]]:
    """Numbers and weights of components, and the names of their classes if there were labels."""
    found = [["component", *map(str, range(most))]]
    classes = class_names(model)
    if classes:
        found.append(["class", *(shown(name or "-") for name in classes[:most])])
    return [*found, ["weight", *(f"{weight:.4f}" for weight in model.weights_[:most])]]


def class_names(model: Any) -> list[str | None]:
    """The names of the classes of components, None for those without; empty without labels."""
    names = [str(name) for name in getattr(model, "classes_", ())]
    return [*names, *[None] * (len(model.weights_) - len(names))] if names else []


def _levels(model: Any, column: int, most: int) -> list[str]:
    """The most probable level of a column in every component; empty if it has no categories."""
    found = level_probabilities(model, column)
    if found is None:
        return []
    names, p = found
    best = p[:most].argmax(axis=1)
    return [f"{shown(names[i])} {one[i]:.0%}" for one, i in zip(p[:most], best, strict=True)]


def level_probabilities(model: Any, column: int) -> tuple[list[str], np.ndarray] | None:
    """The levels of a column, and their probabilities (K, levels); None for numbers."""
    factors = getattr(model.model_.family, "factors", ())
    found = [i for i, one in enumerate(factors) if column in (one.positions or ())]
    if not found or factors[found[0]].levels is None:
        return None
    own = model.params_.components.parts[found[0]].probabilities[:, 0]
    p = own if own.ndim == 2 else np.stack([1.0 - own, own], axis=1)
    return [*map(str, factors[found[0]].levels), "other"][: p.shape[1]], p


def locations(model: Any) -> np.ndarray | None:
    """Means (K, d) or, where a family has none, its first parameter of that shape."""
    shape = len(model.weights_), model.n_features_in_
    shown_by_family = model.model_.family.attributes(model.params_.components)
    candidates = [shown_by_family.get("means"), *shown_by_family.values()]
    return next((one for one in candidates if np.shape(one) == shape), None)


def _parts(columns: Sequence[list[str]], width: int) -> Iterator[list[list[str]]]:
    """Split the columns into parts that fit the width of the console."""
    part: list[list[str]] = []
    left = width
    for column in columns:
        needed = _width([column])
        if part and needed > left:
            yield part
            part, left = [], width
        part.append(column)
        left -= needed
    yield part


def _width(columns: Sequence[list[str]]) -> int:
    return sum(max(map(len, column)) + GAP for column in columns)


def _table(columns: Sequence[list[str]]) -> Table:
    """A table of columns, each of which begins with its name."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, *_ in columns:
        table.add_column(escape(name), justify="right", no_wrap=True)
    for cells in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*map(escape, cells))
    return table


def _cells(means: np.ndarray, spread: np.ndarray | None, sign: str) -> list[str]:
    """Format the numbers of one column with decimals that suit its scale."""
    write = _decimals(np.abs(means) if spread is None else spread)
    if spread is None:
        return [write(mean) for mean in means]
    pairs = zip(means, spread, strict=True)
    return [f"{write(mean)} {sign} {write(width)}" for mean, width in pairs]


def _decimals(scales: np.ndarray) -> Callable[[float], str]:
    usual = float(np.median(scales))
    digits = int(2 - np.floor(np.log10(usual))) if 0.0 < usual < np.inf else 7
    if not -5 < digits < 7:
        return lambda number: f"{number:.4g}"
    return lambda number: f"{number:.{max(0, digits)}f}"


def counted(n: int, what: str) -> str:
    """A count and its noun, such as "3 passes"."""
    plural = f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"


def reached_per_row(log_likelihood: float, bound: float) -> str:
    """The log-likelihood per row, and the lower bound if the learner maximises one."""
    suffix = "" if isnan(bound) else f" (bound {bound:.6g})"
    return f"{log_likelihood:.6g} per row{suffix}"


def threshold_in_words(detector: Any) -> str:
    """Which rows raise alarms, and how many are expected to."""
    rows = "normal rows" if detector.contamination is None else "rows"
    known = isfinite(detector.offset_)
    below = f"below log-density {detector.offset_:.6g}" if known else "none yet"
    return f"{below} ({100.0 * detector.rate_:g}% of {rows})"
