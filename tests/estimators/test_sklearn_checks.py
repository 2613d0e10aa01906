"""scikit-learn's own conformance suite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from mixfold import (
    AnomalyDetector,
    AutoMixture,
    BayesianGaussianMixture,
    CrossedMixedModel,
    GaussianMixture,
    LinearMixedModel,
    LogisticMixedModel,
    Mixture,
    OneCompartmentModel,
)
from mixfold.families.gaussian import Gaussian
from mixfold.learners.online_em import OnlineEM

# small data on which a component may be degenerate or columns collinear, which is tested elsewhere
pytestmark = [
    pytest.mark.filterwarnings("ignore::mixfold.core.errors.DegenerateComponentsWarning"),
    pytest.mark.filterwarnings("ignore::mixfold.core.errors.CollinearColumnsWarning"),
]

ESTIMATORS = [
    Mixture(),
    Mixture(n_components=2),
    Mixture(Gaussian("diag"), 2, learner="mini-batch-em"),
    Mixture(learner=OnlineEM()),
    GaussianMixture(n_init=2, max_iter=5),
    GaussianMixture(),
    BayesianGaussianMixture(),
    BayesianGaussianMixture(covariance_type="tied", n_init=2),
    AutoMixture(range(1, 3), ["EEE", "VVV"]),
    AnomalyDetector(),
    AnomalyDetector(Mixture(n_components=2, random_state=0), contamination=0.1),
    LinearMixedModel(group=0),
    LogisticMixedModel(group=0, max_iter=10),
]


def refused(estimator: Any) -> dict[str, str]:
    """Checks that an estimator cannot pass, and why."""
    # A common factor of all weights changes nothing. If repeated rows were the same as weights,
    # rows that all come twice would be learned as once, with as many updates; but a batch is a
    # number of rows, so there are twice as many. The check also puts rows into another order.
    # scikit-learn excuses its own MiniBatchKMeans and SGD estimators too.
    if getattr(estimator, "learner", None) == "mini-batch-em":
        return {
            "check_sample_weight_equivalence_on_dense_data": (
                "a batch has other rows where rows are repeated, and weights count in units of "
                "their mean"
            )
        }
    return {}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=refused)  # type: ignore[untyped-decorator]
def test_sklearn_check(estimator: Any, check: Any) -> None:
    check(estimator)


# Doses, times and several groups are columns of a table, by name, so that no array of numbers is
# one: the tag `two_d_array` says so, and scikit-learn leaves its checks out. These need no data.
WITHOUT_DATA = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_valid_tag_types,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_mixin_order,
    estimator_checks.check_estimators_unfitted,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_set_params,
    estimator_checks.check_fit1d,
]


@pytest.mark.parametrize("check", WITHOUT_DATA, ids=lambda check: check.__name__)
@pytest.mark.parametrize("estimator", [OneCompartmentModel(), CrossedMixedModel("y ~ (1 | a)")])
def test_sklearn_check_without_data(estimator: Any, check: Callable[[str, Any], None]) -> None:
    check(type(estimator).__name__, estimator)
