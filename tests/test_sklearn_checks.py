"""scikit-learn's own conformance suite, with no expected failures."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from mixfold import GaussianMixture, Mixture
from mixfold.families.gaussian import Gaussian
from mixfold.learners.online_em import OnlineEM

# small data on which a component may be degenerate, which is tested elsewhere
pytestmark = pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning")

ESTIMATORS = [
    Mixture(),
    Mixture(n_components=2),
    Mixture(Gaussian("diag"), 2, learner="mini-batch-em"),
    Mixture(learner=OnlineEM()),
    GaussianMixture(n_init=2, max_iter=5),
    GaussianMixture(),
]


@parametrize_with_checks(ESTIMATORS)  # type: ignore[untyped-decorator]
def test_sklearn_check(estimator: Any, check: Any) -> None:
    check(estimator)
