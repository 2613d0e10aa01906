"""Linear mixed-effects models by maximum or restricted maximum likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.backends.threads import Threads
from mixfold.core.checks import (
    check_above,
    check_least,
    check_whole,
)
from mixfold.core.errors import unknown_name
from mixfold.core.learner import Learner
from mixfold.core.registry import is_called
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.source import Check
from mixfold.estimators._designed import Designed, Effects
from mixfold.estimators._edge import check_finite, learner_from
from mixfold.estimators._effects import Observed, Scaling, known_covariance, warn_of_collinear
from mixfold.estimators._fitting import UnitFitting
from mixfold.estimators._information import observed_information
from mixfold.estimators._matrices import finite_matrices
from mixfold.estimators._mixed_inference import MixedInference
from mixfold.estimators._observations import Observations, storable
from mixfold.estimators._restricted import (
    coordinates_of,
    group_sizes,
    minimizer,
    one_factor_deviance,
)
from mixfold.estimators.learned_effects import (
    Ended,
    LearnedEffects,
    look,
    restricted_log_likelihood,
)
from mixfold.fitting.loop import check_some
from mixfold.learners.em import EM
from mixfold.models.linear_mixed import LinearMixed, LinearMixedParams
from mixfold.models.variance_errors import variance_errors
from mixfold.sources.grouped import Fold, Grouped

INITIAL_SUBJECTS = 20_000
INFORMATIONS = ("observed", "expected")


class LinearMixedModel(UnitFitting, MixedInference, Designed):
    """y_i = A_i beta + B_i z_i + e_i, z_i ~ N(0, Omega), e_i ~ N(0, sigma^2 I), for groups i.

    Fixed effects beta, the covariance Omega of random effects and the noise variance sigma^2 are
    learned by maximum or restricted maximum likelihood (REML), from data in memory or from sorted
    files that do not fit. `CrossedMixedModel` is for several grouping factors.

    Parameters
    ----------
    formula : str, default=None
        "response ~ fixed effects", for tables and files. None is for arrays.
    random : str, default=None
        "~ random effects"; None is a random intercept, "~ 1".
    group : str or int, default=None
        The column that holds the group of each row. With a formula its name; a file must be sorted
        by it. With arrays the number of a column of X, which is then not a feature, or None to pass
        `groups` to `fit`.
    covariance : {"full", "diag"}, default="full"
        Whether random effects may be correlated.
    omega : array of shape (q, q), default=None
        A known Omega, which is not estimated.
    noise_variance : float, default=None
        A known sigma^2, which is not estimated.
    reml : bool, default=False
        Whether to maximise the restricted likelihood, from the estimate of the learner. Standard
        errors are then the "expected" ones.
    variance_errors : bool, default=False
        Whether to compute standard errors of variances and Satterthwaite's degrees of freedom, for
        `variance_intervals` and `summary`, in 2 + 4 k + 2 k (k - 1) more passes for k variances.
    fit_intercept : bool, default=True
        With arrays, whether to add a column of ones before X. A formula has its own intercept.
    standard_errors : {"observed", "expected"}, default="observed"
        "observed" inverts the observed information of all parameters, as statsmodels does;
        "expected" inverts that of the fixed effects alone, (sum_i A_i' V_i^-1 A_i)^-1 with V_i =
        B_i Omega B_i' + sigma^2 I, as lme4 does. The two agree for balanced designs.
    learner : str or learner object, default="auto"
        "auto" is accelerated EM with `tol` and `max_iter`; or "em", "mini-batch-em", "online-em",
        or e.g. `MiniBatchEM(batch_size=100)`. Batch sizes count groups.
    tol : float, default=1e-13
        "auto" stops when fewer nats per observation are left to gain, as `EM` estimates it.
    max_iter : int, default=1000
        The largest number of passes over the data that "auto" makes.
    checkpoint : path, default=None
        File to which the fit is saved every `checkpoint_every` seconds while it runs.
    resume : bool or "force", default=False
        Whether to resume from `checkpoint` if it exists. Other data are refused; "force" continues
        with them and warns.
    random_state : int, RandomState or Generator, default=None
        Seed of the random numbers, for learners that use them.
    n_threads : int, default=None
        The number of threads; None is all cores. The result does not depend on it.
    verbose : int, default=0
        If above 0, progress is printed on stderr.

    Attributes
    ----------
    coef_, coef_names_ : array of shape (p,), list of str
        Fixed effects; 0, with a standard error of NaN, for columns that are linear combinations of
        those before them.
    coef_std_errors_, coef_covariance_ : array of shape (p,), array of shape (p, p)
        Standard errors of the fixed effects, and their covariance matrix.
    random_covariance_, random_names_ : array of shape (q, q), list of str
        Omega.
    noise_variance_ : float
        sigma^2.
    coef_degrees_of_freedom_ : array of shape (p,)
        Satterthwaite's, with `variance_errors=True`.
    log_likelihood_, restricted_log_likelihood_ : float
        The log-likelihoods of all data under the estimated parameters.
    groups_, random_effects_ : array of shape (m,), array of shape (m, q)
        Groups and their predicted random effects E[z_i | y_i], for data in memory. For files see
        `predict_random`.
    n_groups_, n_seen_ : int
        The number of groups, and the number of groups that the learner read in all passes.
    n_observations_ : float
        The number of rows, by the weights of their groups.
    n_iter_ : int
        The number of passes of the learner over the data.
    history_ : History
        `log_likelihood` per group, `step_size`, `rows` and `time` of every pass or update.
    converged_ : bool
        Whether the learner has converged.
    n_degenerate_ : int
        How often a variance was raised to its floor.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import LinearMixedModel
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(200), 10)
    >>> x = rng.normal(size=(2000, 1))
    >>> y = 4 + 9 * x[:, 0] + rng.normal(size=200)[groups] + 0.5 * rng.normal(size=2000)
    >>> model = LinearMixedModel().fit(x, y, groups)
    >>> model.coef_.round(1), round(model.noise_variance_, 2)
    (array([4., 9.]), 0.25)
    >>> table = {"y": y, "x": x[:, 0], "school": groups}
    >>> import pyarrow
    >>> again = LinearMixedModel("y ~ x", group="school").fit(pyarrow.table(table))
    >>> bool(np.allclose(again.coef_, model.coef_))
    True

    References
    ----------
    Laird and Ware (1982); Laird, Lange and Stram (1987), Maximum likelihood computations with
    repeated measures: application of the EM algorithm.
    """

    _learned: LearnedEffects
    _learns: ClassVar[type] = LearnedEffects
    _own_learner = "auto"

    def __init__(
        self,
        formula: str | None = None,
        random: str | None = None,
        group: str | int | None = None,
        *,
        covariance: str = "full",
        omega: Any = None,
        noise_variance: float | None = None,
        reml: bool = False,
        variance_errors: bool = False,
        fit_intercept: bool = True,
        standard_errors: str = "observed",
        learner: str | Learner = "auto",
        tol: float = 1e-13,
        max_iter: int = 1000,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = 30.0,
        resume: bool | str = False,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.formula = formula
        self.random = random
        self.group = group
        self.covariance = covariance
        self.omega = omega
        self.noise_variance = noise_variance
        self.reml = reml
        self.variance_errors = variance_errors
        self.fit_intercept = fit_intercept
        self.standard_errors = standard_errors
        self.learner = learner
        self.tol = tol
        self.max_iter = max_iter
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # learning

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, Z: Any = None, group_weight: Any = None
    ) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : table, path, list of paths or glob with a formula; else array of shape (n, p)
        y, groups : arrays of shape (n,), without a formula; no groups where `group` is a number
            Responses, and the group of each row.
        Z : array of shape (n, q), without a formula
            Columns of random effects; None is a random intercept.
        group_weight : array of shape (n,), or with a formula the name of a column
            Weights of groups, the same in all rows of a group; a group of weight 2 counts twice.
        """
        with self._learning() as fitted:
            fitted._check_parameters()
            fitted._learn(fitted._open(X, y, groups, Z, group_weight))
        return self

    def _check_parameters(self) -> None:
        if self.covariance not in ("full", "diag"):
            raise unknown_name("covariance", self.covariance, ("full", "diag"))
        if self.standard_errors not in INFORMATIONS:
            raise unknown_name("standard_errors", self.standard_errors, INFORMATIONS)
        if self.noise_variance is not None:
            check_above("noise_variance", self.noise_variance, 0.0)
        if self.n_threads is not None:
            check_whole("n_threads", self.n_threads)
        check_least("tol", self.tol, 0.0)
        check_whole("max_iter", self.max_iter)
        self._check_checkpoint()
        self._learner(1.0)

    def _learner(self, observations: float) -> Learner:
        if is_called(self.learner, self._own_learner):
            tol = self.tol * max(1.0, observations)
            return EM(tol=tol, max_iter=self.max_iter, accelerate=True)
        return learner_from(self.learner)

    def _learn(self, data: Observations) -> None:
        observed = Observed(data.design)
        subjects = self._subjects(data, observed.fold, observed.see)
        check_some(observed.n, 1.0)
        scaling = observed.scaling
        warn_of_collinear(data.design.names, scaling)
        model = self._model(data, scaling)
        subjects = subjects.refolded(observed.fold, model.d)  # without effects that are left out
        backend = Threads(model, self.n_threads)
        learner = self._learner(observed.n)
        learner = learner.resolve(subjects.length, model.d, False)
        fit = self._fit_subjects(backend, learner, data.design, subjects, INITIAL_SUBJECTS)
        sizes = group_sizes(subjects)
        deviance = one_factor_deviance(model, subjects, sizes.observations, bool(self.reml))
        params, converged = learner.estimate(backend, fit.state), bool(learner.converged(fit.state))
        if self.reml:
            params, converged = minimizer(model, deviance, params)
        errors = None
        if self.variance_errors:
            at = coordinates_of(deviance, params)
            errors = variance_errors(deviance, at, scaling.turn)
        ended = look(backend, params, scaling, subjects)
        self._remember(
            LearnedEffects(
                model=model,
                learner=learner,
                design=data.design,
                scaling=scaling,
                params=params,
                reml=bool(self.reml),
                log_likelihood=ended.log_likelihood,
                restricted_log_likelihood=restricted_log_likelihood(
                    ended.log_likelihood, ended.information, scaling
                ),
                variance_errors=errors,
                n_observations=sizes.observations,
                group_sizes=[sizes.smallest, sizes.largest],
                information=self._information(backend, params, subjects, ended.information),
                groups=storable(data.labels(ended.keys)) if subjects.random_access else None,
                effects=ended.effects if subjects.random_access else None,
                n_groups=subjects.length,
                n_seen=fit.rows_seen,
                n_iter=fit.passes,
                history=fit.history,
                converged=converged,
                n_degenerate=int(fit.state.n_degenerate),
            )
        )

    def _information(
        self, backend: Threads, params: LinearMixedParams, subjects: Grouped, expected: Floats
    ) -> Floats:
        if self.standard_errors == "expected" or self.reml:
            return expected
        return observed_information(backend, params, subjects, expected)

    def _subjects(self, data: Observations, fold: Fold, see: Check) -> Grouped:
        """A source with one row per group; `see` is called with every block of observations."""

        def check(rows: Rows, numbers: Sequence[int]) -> None:
            check_finite(data.source.columns, rows, numbers, "group_weight")
            see(rows, numbers)

        p, q = len(data.design.names), len(data.design.random_names)
        width = LinearMixed(p, q).d
        return Grouped(data.source, 0, fold, width, check=check, label=data.label)

    def _model(self, data: Observations, scaling: Scaling) -> LinearMixed:
        omega, noise, q = self.omega, self.noise_variance, len(data.design.random_names)
        return LinearMixed(
            scaling.rank,
            q,
            self.covariance,  # type: ignore[arg-type]
            None if omega is None else scaling.inner_covariance(known_covariance(omega, q)),
            None if noise is None else float(noise) / scaling.scale**2,
            float(scaling.scale),
        )

    # evaluation

    def _look(self, X: Any, y: Any, groups: Any, Z: Any) -> tuple[Observations, Ended]:
        """Evaluate the groups of any data under the estimated parameters."""
        check_is_fitted(self)
        learned = self._learned
        data = self._open_again(X, y, groups, Z, response=True)

        def see(rows: Rows, numbers: Sequence[int]) -> None:
            finite_matrices(learned.design, rows, numbers)

        fold = partial(learned.scaling.fold, learned.design)
        subjects = self._subjects(data, fold, see).refolded(fold, learned.model.d)
        check_some(subjects.length, 1.0)
        backend = Threads(learned.model, self.n_threads)
        return data, look(backend, learned.params, learned.scaling, subjects)

    def predict_random(
        self, X: Any, y: Any = None, groups: Any = None, Z: Any = None
    ) -> tuple[np.ndarray, Floats]:
        """Groups of any data, and their predicted random effects E[z_i | y_i], (m, q)."""
        data, ended = self._look(X, y, groups, Z)
        return data.labels(ended.keys), ended.effects

    def score_groups(self, X: Any, y: Any = None, groups: Any = None, Z: Any = None) -> Floats:
        """Log-density of every group's responses."""
        return self._look(X, y, groups, Z)[1].log_density

    def score(self, X: Any, y: Any = None, groups: Any = None, Z: Any = None) -> float:
        """Mean log-density of groups."""
        return float(self.score_groups(X, y, groups, Z).mean())

    def predict(self, X: Any, groups: Any = None, Z: Any = None) -> Floats:
        """Responses of rows: A beta + B z for groups in `groups_`, A beta for others.

        A table or file needs the columns of the effects and of groups, not the response.
        """
        return np.concatenate([*map(self._predicted, self._effects(X, groups, Z))])

    def _predicted(self, rows: Effects) -> Floats:
        effects, known = np.zeros_like(rows.b), rows.number >= 0
        if known.any():
            effects[known] = self.random_effects_[rows.number[known]]
        return np.asarray(rows.a @ self.coef_ + (rows.b * effects).sum(axis=1))
