"""Logistic regression with random effects, by maximum likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_kind, check_least
from mixfold.core.errors import InvalidInputError, unknown_name
from mixfold.core.learner import Learner
from mixfold.core.places import row_place
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.estimators._arrays import labels_of
from mixfold.estimators._designed import Designed, Effects, check_design
from mixfold.estimators._edge import check_finite
from mixfold.estimators._effects import (
    Observed,
    Scaling,
    shown_coefficients,
    sum_columns,
    warn_of_collinear,
)
from mixfold.estimators._logistic_inference import LogisticInference
from mixfold.estimators._matrices import finite_matrices
from mixfold.estimators._nonlinear import (
    LearnedUnits,
    NonlinearMixed,
    symmetric,
)
from mixfold.estimators._observations import Observations, storable
from mixfold.estimators._subjects import subjects_of
from mixfold.learners.em_gradient import EMGradient
from mixfold.learners.monte_carlo_em import MonteCarloEM
from mixfold.models.gaussian_effects import Structure, entries
from mixfold.models.logistic_mixed import (
    FEWEST_POINTS,
    MOST_QUADRATURE_EFFECTS,
    LogisticMixed,
    check_points,
)
from mixfold.schedules.settling import Settling

TOL, MOST_PASSES = 1e-7, 200
DEFAULT_POINTS = {1: 25, 2: 15}
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(32)


class LogisticMixedModel(ClassifierMixin, NonlinearMixed, LogisticInference, Designed):  # type: ignore[misc]
    """P(y_ij = 1) = expit(A_ij beta + B_ij z_i), z_i ~ N(0, Omega), for groups i.

    Fixed effects beta and the covariance Omega of random effects are learned by maximum likelihood,
    from data in memory or from sorted files that do not fit. One or two random effects per group
    are integrated by adaptive Gauss-Hermite quadrature; the result then does not depend on the
    seed. With more of them, expectations are computed from random draws.

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
    fit_intercept : bool, default=True
        With arrays, whether to add a column of ones before X. A formula has its own intercept.
    learner : str or learner object, default="auto"
        "auto" is accelerated `EMGradient` for one or two random effects per group, until a pass
        gains less than 1e-7 nats, and "monte-carlo-em" for more. Batch sizes count groups. With
        quadrature, "mini-batch-em", "online-em" and others can be used too.
    n_quadrature_points : int, default=None
        Points for each random effect, from 3 to 64, as nAGQ in lme4. None is 25 for one random
        effect and 15 for two. Not used for more.
    max_iter : int, default=None
        The largest number of passes over the data; None is the learner's default.
    evaluation_draws : int, default=1000
        With three or more random effects, the number of draws from which the likelihood, the
        standard errors and the random effects are computed.
    checkpoint : path, default=None
        File to which the fit is saved every `checkpoint_every` seconds while it runs.
    resume : bool or "force", default=False
        Whether to resume from `checkpoint` if it exists. Other data are refused; "force" continues
        with them and warns.
    random_state : int, RandomState or Generator, default=None
        Seed of the random numbers; an int makes fits reproducible.
    n_threads : int, default=None
        The number of threads; None is all cores. The result does not depend on it.
    verbose : int, default=0
        If above 0, progress is printed on stderr.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The classes of the response; P(y = 1) in the model is the probability of the second.
    coef_, coef_names_ : array of shape (p,), list of str
        Fixed effects; 0, with a standard error of NaN, for columns that are linear combinations of
        those before them.
    coef_std_errors_, coef_covariance_ : array of shape (p,), array of shape (p, p)
        Computed from the observed information, by Louis' identity, or from squared scores if draws
        make that indefinite.
    random_covariance_, random_covariance_std_errors_ : arrays of shape (q, q)
        Omega. Where it is singular there are no standard errors (NaN), and those of the fixed
        effects are as if it were known.
    random_names_ : list of str
    log_likelihood_, log_likelihood_std_error_ : float
        The log-likelihood of all data by quadrature; with three or more random effects by
        importance sampling. The standard error of this estimate is 0 for quadrature.
    groups_, random_effects_ : array of shape (m,), array of shape (m, q)
        Groups and E[z_i | y_i].
    random_effects_covariance_ : array of shape (m, q, q)
        Cov[z_i | y_i].
    n_groups_, n_seen_ : int
        The number of groups, and the number of groups read in all passes.
    n_iter_ : int
        The number of passes over the data.
    history_ : History
        `log_likelihood` per group and `step_size` of every pass.
    n_degenerate_ : int
        How often a variance was raised to its floor.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import LogisticMixedModel
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(200), 10)
    >>> x = rng.normal(size=(2000, 1))
    >>> eta = -0.5 + x[:, 0] + rng.normal(size=200)[groups]
    >>> y = rng.random(2000) < 1 / (1 + np.exp(-eta))
    >>> model = LogisticMixedModel().fit(x, y, groups)
    >>> bool((abs(model.coef_ - [-0.5, 1.0]) < 3 * model.coef_std_errors_).all())
    True

    References
    ----------
    Pinheiro and Bates (1995) for adaptive quadrature; Lange (1995); McCulloch (1997), Maximum
    likelihood algorithms for generalized linear mixed models; Louis (1982); Polyak and Juditsky
    (1992) for the mean of parameters.
    """

    # steps with an exponent below 1 keep moving where EM is slow, and the mean of their parameters
    # has less noise than the last of them
    _simulation: ClassVar[Learner] = MonteCarloEM(
        draws=5,
        schedule=Settling(full=20, exponent=0.6),
        max_iter=110,
        average_from=35,
        growth=0.15,
    )

    def __init__(
        self,
        formula: str | None = None,
        random: str | None = None,
        group: str | int | None = None,
        *,
        covariance: Structure = "full",
        fit_intercept: bool = True,
        learner: str | Learner = "auto",
        n_quadrature_points: int | None = None,
        max_iter: int | None = None,
        evaluation_draws: int = 1000,
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
        self.fit_intercept = fit_intercept
        self.learner = learner
        self.n_quadrature_points = n_quadrature_points
        self.max_iter = max_iter
        self.evaluation_draws = evaluation_draws
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.resume = resume
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, groups: Any = None, Z: Any = None, group_weight: Any = None
    ) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : table, path, list of paths or glob with a formula; else array of shape (n, p)
        y, groups : arrays of shape (n,), without a formula; no groups where `group` is a number
            Responses of two classes, and the group of each row. The modelled probability is that of
            the second class in sorted order: of 1 if y is 0 or 1.
        Z : array of shape (n, q), without a formula
            Columns of random effects; None is a random intercept.
        group_weight : array of shape (n,), or with a formula the name of a column
            Weights of groups, the same in all rows of a group; a group of weight 2 counts twice.
        """
        with self._learning() as fitted:
            fitted._check_parameters()
            if fitted.formula is not None or y is None:
                fitted._fit(fitted._open(X, y, groups, Z, group_weight))
            else:
                labels = labels_of(y)
                data = fitted._open(X, labels.codes, groups, Z, group_weight)
                classes = storable(labels.classes)
                fitted._fit(data._replace(design=replace(data.design, classes=classes)))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check_parameters(self) -> None:
        if self.covariance not in ("full", "diag"):
            raise unknown_name("covariance", self.covariance, ("full", "diag"))
        if self.n_quadrature_points is not None:
            check_points("n_quadrature_points", self.n_quadrature_points)
        self._check_settings()

    def _learner(self, n_effects: int, n_subjects: int) -> Learner:
        if self.learner != "auto":
            return super()._learner(n_effects, n_subjects)
        if n_effects <= MOST_QUADRATURE_EFFECTS:
            tol = TOL / n_subjects
            return EMGradient(tol, max_iter=MOST_PASSES, accelerate=True, criterion="step")
        return self._simulation

    def _fit(self, data: Observations) -> None:
        observed = Observed(data.design)
        successes = 0.0

        def check(rows: Rows, numbers: Sequence[int]) -> None:
            nonlocal successes
            check_finite(data.source.columns, rows, numbers, "group_weight")
            y, a, b = finite_matrices(data.design, rows, numbers)
            observed.take(y, a, b)
            check_responses(y, numbers)
            successes += float(y.sum())

        def table(x: NDArray[Any], starts: NDArray[np.intp]) -> tuple[Floats, NDArray[np.intp]]:
            response, a, b = data.design.matrices(np.asarray(x[:, 1:], dtype=np.float64))
            rotated = [sum_columns(a, turn) for turn in observed.scaling.turn.T]
            return np.column_stack([*rotated, b / observed.scaling.spread, response]), starts

        q = len(data.design.random_names)
        subjects, most = subjects_of(data.source, table, check, data.label)
        if successes in (0.0, float(observed.n)):
            raise InvalidInputError(
                f"the response is {int(successes > 0)} in every row: both 0 and 1 are needed"
            )
        warn_of_collinear(data.design.names, observed.scaling)
        # responses are 0 or 1 as they are: only A and B have other units inside
        scaling = replace(observed.scaling, offset=np.zeros(len(data.design.names)), scale=1.0)
        points = self.n_quadrature_points or DEFAULT_POINTS.get(q, FEWEST_POINTS)
        model = LogisticMixed(most, scaling.rank, q, self.covariance, points)
        design: Any = data.design
        self._learn(data, subjects, model, int(design.n_features), scaling)

    def _check_learned(self, learned: LearnedUnits) -> None:
        super()._check_learned(learned)
        check_kind("model", learned.model, LogisticMixed)
        check_kind("scaling", learned.scaling, Scaling)
        p, q = learned.model.n_fixed, learned.model.n_random
        check_design(learned.design, p, q)
        learned.scaling.check(len(learned.design.names), p, q)
        check_least("n_features", learned.n_features, learned.design.n_features)

    def _attributes(self, learned: LearnedUnits) -> dict[str, Any]:
        scaling, params = learned.scaling, learned.params
        q = len(params.covariance)
        i, j = entries(q, learned.model.covariance)
        p = len(params.mean)
        covariance = scaling.coefficient_covariance(learned.parameter_covariance[:p, :p])
        errors = np.sqrt(np.diag(learned.parameter_covariance)[p:])
        return {
            "classes_": classes_of(learned.design),
            **shown_coefficients(learned.design.names, scaling.turn @ params.mean, covariance),
            "random_covariance_": scaling.random_covariance(params.covariance),
            "random_covariance_std_errors_": symmetric(
                errors / (scaling.spread[i] * scaling.spread[j]), i, j, q
            ),
            "random_names_": list(learned.design.random_names),
            "groups_": np.asarray(learned.groups),
            "random_effects_": scaling.effects(learned.effects),
            "random_effects_covariance_": learned.effect_covariances
            / np.outer(scaling.spread, scaling.spread),
            "n_groups_": len(learned.effects),
        }

    def predict_proba(self, X: Any, groups: Any = None, Z: Any = None) -> Floats:
        """Probabilities (n, 2) of `classes_` in every row, averaged over the random effects.

        For a group in `groups_`, z_i has its posterior distribution; for others, z_i ~ N(0, Omega).
        A table or file needs the columns of the effects and of groups, not the response.
        """
        probability = np.concatenate([*map(self._probabilities, self._effects(X, groups, Z))])
        return np.column_stack([1.0 - probability, probability])

    def predict(self, X: Any, groups: Any = None, Z: Any = None) -> np.ndarray:
        """The more probable class of every row."""
        chosen = self.predict_proba(X, groups, Z)[:, 1] > 0.5
        return np.asarray(self.classes_[chosen.astype(np.intp)])

    def score(self, X: Any, y: Any = None, groups: Any = None, Z: Any = None) -> float:
        """Accuracy: the fraction of rows whose class is predicted correctly."""
        if y is None:
            check_is_fitted(self)
            y = self._responses(X)
        return float(np.mean(self.predict(X, groups, Z) == np.asarray(y)))

    def _probabilities(self, rows: Effects) -> Floats:
        a, b, number = rows
        known = number >= 0
        center = np.where(known[:, None], self.random_effects_[number], 0.0)
        spread = np.where(
            known[:, None, None], self.random_effects_covariance_[number], self.random_covariance_
        )
        eta = a @ self.coef_ + (b * center).sum(axis=1)
        deviation = np.sqrt(np.einsum("na,nab,nb->n", b, spread, b))
        return np.asarray(
            expit(eta[:, None] + deviation[:, None] * NODES) @ WEIGHTS / WEIGHTS.sum()
        )


def classes_of(design: Any) -> np.ndarray:
    """The class labels that are coded as 0 and 1."""
    classes = getattr(design, "classes", None)
    return np.arange(2) if classes is None else np.asarray(classes)


def check_responses(y: Floats, numbers: Sequence[int]) -> None:
    """Refuse responses that are not 0 or 1."""
    bad = (y != 0.0) & (y != 1.0)
    if bad.any():
        i = int(bad.argmax())
        raise InvalidInputError(
            f"{row_place(numbers[i])}: the response is {y[i]:g}; 0 or 1 is needed, so code it that "
            "way"
        )
