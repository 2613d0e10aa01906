"""Linear mixed-effects models by maximum likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import (
    LARGEST_SUM,
    check_above,
    check_array,
    check_count,
    check_least,
    check_whole,
)
from mixfold.core.errors import unknown_name
from mixfold.core.learner import Learner
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.core.value import value
from mixfold.engines.threads import Threads
from mixfold.estimators._designed import Designed, Effects, check_design
from mixfold.estimators._edge import check_finite, learner_from
from mixfold.estimators._effects import ArrayDesign, Observed, Scaling, known_covariance
from mixfold.estimators._fitting import UnitFitting
from mixfold.estimators._formula import FormulaDesign
from mixfold.estimators._information import observed_information
from mixfold.estimators._learned import check_learner
from mixfold.estimators._matrices import finite_matrices
from mixfold.estimators._observations import Observations, check_labels, storable
from mixfold.kernels.linear_mixed import LinearMixedKernel
from mixfold.learners.em import EM
from mixfold.models.linear_mixed import LinearMixed, LinearMixedParams
from mixfold.run.history import History
from mixfold.run.loop import check_some
from mixfold.sources._grouped import Check, Fold, Grouped

START_UNITS = 20_000
INFORMATIONS = ("observed", "expected")


@value
class LearnedEffects:
    """Everything the public attributes are made from."""

    model: LinearMixed
    learner: Any
    design: FormulaDesign | ArrayDesign
    scaling: Scaling
    params: LinearMixedParams
    log_likelihood: float
    information: Floats
    groups: Any
    effects: Floats | None
    n_groups: int
    n_seen: int
    history: History
    converged: bool
    degeneracies: int

    def check(self) -> None:
        """Refuse what no learning can have led to."""
        p, q = self.model.p, self.model.q
        check_design(self.design, p, q)
        self.model.check_params(self.params)
        check_learner(self.learner, self.model)
        self.scaling.check(p, q)
        check_array("information", self.information, (p, p), -LARGEST_SUM, LARGEST_SUM)
        self.history.check()
        for name in ("n_groups", "n_seen", "degeneracies"):
            check_count(name, getattr(self, name))
        if self.effects is not None:
            check_array("effects", self.effects, (self.n_groups, q), -LARGEST_SUM, LARGEST_SUM)
            check_labels(self.groups, self.n_groups)

    @property
    def n_features(self) -> int:
        """Columns of the data that are features."""
        return self.design.n_features

    def attributes(self) -> dict[str, Any]:
        """The public fitted attributes."""
        covariance = self.scaling.coefficient_covariance(self.information)
        found = {
            "n_features_in_": self.n_features,
            "coef_": self.scaling.coefficients(self.params),
            "coef_names_": list(self.design.names),
            "coef_std_errors_": np.sqrt(np.diag(covariance)),
            "coef_covariance_": covariance,
            "random_covariance_": self.scaling.random_covariance(self.params.omega),
            "random_names_": list(self.design.random_names),
            "noise_variance_": float(self.params.noise_variance * self.scaling.scale**2),
            "log_likelihood_": self.log_likelihood,
            "n_groups_": self.n_groups,
            "n_seen_": self.n_seen,
            "history_": self.history,
            "converged_": self.converged,
            "degeneracies_": self.degeneracies,
        }
        if self.effects is not None:
            found |= {"groups_": np.asarray(self.groups), "random_effects_": self.effects}
        return found


class Ended(NamedTuple):
    """What a look at all units shows under the learned parameters."""

    log_likelihood: float
    information: Floats
    log_density: Floats
    keys: Floats
    effects: Floats


class LinearMixedModel(UnitFitting, Designed):
    """y_i = A_i beta + B_i z_i + e_i, z_i ~ N(0, Omega), e_i ~ N(0, sigma^2 I), for groups i.

    Fixed effects beta, the covariance Omega of random effects and the noise variance sigma^2 are
    learned by maximum likelihood, from data in memory or from sorted files that do not fit.

    Parameters
    ----------
    formula : str, default=None
        "response ~ fixed effects", for tables and files. None is for arrays.
    random : str, default=None
        "~ random effects"; None is a random intercept, "~ 1".
    group : str, default=None
        The column that tells groups apart; a file must be sorted by it.
    covariance : {"full", "diag"}, default="full"
        Whether random effects may be correlated.
    omega : array of shape (q, q), default=None
        Keep Omega at this value.
    noise_variance : float, default=None
        Keep sigma^2 at this value.
    fit_intercept : bool, default=True
        With arrays, whether a column of ones is put before X. A formula says so itself.
    standard_errors : {"observed", "expected"}, default="observed"
        "observed" inverts the observed information of all parameters, as statsmodels does;
        "expected" that of the fixed effects alone, (sum_i A_i' V_i^-1 A_i)^-1 with
        V_i = B_i Omega B_i' + sigma^2 I, as lme4 does. The two agree for balanced designs.
    learner : str or learner object, default="auto"
        "auto" is EM with acceleration, up to `tol` and `max_passes`; or "em",
        "mini-batch-em", "online-em", or e.g. `MiniBatchEM(batch_size=100)`. A row is a group.
    tol : float, default=1e-13
        "auto" stops when fewer nats per observation are left to gain, as `EM` estimates it.
    max_passes : int, default=1000
        "auto" makes at most so many passes over the data.
    checkpoint : path, default=None
        Where to keep the fit while it runs, every `checkpoint_every` seconds.
    resume : bool or "force", default=False
        Go on from `checkpoint` if it is there. Other data are refused; "force" goes on with them
        and warns.
    random_state : int, RandomState or Generator, default=None
        Where randomness begins, for learners that have any.
    n_threads : int, default=None
        None is all cores. The result does not depend on it.
    verbose : int, default=0
        Above 0: lines of progress on stderr.

    Attributes
    ----------
    coef_, coef_names_ : array of shape (p,), list of str
        Fixed effects.
    coef_std_errors_, coef_covariance_ : array of shape (p,), array of shape (p, p)
        Standard errors of the fixed effects, and the covariance they are from.
    random_covariance_, random_names_ : array of shape (q, q), list of str
        Omega.
    noise_variance_ : float
        sigma^2.
    log_likelihood_ : float
        Of all data, under the learned parameters.
    groups_, random_effects_ : array of shape (m,), array of shape (m, q)
        Groups and their predicted random effects E[z_i | y_i], for data in memory. For files see
        `predict_random`.
    n_groups_, n_seen_ : int
        Groups, and groups learned with passes counted.
    history_ : History
        `log_likelihood` per group, `step_size`, `rows` and `time` of every pass or update.
    converged_ : bool
        Whether the learner came to rest by itself.
    degeneracies_ : int
        How often a variance had to be kept above its floor.

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

    _learns: ClassVar[type] = LearnedEffects

    def __init__(
        self,
        formula: str | None = None,
        random: str | None = None,
        group: str | None = None,
        *,
        covariance: str = "full",
        omega: Any = None,
        noise_variance: float | None = None,
        fit_intercept: bool = True,
        standard_errors: str = "observed",
        learner: str | Learner = "auto",
        tol: float = 1e-13,
        max_passes: int = 1000,
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
        self.fit_intercept = fit_intercept
        self.standard_errors = standard_errors
        self.learner = learner
        self.tol = tol
        self.max_passes = max_passes
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # learning

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, Z: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : table, path, list of paths or glob with a formula; else array of shape (n, p)
        y, groups : arrays of shape (n,), without a formula
            Responses, and what tells groups apart.
        Z : array of shape (n, q), without a formula
            Columns of random effects; None is a random intercept.
        sample_weight : array of shape (n,), or with a formula the name of a column
            Weights of groups, the same for all rows of one: a group of weight 2 is there twice.
        """
        with self._learning() as fitted:
            fitted._check_parameters()
            fitted._learn(fitted._open(X, y, groups, Z, sample_weight))
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
        check_whole("max_passes", self.max_passes)
        self._check_checkpoint()
        self._learner(1.0)

    def _learner(self, observations: float) -> Learner:
        if self.learner == "auto":
            tol = self.tol * max(1.0, observations)
            return EM(tol=tol, max_passes=self.max_passes, accelerate=True)
        return learner_from(self.learner)

    def _learn(self, data: Observations) -> None:
        observed = Observed(data.design)
        units = self._units(data, observed.fold, observed.see)
        check_some(observed.n, 1.0)
        model, scaling = self._model(data, observed.scaling), observed.scaling
        problem = Threads(model, self.n_threads)
        learner = self._learner(observed.n)
        learner = learner.resolve(units.length, model.d, False)
        fit = self._fit_units(problem, learner, data.design, units, START_UNITS)
        params = learner.estimate(problem, fit.state)
        ended = look(problem, params, scaling, units)
        self._remember(
            LearnedEffects(
                model=model,
                learner=learner,
                design=data.design,
                scaling=scaling,
                params=params,
                log_likelihood=ended.log_likelihood,
                information=self._information(problem, params, units, ended.information),
                groups=storable(data.labels(ended.keys)) if units.random_access else None,
                effects=ended.effects if units.random_access else None,
                n_groups=units.length,
                n_seen=fit.rows_seen,
                history=fit.history,
                converged=bool(learner.converged(fit.state)),
                degeneracies=int(fit.state.repairs),
            )
        )

    def _information(
        self, problem: Threads, params: LinearMixedParams, units: Grouped, expected: Floats
    ) -> Floats:
        if self.standard_errors == "expected":
            return expected
        return observed_information(problem, params, units, expected)

    def _units(self, data: Observations, fold: Fold, see: Check) -> Grouped:
        """Groups as rows; `see` looks at every observation once."""

        def check(rows: Rows, numbers: Sequence[int]) -> None:
            check_finite(data.source.columns, rows, numbers)
            see(rows, numbers)

        p, q = len(data.design.names), len(data.design.random_names)
        width = LinearMixed(p, q).d
        return Grouped(data.source, 0, fold, width, check=check, label=data.label)

    def _model(self, data: Observations, scaling: Scaling) -> LinearMixed:
        omega, noise, q = self.omega, self.noise_variance, len(data.design.random_names)
        return LinearMixed(
            len(data.design.names),
            q,
            self.covariance,  # type: ignore[arg-type]
            None if omega is None else scaling.inner_covariance(known_covariance(omega, q)),
            None if noise is None else float(noise) / scaling.scale**2,
            float(scaling.scale),
        )

    def _remember(self, learned: LearnedEffects) -> None:
        for name in ("groups_", "random_effects_"):
            self.__dict__.pop(name, None)
        self._learned = learned
        self.__dict__.update(learned.attributes())

    def _check_learned(self, learned: LearnedEffects) -> None:
        """Refuse what this estimator cannot have learned."""
        learned.check()

    def _now(self) -> LearnedEffects:
        return self._learned

    def __sklearn_is_fitted__(self) -> bool:
        return "_learned" in self.__dict__

    # evaluation

    def _look(self, X: Any, y: Any, groups: Any, Z: Any) -> tuple[Observations, Ended]:
        """Groups of any data under what has been learned."""
        check_is_fitted(self)
        learned = self._learned
        data = self._open_again(X, y, groups, Z, response=True)

        def see(rows: Rows, numbers: Sequence[int]) -> None:
            finite_matrices(learned.design, rows, numbers)

        units = self._units(data, partial(learned.scaling.fold, learned.design), see)
        check_some(units.length, 1.0)
        problem = Threads(learned.model, self.n_threads)
        return data, look(problem, learned.params, learned.scaling, units)

    def predict_random(
        self, X: Any, y: Any = None, groups: Any = None, Z: Any = None
    ) -> tuple[np.ndarray, Floats]:
        """Groups of any data, and their predicted random effects E[z_i | y_i], (m, q)."""
        data, ended = self._look(X, y, groups, Z)
        return data.labels(ended.keys), ended.effects

    def score_samples(self, X: Any, y: Any = None, groups: Any = None, Z: Any = None) -> Floats:
        """Log-density of every group's responses."""
        return self._look(X, y, groups, Z)[1].log_density

    def score(self, X: Any, y: Any = None, groups: Any = None, Z: Any = None) -> float:
        """Mean log-density of groups."""
        return float(self.score_samples(X, y, groups, Z).mean())

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

    def save(self, path: str | Path) -> None:
        """Write a model file that `mixfold.load` reads, here or elsewhere."""
        from mixfold.estimators._saving import save

        check_is_fitted(self)
        save(self, path)


def look(problem: Threads, params: LinearMixedParams, scaling: Scaling, units: Grouped) -> Ended:
    """Likelihood, information about fixed effects, and random effects of all groups."""
    kernel = LinearMixedKernel(problem.model)
    prepared = kernel.prepare(params)
    total, information = 0.0, np.zeros((problem.model.p, problem.model.p))
    densities, numbers, effects = [], [], []
    for keys, rows in units.keyed_blocks():
        log_density, latent = problem.posterior(params, rows)
        assert latent is not None
        total += float(rows.weights() @ log_density)
        information += kernel.information(prepared, rows)
        densities.append(log_density)
        numbers.append(keys)
        effects.append(scaling.effects(latent[:, 1 : 1 + problem.model.q]))
    return Ended(
        total,
        information,
        np.concatenate(densities),
        np.concatenate(numbers),
        np.concatenate(effects),
    )
