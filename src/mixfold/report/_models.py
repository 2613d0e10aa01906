"""Fitted mixtures, as reports see them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from mixfold.core.data_limits import without_limits
from mixfold.core.errors import LearningWarning, MixfoldError
from mixfold.core.registry import name_of
from mixfold.core.rows import Array
from mixfold.sources.array_source import ArraySource

NOISE = "noise"


def component_names(mixture: Any) -> list[str]:
    """The names of components, with their classes if rows had known labels; noise is last."""
    k, classes = mixture.model_.k, getattr(mixture, "classes_", None)
    names = [f"component {number}" for number in range(k)]
    if classes is not None and len(classes) == k:
        names = [f"{name} ({one})" for name, one in zip(names, classes, strict=True)]
    return [*names, NOISE] if mixture.model_.has_noise else names


def family_of(mixture: Any) -> Any:
    """The family without limits from data and without adaptation to missing cells."""
    return without_limits(mixture.model_.family).for_complete_rows()


def families_of_columns(mixture: Any) -> list[tuple[str, str]]:
    """The families of the columns of a product, with the reason if they were chosen."""
    factors = getattr(family_of(mixture), "factors", ())
    reasons = [choice.reason for choice in getattr(mixture, "chosen_families_", ())]
    found = []
    for i, factor in enumerate(factors):
        label = factor.label
        name = ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
        shape = getattr(factor.family, "covariance", "")
        joint = f" ({shape})" if isinstance(label, tuple) and shape else ""
        why = f": {reasons[i]}" if i < len(reasons) else ""
        found.append((name, f"{name_of(factor.family)}{joint}{why}"))
    return found


def family_name(mixture: Any) -> str:
    """The family in a few words."""
    family = family_of(mixture)
    if getattr(family, "factors", None) is not None:
        names = [name_of(factor.family) for factor in family.factors]
        counts = {name: names.count(name) for name in dict.fromkeys(names)}
        kinds = ", ".join(f"{name} ×{n}" if n > 1 else name for name, n in counts.items())
        return f"product of families of columns: {kinds}"
    shape = getattr(family, "covariance", "")
    return f"{name_of(family)}, covariance {shape}" if shape else name_of(family)


def one_component(mixture: Any, x: Array) -> float | None:
    """The log-likelihood per row of rows under one component that was fitted to them."""
    from mixfold.estimators.mixture import Mixture

    names = getattr(mixture, "feature_names_in_", None)
    rows = ArraySource(x, None, None if names is None else [str(name) for name in names])
    single = Mixture(family_of(mixture), 1, learner="em", random_state=0)
    try:
        with warnings.catch_warnings():  # of degenerate columns, which the mixture has told
            warnings.simplefilter("ignore", LearningWarning)
            return float(single.fit(rows).score(rows))
    except (MixfoldError, np.linalg.LinAlgError):  # too few rows for its parameters
        return None
