"""Warnings of components that reach limits which come from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mixfold.core.data_limits import limits_of
from mixfold.core.errors import DegenerateComponentsWarning, warn
from mixfold.models.mixture_model import MixtureModel, MixtureParams, degenerate

MOST_NAMED = 5


def warn_of_degenerate(
    model: MixtureModel, params: MixtureParams, columns: Sequence[Any] | None
) -> None:
    """Warn about columns in which components are at limits that the user has not set."""
    if limits_of(model.family) is None:
        return
    found = degenerate(model, params).sum(axis=0)
    others = np.setdiff1d(np.arange(model.d), model.family.limited_columns(model.d))
    found[others] = 0
    named = np.flatnonzero(found)
    if not len(named):
        return
    names = [str(j) if columns is None else repr(columns[j]) for j in named[:MOST_NAMED]]
    more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    warn(
        f"components are degenerate in column {', '.join(names)}{more} ({found.max()} of {model.k} "
        "components): their rows have one value there, or one that other columns determine, so the "
        "variance is kept at the least that the data's resolution allows. Leave the column out, "
        "use fewer components, or choose the limit with Gaussian(reg_covar=...) or "
        "Gaussian(floor=...)",
        DegenerateComponentsWarning,
    )
