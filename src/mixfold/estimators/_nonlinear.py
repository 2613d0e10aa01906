"""What the estimators of nonlinear mixed models share: learning, then standard errors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_whole
from mixfold.core.errors import InvalidInputError
from mixfold.core.learner import Learner
from mixfold.core.problem import Assignment
from mixfold.core.rows import Array as Floats
from mixfold.engines.threads import Threads
from mixfold.estimators._edge import learner_from
from mixfold.estimators._evaluation import Evaluation
from mixfold.kernels._simulation import SimulationKernel
from mixfold.learners._stand_in import StandIn
from mixfold.models._random_effects import RandomEffects
from mixfold.run.loop import Loop
from mixfold.run.progress import Lines, Silent
from mixfold.sources._grouped import Grouped

SAMPLE = 2000  # units that a start is made from
TOGETHER = 512  # units evaluated at one go


def chosen_learner(given: Any, seed: int) -> Learner:
    """The learner of a nonlinear mixed model: the one place that knows the stand-in."""
    if isinstance(given, str) and given == "monte-carlo-em":
        return StandIn(seed=seed)
    learner = learner_from(given)
    return replace(learner, seed=seed) if isinstance(learner, StandIn) else learner


@dataclass(frozen=True)
class Evaluated:
    """What many draws at the learned parameters tell: of units, and of the parameters' errors."""

    keys: Floats
    effects: Floats
    covariances: Floats
    log_likelihood: float
    parameter_covariance: Floats


class NonlinearMixed(BaseEstimator):  # type: ignore[misc]
    """An estimator whose units have random effects that can only be drawn."""

    learner: Any
    passes: int | None
    evaluation_draws: int
    random_state: Any
    n_threads: int | None
    verbose: int

    _seed = Evaluation._seed

    def _check_settings(self) -> None:
        for name in ("passes", "n_threads"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        check_whole("evaluation_draws", self.evaluation_draws, 2)
        chosen_learner(self.learner, 0)

    def _learn(self, source: Grouped, model: RandomEffects) -> Evaluated:
        """Fit, remember what every such model has, and evaluate."""
        seed = self._seed()
        problem = Threads(model, self.n_threads)
        learner = chosen_learner(self.learner, seed).resolve(source.length, source.d, False)
        sample = source.sample(SAMPLE, np.random.default_rng([seed, 2**31]))
        loop = Loop(
            problem,
            learner,
            source,
            [lambda: model.start(sample.x)],
            seed=seed,
            passes=self.passes,
            progress=Lines() if self.verbose else Silent(),
        )
        fit = loop.run()
        self.params_ = learner.estimate(problem, fit.state)
        self.history_ = fit.history
        self.n_passes_ = fit.passes
        self.degeneracies_ = int(fit.state.repairs)
        evaluated = self._evaluate(problem, source, seed)
        self.log_likelihood_ = evaluated.log_likelihood
        self.n_units_ = len(evaluated.keys)
        self._n_parameters = model.n_parameters()
        return evaluated

    def _evaluate(self, problem: Threads, source: Grouped, seed: int) -> Evaluated:
        kernel = problem.kernel
        assert isinstance(kernel, SimulationKernel)
        keys, summaries, first = [], [], 0
        for labels, block in source.keyed_blocks(length=TOGETHER):
            keys.append(labels)
            for i in range(0, len(block), TOGETHER):
                rows = block.cut(i, i + TOGETHER)
                # numbers of units that no pass of learning has had
                rule = Assignment("draw", self.evaluation_draws, seed + 1, first)
                summaries.append(kernel.summarize(self.params_, rows, rule))
                first += len(rows)
        return Evaluated(
            np.concatenate(keys),
            np.concatenate([s.effects for s in summaries]),
            np.concatenate([s.covariance for s in summaries]),
            float(sum(s.log_density.sum() for s in summaries)),
            inverse_information(
                sum((s.observed for s in summaries), np.zeros(())),
                sum((s.outer for s in summaries), np.zeros(())),
            ),
        )

    def aic(self) -> float:
        """Akaike information criterion of the data learned from; lower is better."""
        check_is_fitted(self, "params_")
        return -2.0 * self.log_likelihood_ + 2.0 * self._n_parameters

    def bic(self) -> float:
        """Bayesian information criterion, counting units; lower is better."""
        check_is_fitted(self, "params_")
        return -2.0 * self.log_likelihood_ + float(np.log(self.n_units_)) * self._n_parameters


def inverse_information(observed: Floats, outer: Floats) -> Floats:
    """The covariance of the estimates: from Louis' identity, or else from squared scores."""
    for information in (observed, outer):
        values, vectors = np.linalg.eigh(0.5 * (information + information.T))
        if values[0] > np.finfo(np.float64).eps * values[-1]:
            return np.asarray((vectors / values) @ vectors.T)
    warnings.warn(
        "the information is not positive definite, so that there are no standard errors: the data "
        "do not tell all parameters apart; use a simpler model, or more draws",
        RuntimeWarning,
        stacklevel=2,
    )
    return np.full_like(observed, np.nan)


def symmetric(entries: Floats, i: np.ndarray, j: np.ndarray, q: int) -> Floats:
    """A symmetric matrix with these entries, and zero elsewhere."""
    square = np.zeros((q, q))
    square[i, j] = square[j, i] = entries
    return square


def check_choice(name: str, given: Any, known: tuple[str, ...]) -> None:
    """Refuse what is not one of a few words."""
    if given not in known:
        raise InvalidInputError(f"{name} is {given!r}: one of {', '.join(map(repr, known))}")
