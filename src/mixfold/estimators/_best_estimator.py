"""The methods and attributes of the best of several estimators."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from mixfold.estimators._guarded import Guarded
from mixfold.estimators.mixture import Mixture


def _of_best(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of the best estimator."""

    @wraps(method)
    def call(self: BestEstimator, *args: Any, **named: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.best_estimator_, method.__name__)(*args, **named)

    return call


class BestEstimator(DensityMixin, Guarded):  # type: ignore[misc]
    """An estimator that does what `best_estimator_` does."""

    best_estimator_: Mixture
    results_: Any

    predict = _of_best(Mixture.predict)
    predict_proba = _of_best(Mixture.predict_proba)
    score = _of_best(Mixture.score)
    score_samples = _of_best(Mixture.score_samples)
    score_bound = _of_best(Mixture.score_bound)
    score_one = _of_best(Mixture.score_one)
    predict_one = _of_best(Mixture.predict_one)
    predict_proba_one = _of_best(Mixture.predict_proba_one)
    for_evaluation = _of_best(Mixture.for_evaluation)
    iter_posteriors = _of_best(Mixture.iter_posteriors)
    bic = _of_best(Mixture.bic)
    aic = _of_best(Mixture.aic)
    icl = _of_best(Mixture.icl)
    sample = _of_best(Mixture.sample)
    save = _of_best(Mixture.save)
    to_onnx = _of_best(Mixture.to_onnx)
    impute = _of_best(Mixture.impute)
    explain = _of_best(Mixture.explain)
    marginal = _of_best(Mixture.marginal)
    conditional = _of_best(Mixture.conditional)
    decode = _of_best(Mixture.decode)
    open_rows = _of_best(Mixture.open_rows)
    posterior_predictive = _of_best(Mixture.posterior_predictive)
    expected_parameters = _of_best(Mixture.expected_parameters)
    credible_intervals = _of_best(Mixture.credible_intervals)
    estimates = _of_best(Mixture.estimates)
    standard_errors = _of_best(Mixture.standard_errors)
    confidence_intervals = _of_best(Mixture.confidence_intervals)
    summary = _of_best(Mixture.summary)
    component_clusters = _of_best(Mixture.component_clusters)
    plot = _of_best(Mixture.plot)
    plot_history = _of_best(Mixture.plot_history)
    plot_responsibilities = _of_best(Mixture.plot_responsibilities)
    plot_drift = _of_best(Mixture.plot_drift)

    def __getattr__(self, name: str) -> Any:
        best = self.__dict__.get("best_estimator_")
        if best is not None and name.endswith("_") and not name.startswith("_"):
            return getattr(best, name)
        missing = ": call fit first" if name in ("best_estimator_", "results_") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{missing}")
