"""Models with latent columns besides labels, and learners that cannot follow them."""

from __future__ import annotations

from mixfold.core.learner import Learner
from mixfold.core.problem import Model


def lost_factors(learner: Learner, model: Model) -> str | None:
    """Why a rule that keeps responsibilities alone refuses a model with hidden columns."""
    family = getattr(model, "family", None)
    if family is None or not family.hidden:
        return None
    return (
        f"learner is {type(learner).__name__}, which does not follow the factors of {family!r}: "
        "use 'em', 'auto', 'mini-batch-em' or 'online-em'"
    )
