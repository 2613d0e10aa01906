"""Models with latent columns besides labels, and learners that cannot follow them."""

from __future__ import annotations

from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.problem import Model


def has_hidden(model: Model) -> bool:
    """Whether rows have latent columns that responsibilities do not tell."""
    family = getattr(model, "family", None)
    return family is not None and family.hidden > 0


def check_serves(learner: Learner, model: Model) -> None:
    """Refuse a model with hidden columns, where the learner does not serve it."""
    if has_hidden(model) and not learner.serves(model):
        raise InvalidInputError(
            f"learner is {type(learner).__name__}, which does not follow the factors of "
            f"{model.family!r}: use 'em', 'auto', 'mini-batch-em' or 'online-em'"  # type: ignore[attr-defined]
        )
