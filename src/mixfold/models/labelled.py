"""Mixtures of rows of which some have a known label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixfold.core.value import replace
from mixfold.families.labelled_rows import LabelledRows
from mixfold.models.mixture_model import MixtureModel


def with_label_column(model: MixtureModel, allowed: NDArray[np.bool_] | None) -> MixtureModel:
    """The mixture of rows that have one column more, with the codes of labels.

    Without `allowed`, the components that rows with each label may belong to, it is the same.
    """
    if allowed is None:
        return model
    return replace(model, family=LabelledRows(model.family, allowed), d=model.d + 1)


def without_label_column(model: MixtureModel) -> MixtureModel:
    """The mixture of rows without labels, which has the same parameters."""
    if not isinstance(model.family, LabelledRows):
        return model
    return replace(model, family=model.family.family, d=model.d - 1)
