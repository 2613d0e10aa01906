"""Check for learners that need statistics which depend on responsibilities alone."""

from __future__ import annotations

from mixfold.core.backend import Model
from mixfold.core.learner import Learner


def not_linear(learner: Learner, model: Model) -> str | None:
    """Why a learner that stores responsibilities does not support a model; None if it does.

    The contribution of a row could not be subtracted again: computed from the same responsibilities
    but under other parameters, it would differ.
    """
    if not model.statistics_depend_on_params:
        return None
    return (
        f"learner is {type(learner).__name__}, which needs statistics that depend on "
        f"responsibilities alone, and those of {getattr(model, 'family', model)!r} depend on the "
        "parameters too: use 'em', 'auto', 'mini-batch-em' or 'online-em'"
    )
