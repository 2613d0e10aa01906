"""Intervals of the parameters of a model, for `mixfold inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mixfold.cli._output import column_names
from mixfold.cli._terminal import shown
from mixfold.core.errors import InvalidInputError


def confidence_intervals(
    model: Any, data: Any, weights: str | None, kind: str, level: float
) -> list[dict[str, Any]]:
    """Estimates, standard errors and confidence intervals, from the rows of the fit."""
    found = model.estimates(data, kind, sample_weight=weights)
    columns = found.names, found.values, found.errors, *found.ends(level)
    names = "name", "estimate", "standard_error", "low", "high"
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def credible_intervals(model: Any, level: float) -> list[dict[str, Any]]:
    """Credible intervals of a model that has a posterior."""
    try:
        intervals = model.credible_intervals(level)
    except InvalidInputError:
        raise InvalidInputError(
            "--level needs FILES with the rows of the fit, from which standard errors come, or a "
            "model of a Bayesian learner, which has credible intervals without them"
        ) from None
    names, found = column_names(model), []
    for name, (low, high) in intervals.items():
        estimate = getattr(model, f"{name}_", np.full(np.shape(low), np.nan))
        for place in np.ndindex(np.shape(low)):
            twice = name.startswith("covariances") and list(place[1:]) != sorted(place[1:])
            if np.isfinite(low[place]) and not twice:
                found.append(
                    {
                        "name": _name(name, place, names),
                        "estimate": estimate[place],
                        "low": low[place],
                        "high": high[place],
                    }
                )
    return found


def _name(name: str, place: Sequence[int], columns: Sequence[str]) -> str:
    """The name of an entry, with the names of columns where the place has their numbers."""
    first, *rest = place
    n_columns = {"means": 1, "covariances": 2}.get(name, 0)
    named = [columns[j] if i < n_columns else j for i, j in enumerate(rest)]
    return f"{name}[{', '.join(map(str, [first, *named]))}]"


def print_intervals(intervals: Sequence[dict[str, Any]], level: float, out: Console) -> None:
    """Print intervals as a table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = list(intervals[0])
    for heading in headings:
        text = {"low": f"{100.0 * level:.4g}% from", "high": "to"}.get(
            heading, heading.replace("_", " ")
        )
        table.add_column(text, justify="left" if heading == "name" else "right", overflow="fold")
    for row in intervals:
        name, *numbers = row.values()
        table.add_row(escape(shown(name)), *(f"{number:.4g}" for number in numbers))
    out.print(table)
