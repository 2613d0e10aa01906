"""Estimators of nonlinear mixed models: the fit, then the evaluation of every subject."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from math import sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.backends.threads import Threads
from mixfold.core.backend import Assignment
from mixfold.core.checks import (
    LARGEST_SUM,
    check_above,
    check_array,
    check_count,
    check_kind,
    check_least,
    check_whole,
)
from mixfold.core.learner import Learner
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows, join, no_rows
from mixfold.core.value import value
from mixfold.estimators._edge import learner_from
from mixfold.estimators._fitting import UnitFitting
from mixfold.estimators._learned import check_learner
from mixfold.estimators._observations import Observations, check_labels, storable
from mixfold.fitting.history import History
from mixfold.kernels.simulation import SimulationKernel, Summary
from mixfold.models.random_effects import RandomEffects
from mixfold.sources.grouped import Grouped

INITIAL_SUBJECTS = 2000
TOGETHER = 512  # subjects evaluated at once
LEAST_EIGENVALUE = 1e-8
LEAST_INFORMATION = 1e-4


@value
class LearnedUnits:
    """Everything the public attributes are made from.

    `design` describes the columns, and `scaling` the units in which they were learned.
    `parameter_covariance` is of the learned parameters in the order of the model's scores; `weight`
    is that of all subjects together.
    """

    model: Any
    learner: Any
    design: Any
    scaling: Any
    n_features: int
    params: Any
    parameter_covariance: Floats
    log_likelihood: float
    log_likelihood_std_error: float
    groups: Any
    effects: Floats
    effect_covariances: Floats
    weight: float
    n_seen: int
    n_iter: int
    history: History
    n_degenerate: int

    def check(self) -> None:
        """Raise an error for an invalid state."""
        check_kind("model", self.model, RandomEffects)
        self.model.check_params(self.params)
        check_learner(self.learner, self.model)
        check_count("n_features", self.n_features)
        # NaN for parameters that the data do not identify
        identified = ~np.isnan(self.parameter_covariance)
        r = self.model.n_parameters()
        covariance = np.where(identified, self.parameter_covariance, 0.0)
        check_array("parameter_covariance", covariance, (r, r), -LARGEST_SUM, LARGEST_SUM)
        n, q = len(self.effects), self.model.n_effects
        check_array("effects", self.effects, (n, q))
        check_array("effect_covariances", self.effect_covariances, (n, q, q))
        check_labels(self.groups, n)
        check_above("weight", self.weight, 0.0)
        check_least("log_likelihood_std_error", self.log_likelihood_std_error, 0.0)
        self.history.check()
        check_count("n_seen", self.n_seen)
        check_count("n_iter", self.n_iter)
        check_count("n_degenerate", self.n_degenerate)


class Look(NamedTuple):
    """Results for every subject, and for the parameters, from draws at the estimate."""

    keys: Floats
    effects: Floats
    covariances: Floats
    weight: float
    log_likelihood: float
    log_likelihood_std_error: float
    parameter_covariance: Floats


class NonlinearMixed(UnitFitting):
    """An estimator with random effects that are drawn or integrated numerically.

    `_simulation` are the settings of learner="monte-carlo-em" that suit the model.
    """

    learner: Any
    evaluation_draws: int
    n_threads: int | None

    _learns: ClassVar[type] = LearnedUnits
    _simulation: ClassVar[Learner]
    _learned: LearnedUnits

    def _attributes(self, learned: LearnedUnits) -> dict[str, Any]:
        raise AssertionError("every estimator names its attributes")

    def _check_settings(self) -> None:
        for name in ("max_iter", "n_threads"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        check_whole("evaluation_draws", self.evaluation_draws, 2)
        self._check_checkpoint()
        self._learner(1, 1)

    def _learner(self, n_effects: int, n_subjects: int) -> Learner:
        """The learner of a model with so many random effects, for so many units."""
        return self._simulation if self.learner == "monte-carlo-em" else learner_from(self.learner)

    def _learn(
        self,
        data: Observations,
        subjects: Grouped,
        model: RandomEffects,
        n_features: int,
        scaling: Any = None,
    ) -> None:
        backend = Threads(model, self.n_threads)
        learner = self._learner(model.n_effects, subjects.length).resolve(
            subjects.length, subjects.d, False
        )
        fit = self._fit_subjects(backend, learner, data.design, subjects, INITIAL_SUBJECTS)
        params = learner.estimate(backend, fit.state)
        # another seed than that of the fit
        seen = look(backend, params, subjects, self.evaluation_draws, fit.seed + 1)
        self._remember(
            LearnedUnits(
                model=model,
                learner=learner,
                design=data.design,
                scaling=scaling,
                n_features=n_features,
                params=params,
                parameter_covariance=seen.parameter_covariance,
                log_likelihood=seen.log_likelihood,
                log_likelihood_std_error=seen.log_likelihood_std_error,
                groups=storable(data.labels(seen.keys)),
                effects=seen.effects,
                effect_covariances=seen.covariances,
                weight=seen.weight,
                n_seen=fit.rows_seen,
                n_iter=fit.passes,
                history=fit.history,
                n_degenerate=int(fit.state.n_degenerate),
            )
        )

    def _remember(self, learned: LearnedUnits) -> None:
        self._learned = learned
        self.n_features_in_ = learned.n_features
        self.params_ = learned.params
        self.log_likelihood_ = learned.log_likelihood
        self.log_likelihood_std_error_ = learned.log_likelihood_std_error
        self.n_seen_, self.n_iter_ = learned.n_seen, learned.n_iter
        self.history_ = learned.history
        self.n_degenerate_ = learned.n_degenerate
        self.__dict__.update(self._attributes(learned))

    def aic(self) -> float:
        """Akaike information criterion of the data learned from; lower is better."""
        check_is_fitted(self)
        return self._criterion(2.0)

    def bic(self) -> float:
        """Bayesian information criterion, which counts subjects by weight; lower is better."""
        check_is_fitted(self)
        return self._criterion(float(np.log(self._learned.weight)))

    def _criterion(self, penalty: float) -> float:
        free = int(self._learned.model.n_parameters())
        return -2.0 * float(self.log_likelihood_) + penalty * free


def look(backend: Threads, params: Any, subjects: Grouped, draws: int, seed: int) -> Look:
    """Draw the random effects of every subject many times at the estimated parameters."""
    kernel = backend.kernel
    assert isinstance(kernel, SimulationKernel)
    parts: list[Summary] = []

    def summarize(piece: tuple[int, Rows]) -> Summary:
        first, rows = piece
        return kernel.summarize(params, rows, Assignment("draw", draws, seed, first))

    keys, weights, numbered = [], [], enumerate(pieces(subjects, TOGETHER))
    # as many at a time as there are threads, so that memory stays bounded
    while several := list(islice(numbered, backend.n_threads)):
        found = backend.map(summarize, [(i * TOGETHER, rows) for i, (_, rows) in several])
        parts += found
        keys += [labels for _, (labels, _) in several]
        weights += [rows.weights() for _, (_, rows) in several]
    return Look(
        np.concatenate(keys),
        np.concatenate([part.effects for part in parts]),
        np.concatenate([part.covariance for part in parts]),
        float(np.concatenate(weights).sum()),
        sum(float(w @ part.log_density) for w, part in zip(weights, parts, strict=True)),
        sqrt(
            sum(
                float(w**2 @ part.relative_variance) for w, part in zip(weights, parts, strict=True)
            )
        ),
        inverse_information(
            np.sum([part.observed for part in parts], axis=0),
            np.sum([part.outer for part in parts], axis=0),
            0 if any(part.relative_variance.any() for part in parts) else len(params.mean),
        ),
    )


def pieces(subjects: Grouped, length: int) -> Iterator[tuple[Floats, Rows]]:
    """Subjects by `length`, wherever the blocks of the source end, with the numbers of groups."""
    keys, rows = np.empty(0), no_rows(subjects.d)
    for labels, block in subjects.keyed_blocks(length=length):
        keys, rows = np.concatenate([keys, labels]), join([rows, block])
        while len(rows) >= length:
            yield keys[:length], rows.cut(0, length)
            keys, rows = keys[length:], rows.cut(length, len(rows))
    if len(rows):
        yield keys, rows


def inverse_information(observed: Floats, outer: Floats, n_means: int = 0) -> Floats:
    """The covariance of the estimates: from Louis' identity, or else from squared scores.

    A parameter that the data do not identify, such as a standard deviation at its floor, has NaN;
    the others are computed as if it were known. If `n_means` is given and variances on the border
    of their domain make the information indefinite, all but the first `n_means` parameters have
    NaN; this requires exact information, since draws may make it indefinite too.
    """
    identified = ~(np.maximum(np.abs(np.diag(observed)), np.diag(outer)) <= LEAST_INFORMATION)
    found = np.full_like(observed, np.nan)
    if not identified.any():
        return found
    means = _inverse(observed[:n_means, :n_means]) if n_means else None
    if means is not None and _inverse(observed) is None:
        found[:n_means, :n_means] = means
        return found
    found[np.ix_(identified, identified)] = _covariance_of(
        observed[np.ix_(identified, identified)], outer[np.ix_(identified, identified)]
    )
    return found


def _covariance_of(observed: Floats, outer: Floats) -> Floats:
    found = _inverse(observed)
    if found is not None:
        return found
    found = _inverse(outer)
    remedy = (
        "standard errors are computed from squared scores, which is less exact; use more "
        "evaluation_draws, or fewer random effects if a variance is zero"
        if found is not None
        else "there are no standard errors: the data do not identify all parameters; use a "
        "simpler model, or more evaluation_draws"
    )
    warnings.warn(
        f"the observed information is not positive definite, so that {remedy}",
        RuntimeWarning,
        stacklevel=3,
    )
    return np.full_like(observed, np.nan) if found is None else found


def _inverse(information: Floats) -> Floats | None:
    """The inverse, or None where there is none."""
    diagonal = np.diag(information)
    if not (np.isfinite(information).all() and (diagonal > 0).all()):
        return None
    # scaled to a unit diagonal, since parameters may differ much in size
    size = np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(0.5 * (information + information.T) / np.outer(size, size))
    if not values[0] > LEAST_EIGENVALUE:
        return None
    return np.asarray((vectors / values) @ vectors.T / np.outer(size, size))


def symmetric(entries: Floats, i: np.ndarray, j: np.ndarray, q: int) -> Floats:
    """A symmetric matrix with these entries, and zero elsewhere."""
    square = np.zeros((q, q))
    square[i, j] = square[j, i] = entries
    return square
