"""Tests, intervals and the summary of fitted logistic mixed models."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._mixed_inference import LikelihoodTests, VarianceInterval, intervals
from mixfold.estimators._mixed_summary import GroupingFactor, MixedSummary, SummaryContent
from mixfold.models.gaussian_effects import entries
from mixfold.models.variance_errors import SMALL_VARIANCE


class LogisticInference(LikelihoodTests):
    """What is known after a fit besides the estimates."""

    _learned: Any
    random_covariance_: Array
    random_names_: list[str]
    log_likelihood_: float
    n_groups_: int

    def _maximum(self) -> float:
        return float(self.log_likelihood_)

    def _n_parameters(self) -> int:
        check_is_fitted(self)
        return int(self._learned.model.n_parameters())

    def _check_comparable(self, other: Any) -> None:
        if not isinstance(other, LogisticInference):
            raise InvalidInputError(f"other is {other!r}: a logistic mixed model is needed")
        for model in (self, other):
            check_is_fitted(model)
        own, its = self._learned, other._learned
        names = own.design.response_name, its.design.response_name
        same = own.weight == its.weight and np.array_equal(own.groups, its.groups)
        if names[0] != names[1] or not same:
            raise InvalidInputError(
                f"the models were fitted to {len(own.effects)} and {len(its.effects)} groups of "
                f"{names[0]} and {names[1]}: fit both to the same data"
            )

    def _factor(self) -> GroupingFactor:
        design = self._learned.design
        group = design.group if isinstance(design, FormulaDesign) else "Group"
        return GroupingFactor(group, self.random_names_, self.random_covariance_, self.n_groups_)

    def _scale_errors(self) -> Array:
        """Errors of logarithms of deviations, and off the diagonal of Fisher's z, (q, q)."""
        learned = self._learned
        omega, p = np.asarray(learned.params.covariance), len(learned.params.mean)
        covariance = learned.parameter_covariance[p:, p:]
        i, j = entries(len(omega), learned.model.covariance)
        found = np.full(omega.shape, np.nan)
        with np.errstate(all="ignore"):  # of variances that are zero
            for a, b in zip(i, j, strict=True):
                slope = _slope(omega, int(a), int(b), i, j)
                found[a, b] = found[b, a] = np.sqrt(slope @ covariance @ slope)
        small = np.diag(omega) < SMALL_VARIANCE
        found[small] = found[:, small] = np.nan
        return found

    def variance_intervals(self, level: float = 0.95) -> list[VarianceInterval]:
        """Intervals of standard deviations and correlations of random effects.

        They are Wald intervals for the logarithm of a deviation, and for Fisher's z of a
        correlation; NaN where a variance is zero.
        """
        check_is_fitted(self)
        check_above("level", level, 0.0, 1.0)
        return intervals(self._factor(), float(ndtri(0.5 + 0.5 * level)) * self._scale_errors())

    def summary(self, level: float = 0.95) -> MixedSummary:
        """A table of the estimates, as statsmodels prints it, with z-statistics."""
        check_is_fitted(self)
        model: Any = self
        left = [("Model:", type(self).__name__), ("No. Groups:", str(self.n_groups_))]
        right = [
            ("Dependent Variable:", self._learned.design.response_name),
            ("Log-Likelihood:", f"{self.log_likelihood_:.4f}"),
            ("AIC:", f"{model.aic():.4f}"),
            ("BIC:", f"{model.bic():.4f}"),
        ]
        title = "Mixed Logistic Regression Results"
        factors, errors = [self._factor()], [self._scale_errors()]
        content = SummaryContent(title, left, right, factors, errors, None)
        return MixedSummary(self, level, content)


def _slope(omega: Array, a: int, b: int, i: Array, j: Array) -> Array:
    """Derivatives of log sqrt(omega_aa), or of artanh of a correlation, in entries (i, j)."""
    if a == b:
        return np.where((i == a) & (j == a), 0.5 / omega[a, a], 0.0)
    size = np.sqrt(omega[a, a] * omega[b, b])
    r = omega[a, b] / size
    found = np.where((i == a) & (j == b), 1.0 / size, 0.0)
    for c in (a, b):
        found -= np.where((i == c) & (j == c), 0.5 * r / omega[c, c], 0.0)
    return np.asarray(found / (1.0 - r**2))
