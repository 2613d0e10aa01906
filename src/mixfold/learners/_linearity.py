"""Learners that rely on statistics that are linear in the responsibilities alone."""

from __future__ import annotations

from mixfold.core.backend import Model
from mixfold.core.learner import Learner


def not_linear(learner: Learner, model: Model) -> str | None:
    """Why a learner that keeps responsibilities, not statistics, refuses a model; None if not.

    What a row had added could not be taken off again: made of the same responsibilities, but under
    other parameters, it would be something else.
    """
    if not model.statistics_depend_on_params:
        return None
    return (
        f"learner is {type(learner).__name__}, which needs statistics that depend on "
        f"responsibilities alone, and those of {getattr(model, 'family', model)!r} depend on the "
        "parameters too: use 'em', 'auto', 'mini-batch-em' or 'online-em'"
    )
