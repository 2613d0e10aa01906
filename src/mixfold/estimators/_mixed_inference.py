"""Criteria, tests, intervals and the summary of fitted linear mixed models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_above
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.estimators._mixed_summary import (
    GroupingFactor,
    MixedSummary,
    Pair,
    SummaryContent,
    whole,
)
from mixfold.models.variance_errors import VarianceErrors


class LearnedMixed(Protocol):
    """What the methods here need of a learned state."""

    @property
    def reml(self) -> bool: ...
    @property
    def n_parameters(self) -> int: ...
    @property
    def response_name(self) -> str: ...
    @property
    def variance_errors(self) -> VarianceErrors | None: ...
    @property
    def group_sizes(self) -> list[int] | None: ...
    def factors(self) -> list[GroupingFactor]: ...


class LikelihoodRatioTest(NamedTuple):
    """Twice the difference of log-likelihoods, and its chi-squared distribution.

    Where the smaller model sets variances to zero, which is on the border of their domain, the
    p-value is too large.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float


class VarianceInterval(NamedTuple):
    """The estimate and the interval of a standard deviation or a correlation."""

    name: str
    estimate: float
    lower: float
    upper: float


class LikelihoodTests(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator whose fits can be compared by the maximum of the likelihood."""

    @abstractmethod
    def _maximum(self) -> float:
        """The log-likelihood that has been maximised."""

    @abstractmethod
    def _n_parameters(self) -> int:
        """The number of free parameters."""

    @abstractmethod
    def _check_comparable(self, other: Any) -> None:
        """Refuse what is no model of the same data."""

    def likelihood_ratio_test(self, other: Any) -> LikelihoodRatioTest:
        """Test the smaller of two nested models of the same data against the larger one.

        Fits by restricted likelihood can be compared if they have the same fixed effects.
        """
        self._check_comparable(other)
        small, large = sorted([self, other], key=lambda model: model._n_parameters())
        degrees = large._n_parameters() - small._n_parameters()
        if degrees == 0:
            raise InvalidInputError(
                f"both models have {large._n_parameters()} parameters: one must have fewer, "
                "and be a special case of the other"
            )
        from scipy.stats import chi2

        # a difference below zero is that of two optimisers that stopped at the same maximum
        statistic = max(2.0 * (large._maximum() - small._maximum()), 0.0)
        return LikelihoodRatioTest(statistic, degrees, float(chi2.sf(statistic, degrees)))


class MixedInference(LikelihoodTests):
    """An estimator of linear mixed models, from which all of these are known after `fit`."""

    _learned: Any
    coef_: Array
    coef_names_: list[str]
    noise_variance_: float
    log_likelihood_: float
    restricted_log_likelihood_: float
    n_observations_: float
    converged_: bool

    def _mixed(self) -> LearnedMixed:
        check_is_fitted(self)
        learned: LearnedMixed = self._learned
        return learned

    def _maximum(self) -> float:
        """The log-likelihood that has been maximised."""
        reml = self._mixed().reml
        return self.restricted_log_likelihood_ if reml else self.log_likelihood_

    def _n_parameters(self) -> int:
        return self._mixed().n_parameters

    def aic(self) -> float:
        """Akaike information criterion of the data learned from; lower is better.

        With `reml=True` it is that of the restricted likelihood, as in lme4, and compares models
        with the same fixed effects.
        """
        return -2.0 * self._maximum() + 2.0 * self._n_parameters()

    def bic(self) -> float:
        """Bayesian information criterion, which counts observations, as `aic` otherwise."""
        maximum = self._maximum()
        return -2.0 * maximum + log(self.n_observations_) * self._n_parameters()

    def _check_comparable(self, other: Any) -> None:
        if not isinstance(other, MixedInference):
            raise InvalidInputError(f"other is {other!r}: a linear mixed model is needed")
        names = self._mixed().response_name, other._mixed().response_name
        sizes = self.n_observations_, other.n_observations_
        if sizes[0] != sizes[1] or names[0] != names[1]:
            raise InvalidInputError(
                f"the models were fitted to {sizes[0]:g} and {sizes[1]:g} observations of "
                f"{names[0]} and {names[1]}: fit both to the same data"
            )
        if self._mixed().reml != other._mixed().reml:
            raise InvalidInputError(
                "one model was fitted with reml=True, the other without: fit both with reml=False"
            )
        if self._mixed().reml and self.coef_names_ != other.coef_names_:
            raise InvalidInputError(
                f"the fixed effects {self.coef_names_} and {other.coef_names_} differ, and "
                "restricted likelihoods cannot compare them: fit both with reml=False"
            )

    def variance_intervals(self, level: float = 0.95) -> list[VarianceInterval]:
        """Intervals of standard deviations and correlations of random effects and of the noise.

        They are Wald intervals for the logarithm of a deviation, and for Fisher's z of a
        correlation; NaN where a variance is zero, or known.
        """
        check_above("level", level, 0.0, 1.0)
        errors = self._mixed().variance_errors
        if errors is None:
            raise InvalidInputError(
                "the standard errors of variances have not been computed: fit with "
                "variance_errors=True"
            )
        width = float(ndtri(0.5 + 0.5 * level))
        found: list[VarianceInterval] = []
        for factor, table in zip(self._mixed().factors(), errors.effects, strict=True):
            found += intervals(factor, width * table)
        ratio = np.exp(width * errors.noise)
        deviation = sqrt(self.noise_variance_)
        noise = VarianceInterval("noise", deviation, deviation / ratio, deviation * ratio)
        return [*found, noise]

    def summary(self, level: float = 0.95) -> MixedSummary:
        """A table of the estimates, as statsmodels prints it.

        Fixed effects have z-statistics, or with `variance_errors=True` t-statistics with
        Satterthwaite's degrees of freedom.
        """
        errors = self._mixed().variance_errors
        content = SummaryContent(
            "Mixed Linear Model Regression Results",
            self._left(),
            self._right(),
            self._mixed().factors(),
            None if errors is None else errors.effects,
            None if errors is None else errors.degrees_of_freedom,
        )
        return MixedSummary(self, level, content)

    def _left(self) -> list[Pair]:
        """What the summary says of the data."""
        factors, sizes = self._mixed().factors(), self._mixed().group_sizes
        left = [
            ("Model:", type(self).__name__),
            ("No. Observations:", whole(self.n_observations_)),
        ]
        if sizes is None:
            return left + [(f"No. Groups of {each.name}:", str(each.n_groups)) for each in factors]
        mean = self.n_observations_ / factors[0].n_groups
        return [
            *left,
            ("No. Groups:", str(factors[0].n_groups)),
            ("Min. group size:", str(sizes[0])),
            ("Max. group size:", str(sizes[1])),
            ("Mean group size:", f"{mean:.1f}"),
        ]

    def _right(self) -> list[Pair]:
        """What the summary says of the fit."""
        learned = self._mixed()
        return [
            ("Dependent Variable:", learned.response_name),
            ("Method:", "REML" if learned.reml else "ML"),
            ("Scale:", f"{self.noise_variance_:.4f}"),
            ("Log-Likelihood:", f"{self._maximum():.4f}"),
            ("Converged:", "Yes" if self.converged_ else "No"),
            ("AIC:", f"{self.aic():.4f}"),
            ("BIC:", f"{self.bic():.4f}"),
        ]


def intervals(factor: GroupingFactor, widths: Array) -> list[VarianceInterval]:
    """The intervals of one grouping factor, from the half widths on their scales."""
    deviations = np.sqrt(np.diag(factor.covariance))
    found = []
    for i, name in enumerate(factor.effects):
        ratio = float(np.exp(widths[i, i]))
        estimate = float(deviations[i])
        label = f"{factor.name}: {name}"
        found.append(VarianceInterval(label, estimate, estimate / ratio, estimate * ratio))
    for i, j in np.stack(np.tril_indices(len(deviations), -1), axis=1).tolist():
        r = float(factor.covariance[i, j] / (deviations[i] * deviations[j]))
        z, width = np.arctanh(np.clip(r, -1.0 + 1e-15, 1.0 - 1e-15)), widths[i, j]
        label = f"{factor.name}: correlation of {factor.effects[j]} and {factor.effects[i]}"
        found.append(
            VarianceInterval(label, r, float(np.tanh(z - width)), float(np.tanh(z + width)))
        )
    return found
