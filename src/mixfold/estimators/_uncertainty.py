"""Standard errors and confidence intervals of fitted mixtures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.checks import check_whole
from mixfold.core.errors import InvalidInputError, unknown_name, warn
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Array, Rows, in_tiles
from mixfold.core.source import Source
from mixfold.core.value import replace
from mixfold.estimators._cells import cells_of
from mixfold.estimators._conditioning import Conditioning
from mixfold.estimators._edge import check_rows, open_data, seed_from
from mixfold.estimators._learned import Learned
from mixfold.estimators._noise import check_no_noise
from mixfold.families.incomplete_rows import with_missing
from mixfold.families.product import Product
from mixfold.fitting.bootstrap import parametric_replicates, weighted_replicates
from mixfold.fitting.loop import check_some
from mixfold.fitting.placement import DEFAULT
from mixfold.models.estimate_covariance import KINDS, bootstrap_estimates, estimates
from mixfold.models.estimates import Estimates, Intervals, Labels
from mixfold.models.information import InformationSums, MixtureScores
from mixfold.models.mixture_model import MixtureBackend, MixtureModel

BOOTSTRAPS = ("bootstrap", "parametric-bootstrap")
REPLICATES = 200
MOST_NAMED = 12
FAR = 0.5  # nats below the maximum: one standard error


class Uncertainty(Conditioning):
    """Estimates with their errors."""

    def estimates(
        self,
        X: Any,
        kind: str = "observed",
        sample_weight: Any = None,
        n_replicates: int = REPLICATES,
        random_state: Any = None,
    ) -> Estimates:
        """Estimates with standard errors, covariances and confidence intervals.

        Parameters
        ----------
        X : array, table, path or blocks
            The rows that the model was fitted to. They are read once, and several times for the
            bootstrap.
        kind : str, default="observed"
            "observed" inverts the second derivatives of the log-likelihood at its maximum, and
            "empirical" the sum of the products of the rows' scores. "sandwich" is valid too if the
            family is wrong. "bootstrap" learns replicates from rows with
            Poisson(1) weights, all in the same passes over the data, and "parametric-bootstrap"
            from rows that are drawn from the model.
        sample_weight : array of n weights, or for tables and files the name of a column
            A weight of v counts as v rows.
        n_replicates : int, default=200
            The number of bootstrap replicates.
        random_state : int, RandomState or Generator, default=None
            The seed of the bootstrap; None is that of the estimator.

        Returns
        -------
        Estimates
            Its `summary()` is a table, `covariance` a matrix, and `names` are those of its rows.
            A warning names parameters that the rows cannot tell apart.

        Examples
        --------
        >>> from mixfold import Mixture, datasets
        >>> rows = datasets.load_faithful()
        >>> model = Mixture(n_components=2, random_state=0).fit(rows)
        >>> model.estimates(rows).standard_errors()["weights"].round(3)
        array([0.029, 0.029])
        """
        if kind not in (*KINDS, *BOOTSTRAPS):
            raise unknown_name("kind", kind, [*KINDS, *BOOTSTRAPS])
        check_whole("n_replicates", n_replicates, 2)
        check_is_fitted(self)
        model = self._twin()
        reader = _Reader(model, X, sample_weight)
        if kind in KINDS:
            found = reader.informed(kind)
        else:
            seed = self.random_state if random_state is None else random_state
            found = reader.bootstrapped(kind, n_replicates, seed_from(seed))
        _warn(found)
        return found

    def standard_errors(self, X: Any, kind: str = "observed", **options: Any) -> dict[str, Array]:
        """Standard errors by name and in the shape of the fitted attributes: see `estimates`."""
        return self.estimates(X, kind, **options).standard_errors()

    def confidence_intervals(
        self, X: Any, level: float = 0.95, kind: str = "observed", **options: Any
    ) -> Intervals:
        """Lower and upper ends of confidence intervals by name: see `estimates`."""
        return self.estimates(X, kind, **options).confidence_intervals(level)

    def summary(self, X: Any, level: float = 0.95, kind: str = "observed", **options: Any) -> str:
        """A table of estimates, standard errors and intervals, as statsmodels prints it."""
        return self.estimates(X, kind, **options).summary(level)


def _warn(found: Estimates) -> None:
    """Warn of parameters without errors, and of errors of other than maximum-likelihood estimates.

    Of many parameters the first are named.
    """
    if found.not_identified:
        some, rest = found.not_identified[:MOST_NAMED], len(found.not_identified) - MOST_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        warn(
            f"the rows cannot tell apart {', '.join(some)}{more}: these have no standard error; "
            "use fewer components or more rows, and learner='em' to reach the maximum"
        )
    elif found.left_to_gain > FAR:
        warn(
            f"the log-likelihood of these rows is about {found.left_to_gain:.3g} below its "
            "maximum, for which standard errors hold: use the rows of fit, and learner='em'"
        )


class _Reader:
    """The rows of a user's data for a fitted mixture."""

    def __init__(self, estimator: Any, X: Any, sample_weight: Any) -> None:
        learned: Learned = estimator._now()
        check_no_noise(learned.model, "estimates")
        if learned.model.is_constrained:
            raise InvalidInputError(
                "standard errors of models with fixed or shared parameters, or a prior, are not "
                "known: fit without fixed and prior"
            )
        self.params, self._n_threads = learned.params, estimator.n_threads
        complete = learned.model.family.for_complete_rows()
        self.model: MixtureModel = replace(learned.model, family=complete)
        self.scores = MixtureScores(self.model, self.params)
        cells = cells_of(complete, missing=True)
        self.source: Source = open_data(estimator, X, sample_weight, None, reset=False, cells=cells)
        self.labels = _labels(estimator, self.model)

    def blocks(self) -> Iterator[Rows]:
        """Checked blocks."""
        first = 0
        for rows in self.source.blocks():
            numbers = range(first, first + len(rows))
            family = self._backend(has_missing(rows.x)).model.family
            check_rows(family, self.source.columns, rows, numbers)
            first += len(rows)
            yield rows
        check_some(first, first)

    def _backend(self, missing: bool) -> MixtureBackend:
        """The backend for rows that are complete, or of which cells may be missing."""
        return self._backend_for_missing if missing else self._backend_for_complete

    @cached_property
    def _backend_for_complete(self) -> MixtureBackend:
        return DEFAULT.backend(self.model, self._n_threads)

    @cached_property
    def _backend_for_missing(self) -> MixtureBackend:
        family = with_missing(self.model.family)
        return DEFAULT.backend(replace(self.model, family=family), self._n_threads)

    def informed(self, kind: str) -> Estimates:
        """Estimates with errors from the information."""
        sums, total = InformationSums(self.scores), 0.0
        for rows in in_tiles(self.blocks(), self.scores.tile):
            backend = self._backend(has_missing(rows.x))
            log_density, responsibilities = backend.posterior(self.params, rows)
            assert responsibilities is not None
            total += float(rows.weights() @ log_density)
            sums.add(rows, np.asarray(responsibilities, dtype=np.float64))
        return estimates(sums, kind, self.labels, total)

    def bootstrapped(self, kind: str, n_replicates: int, seed: int) -> Estimates:
        """Estimates with errors from replicates."""
        if not self.source.rereadable:
            raise InvalidInputError(
                "X can be read only once, and the bootstrap needs several passes: give an array or "
                "files, or use kind='observed'"
            )
        n, total, missing = 0, 0.0, False
        for rows in self.blocks():
            n += len(rows)
            missing |= has_missing(rows.x)
            log_density = self._backend(has_missing(rows.x)).posterior(self.params, rows, False)[0]
            total += float(rows.weights() @ log_density)
        if kind == "bootstrap":
            backend = self._backend(missing)
            found = weighted_replicates(backend, self.params, self.blocks, n_replicates, seed)
        elif missing:
            raise InvalidInputError(
                "X has missing cells, and rows that are drawn from the model have none: use "
                "kind='bootstrap' or kind='observed'"
            )
        else:
            complete = self._backend(False)
            found = parametric_replicates(complete, self.params, n, n_replicates, seed)
        return bootstrap_estimates(self.scores, found, kind, self.labels, n, total)


def _labels(estimator: Any, model: MixtureModel) -> Labels:
    """Names of the columns, and of levels where values are coded."""
    columns = list(getattr(estimator, "feature_names_in_", range(model.d)))
    family, levels = model.family, {}
    if isinstance(family, Product):
        for factor in family.factors:
            if factor.levels is not None and factor.positions is not None:
                levels[factor.positions[0]] = factor.levels
    return Labels(columns, levels)
