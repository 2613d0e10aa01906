"""The learned state of a linear mixed model, and its evaluation on all groups."""

from __future__ import annotations

from math import log, pi
from typing import Any, NamedTuple

import numpy as np

from mixfold.backends.threads import Threads
from mixfold.core.checks import LARGEST_SUM, check_above, check_array, check_count
from mixfold.core.rows import Array as Floats
from mixfold.core.value import value
from mixfold.estimators._designed import check_design
from mixfold.estimators._effects import ArrayDesign, Scaling, shown_coefficients
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._learned import check_learner
from mixfold.estimators._mixed_summary import GroupingFactor
from mixfold.estimators._observations import check_labels
from mixfold.fitting.history import History
from mixfold.kernels.linear_mixed import LinearMixedKernel
from mixfold.models.linear_mixed import LinearMixed, LinearMixedParams
from mixfold.models.variance_errors import VarianceErrors
from mixfold.sources.grouped import Grouped


@value
class LearnedEffects:
    """Everything the public attributes are made from."""

    model: LinearMixed
    learner: Any
    design: FormulaDesign | ArrayDesign
    scaling: Scaling
    params: LinearMixedParams
    reml: bool
    log_likelihood: float
    restricted_log_likelihood: float
    information: Floats
    variance_errors: VarianceErrors | None
    n_observations: float
    group_sizes: list[int]
    groups: Any
    effects: Floats | None
    n_groups: int
    n_seen: int
    n_iter: int
    history: History
    converged: bool
    n_degenerate: int

    def check(self) -> None:
        """Raise an error for an invalid state."""
        p, q = self.model.p, self.model.q
        check_design(self.design, p, q)
        self.model.check_params(self.params)
        check_learner(self.learner, self.model)
        self.scaling.check(len(self.design.names), p, q)
        check_array("information", self.information, (p, p), -LARGEST_SUM, LARGEST_SUM)
        self.history.check()
        for name in ("n_groups", "n_seen", "n_iter", "n_degenerate"):
            check_count(name, getattr(self, name))
        check_above("n_observations", self.n_observations, 0.0, LARGEST_SUM)
        check_array("group_sizes", np.asarray(self.group_sizes), (2,), 0, self.n_observations)
        if self.variance_errors is not None:
            self.variance_errors.check([q], len(self.design.names))
        if self.effects is not None:
            check_array("effects", self.effects, (self.n_groups, q), -LARGEST_SUM, LARGEST_SUM)
            check_labels(self.groups, self.n_groups)

    @property
    def n_features(self) -> int:
        """Columns of the data that are features."""
        return self.design.n_features

    @property
    def n_parameters(self) -> int:
        """Free parameters."""
        return self.model.n_parameters()

    @property
    def response_name(self) -> str:
        """The name of the response."""
        return self.design.response_name

    def factors(self) -> list[GroupingFactor]:
        """The grouping factor."""
        group = self.design.group if isinstance(self.design, FormulaDesign) else "Group"
        covariance = self.scaling.random_covariance(self.params.omega)
        return [GroupingFactor(group, self.design.random_names, covariance, self.n_groups)]

    def attributes(self) -> dict[str, Any]:
        """The public fitted attributes."""
        inside = np.asarray(np.linalg.pinv(self.information, hermitian=True), dtype=np.float64)
        covariance = self.scaling.coefficient_covariance(inside)
        found = {
            "n_features_in_": self.n_features,
            **shown_coefficients(
                self.design.names, self.scaling.coefficients(self.params), covariance
            ),
            "random_covariance_": self.scaling.random_covariance(self.params.omega),
            "random_names_": list(self.design.random_names),
            "noise_variance_": float(self.params.noise_variance * self.scaling.scale**2),
            "log_likelihood_": self.log_likelihood,
            "restricted_log_likelihood_": self.restricted_log_likelihood,
            "n_observations_": self.n_observations,
            "n_groups_": self.n_groups,
            "n_seen_": self.n_seen,
            "n_iter_": self.n_iter,
            "history_": self.history,
            "converged_": self.converged,
            "n_degenerate_": self.n_degenerate,
        }
        if self.variance_errors is not None:
            found["coef_degrees_of_freedom_"] = self.variance_errors.degrees_of_freedom
        if self.effects is not None:
            found |= {"groups_": np.asarray(self.groups), "random_effects_": self.effects}
        return found


class Ended(NamedTuple):
    """Results for all subjects under the estimated parameters."""

    log_likelihood: float
    information: Floats
    log_density: Floats
    keys: Floats
    effects: Floats


def look(backend: Threads, params: LinearMixedParams, scaling: Scaling, subjects: Grouped) -> Ended:
    """Likelihood, information about fixed effects, and random effects of all groups."""
    kernel = LinearMixedKernel(backend.model)
    prepared = kernel.prepare(params)
    total, information = 0.0, np.zeros((backend.model.p, backend.model.p))
    densities, numbers, effects = [], [], []
    for keys, rows in subjects.keyed_blocks():
        log_density, expectations = backend.posterior(params, rows)
        assert expectations is not None
        total += float(rows.weights() @ log_density)
        information += kernel.information(prepared, rows)
        densities.append(log_density)
        numbers.append(keys)
        effects.append(scaling.effects(expectations[:, 1 : 1 + backend.model.q]))
    return Ended(
        total,
        information,
        np.concatenate(densities),
        np.concatenate(numbers),
        np.concatenate(effects),
    )


def restricted_log_likelihood(
    log_likelihood: float, information: Floats, scaling: Scaling
) -> float:
    """The log-likelihood less half of log det (A'V^-1 A / 2 pi), in the units of the data.

    `information` is A'V^-1 A in scaled coordinates.
    """
    kept = scaling.turn[~scaling.left_out]
    unit = float(np.linalg.slogdet(kept)[1]) + len(kept) * log(scaling.scale)
    determinant = float(np.linalg.slogdet(information)[1]) - 2.0 * unit
    return log_likelihood - 0.5 * (determinant - len(kept) * log(2.0 * pi))
