"""Why a fitted model lacks an attribute, and which one to use instead."""

from __future__ import annotations

from mixfold.core.registry import name_of
from mixfold.estimators._learned import Learned

OF_GAUSSIANS = ("covariances_", "precisions_", "precisions_cholesky_")


def why_absent(name: str, learned: Learned) -> str:
    """The reason why a fitted model lacks an attribute that other models have."""
    learner, family = name_of(learned.learner), learned.model.family
    none = f"the {name_of(family)} family has none"
    if getattr(family, "covariance", None) == "factor":
        none = "a model with factors has loadings_ and noise_variance_"
    of_factors = 'only models of the family Gaussian("factor", rank=...) have it'
    reasons = {
        **dict.fromkeys(OF_GAUSSIANS, none),
        "loadings_": of_factors,
        "noise_variance_": of_factors,
        "lower_bound_": f"{learner} does not end with an update from all rows; use score(X)",
        "posterior_": f"{learner} learns no posterior; use 'online-vb' or 'moment-matching'",
        "components_in_use_": f"{learner} uses all; use OnlineVB(sparse=True) to leave some empty",
        "classes_": "no labels were given: use fit(X, labels=...)",
        "decisions_": "use learner='split-merge-em' to choose the number of components on a stream",
        "drifts_": "use learner=DriftAware(...) to find changes in a stream",
        "drift_columns_": "use learner=DriftAware(...) to find changes in a stream",
    }
    return reasons.get(name, none)
