"""Why a model has no such attribute, and where to look instead."""

from __future__ import annotations

from mixfold.core.registry import name_of
from mixfold.estimators._learned import Learned

OF_GAUSSIANS = ("covariances_", "precisions_", "precisions_cholesky_")
OF_FACTORS = ("loadings_", "noise_variance_")


def why_absent(name: str, learned: Learned) -> str:
    """The reason that a fitted model does not show an attribute that others show."""
    learner, family = name_of(learned.learner), learned.model.family
    if name in OF_GAUSSIANS:
        if getattr(family, "covariance", None) == "factor":
            return "a model with factors has loadings_ and noise_variance_"
        return f"the {name_of(family)} family has none"
    if name in OF_FACTORS:
        return 'only models of the family Gaussian("factor", rank=...) have it'
    if name == "lower_bound_":
        return f"{learner} has not ended with an update from all rows; use score(X)"
    if name == "posterior_":
        return f"{learner} learns no posterior; use learner='online-vb' or 'moment-matching'"
    if name == "drifts_":
        return "use learner=DriftAware(...) to find changes in a stream"
    return "nothing has been learned that it could show"
