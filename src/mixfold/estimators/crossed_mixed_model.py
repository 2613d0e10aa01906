"""Linear mixed-effects models with several grouping factors, crossed or nested."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.rows import Array
from mixfold.estimators._crossed_rows import CrossedRows, predicted, read_bars
from mixfold.estimators._fitted_state import FittedState
from mixfold.estimators._formula_bars import Bar, split_bars
from mixfold.estimators._mixed_inference import MixedInference
from mixfold.estimators.learned_crossed import LearnedCrossed, LearnedFactor
from mixfold.estimators.learned_effects import restricted_log_likelihood
from mixfold.models.crossed_moments import CrossedMoments
from mixfold.models.gaussian_effects import raise_to_floor
from mixfold.models.linear_mixed import LEAST_SHARE, LEAST_VARIANCE
from mixfold.models.profiled_deviance import ProfiledDeviance, Variances
from mixfold.models.variance_errors import variance_errors


class CrossedMixedModel(FittedState, MixedInference):
    """y = A beta + sum_j Z_j z_j + e, z_j ~ N(0, Omega_j) for every group of factor j.

    The grouping factors may be crossed, as pupils and tests are, or nested, as pupils in schools.
    The deviance, in which the best fixed effects for given variances are inserted, is minimised in
    the variances by BFGS. All rows, and a matrix of all random effects but those of the largest
    factor, are in memory; `LinearMixedModel` reads data that are not, with one grouping factor.

    Parameters
    ----------
    formula : str
        "response ~ fixed effects + (effects | group) + ...", as in lme4: "y ~ x + (1 | a) +
        (x | b)". A group is a column, or the values of two together, (1 | a:b); (1 | a / b) is
        (1 | a) + (1 | a:b), for b nested in a.
    reml : bool, default=False
        Whether to maximise the restricted likelihood.

    Attributes
    ----------
    coef_, coef_names_ : array of shape (p,), list of str
        Fixed effects; 0, with a standard error of NaN, for columns that are linear combinations of
        those before them.
    coef_std_errors_, coef_covariance_ : array of shape (p,), array of shape (p, p)
        From the expected information, as in lme4.
    coef_degrees_of_freedom_ : array of shape (p,)
        Satterthwaite's.
    random_covariance_, random_names_ : dict of arrays of shape (q, q), dict of lists of str
        Omega_j and its effects, by the name of the grouping factor.
    noise_variance_ : float
        sigma^2.
    log_likelihood_, restricted_log_likelihood_ : float
        The log-likelihoods of all data under the estimated parameters.
    groups_, random_effects_ : dict of arrays of shape (m,), dict of arrays of shape (m, q)
        Groups of every factor, and E[z | y].
    n_observations_ : int
        The number of rows.
    converged_ : bool
        Whether the slope of the deviance is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from mixfold import CrossedMixedModel
    >>> rng = np.random.default_rng(0)
    >>> pupil, test = np.repeat(np.arange(100), 20), np.tile(np.arange(20), 100)
    >>> mark = 50 + 5 * rng.normal(size=100)[pupil] + 3 * rng.normal(size=20)[test]
    >>> table = {"mark": mark + rng.normal(size=2000), "pupil": pupil, "test": test}
    >>> model = CrossedMixedModel("mark ~ 1 + (1 | pupil) + (1 | test)", reml=True).fit(table)
    >>> [(row.name, round(row.estimate)) for row in model.variance_intervals()]
    [('pupil: Intercept', 5), ('test: Intercept', 3), ('noise', 1)]

    References
    ----------
    Bates, Maechler, Bolker and Walker (2015), Fitting linear mixed-effects models using lme4.
    """

    _learned: LearnedCrossed
    _learns: ClassVar[type] = LearnedCrossed

    def __init__(self, formula: str | None = None, *, reml: bool = False) -> None:
        self.formula = formula
        self.reml = reml

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : table, dict of columns, path, list of paths or glob
            Rows in any order.
        y : ignored
            The formula names the response.
        """
        with self._learning() as fitted:
            fixed, bars = split_bars(fitted.formula)
            fitted._remember(fitted._fit(bars, read_bars(X, fixed, bars)))
        return self

    def _fit(self, bars: list[Bar], data: list[CrossedRows]) -> LearnedCrossed:
        rows, scaling = data[0], data[0].scaling
        moments = CrossedMoments([each.rows for each in data], rows.a, rows.y)
        sizes = [each.rows.columns.shape[1] for each in data]
        deviance = ProfiledDeviance(moments, float(len(rows.y)), sizes, bool(self.reml))
        half = np.sqrt(0.5 / sum(sizes))
        start = Variances([half * np.eye(q) for q in sizes], 0.5)
        found, converged = deviance.minimize(deviance.coordinates(start))
        roots, noise = deviance.variances(found)
        best = replace(deviance, restricted=False).profile(found)
        likelihood = -0.5 * best.deviance - len(rows.y) * np.log(scaling.scale)
        information = np.asarray(np.linalg.inv(best.covariance), dtype=np.float64)
        effects = moments.effects([root / noise**0.5 for root in roots], best.beta)
        return LearnedCrossed(
            parts=[
                _part(name, bar, each, root, z)
                for name, bar, each, root, z in zip(
                    names_of(bars), bars, data, roots, effects, strict=True
                )
            ],
            beta=best.beta,
            covariance=best.covariance,
            noise_variance=noise,
            reml=bool(self.reml),
            log_likelihood=float(likelihood),
            restricted_log_likelihood=restricted_log_likelihood(
                float(likelihood), information, scaling
            ),
            variance_errors=variance_errors(deviance, found, scaling.turn),
            n_observations=len(rows.y),
            converged=converged,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # the formula has the names of columns of a table
        tags.input_tags.dict = True
        return tags

    def _check_parameters(self) -> None:
        split_bars(self.formula)

    def predict(self, X: Any) -> Array:
        """Responses of rows: A beta, and the random effects of groups in `groups_`.

        A table or file needs the columns of the effects and of groups, not the response.
        """
        check_is_fitted(self)
        parts = [predicted(X, part) for part in self._learned.parts]
        return np.asarray(parts[0][0] @ self.coef_ + sum(effects for _, effects in parts))


def names_of(bars: list[Bar]) -> list[str]:
    """Names of grouping factors: a, or a:b; a second one of the same columns is a.1."""
    seen: Counter[str] = Counter()
    found = []
    for bar in bars:
        name = ":".join(bar.columns)
        found.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def _part(name: str, bar: Bar, data: CrossedRows, root: Array, z: Array) -> LearnedFactor:
    omega = raise_to_floor(root @ root.T, "full", LEAST_VARIANCE, LEAST_SHARE)[0]
    return LearnedFactor(
        name=name,
        columns=bar.columns,
        labels=data.labels,
        design=data.design,
        scaling=data.scaling,
        omega=omega,
        effects=data.scaling.effects(z),
    )
