"""What a fitted mixture says about some columns given others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.data_limits import without_limits
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array as Floats
from mixfold.core.rows import Rows
from mixfold.estimators._cells import COMPLETE, Cells, decoded
from mixfold.estimators._column_names import known_name
from mixfold.estimators._density import Density
from mixfold.estimators._edge import check_rows, seed_from
from mixfold.estimators._frames import is_frame
from mixfold.estimators._learned import Learned
from mixfold.estimators._noise import check_no_noise
from mixfold.estimators._shaped import cells_of_rows, in_form_of_x
from mixfold.fitting.history import no_history
from mixfold.fitting.stream import Stream
from mixfold.learners.em import EM
from mixfold.models.conditioning import conditional, contributions, incomplete, marginal
from mixfold.models.imputation import impute
from mixfold.models.mixture_model import MixtureModel, MixtureParams, count_degenerate
from mixfold.sources.opening import is_paths, is_table


class Conditioning(Density):
    """Marginal and conditional mixtures, imputation, and explanations of scores."""

    @in_form_of_x(cells_of_rows, lazy=False)
    def impute(self, X: Any, method: str = "mean", random_state: Any = None) -> Any:
        """Fill the missing cells of rows from the cells that are observed.

        Parameters
        ----------
        X : array, table or path
        method : {"mean", "mode", "draw"}, default="mean"
            "mean" is the conditional mean of numbers, also of counts, and the most probable level
            of categories; "mode" the centre of the most probable component; "draw" a draw from the
            conditional distribution, for multiple imputation.
        random_state : int, RandomState or Generator, default=None
            The seed of draws; None is that of the estimator.

        Returns
        -------
        An array, or a table with the same columns if X is one.
        """
        check_is_fitted(self)
        model = self._twin()
        learned, seed = model._current(), random_state
        check_no_noise(learned.model, "impute")
        rng = np.random.default_rng(seed_from(self.random_state if seed is None else seed))
        blocks = model._rows(X, learned)
        done = [impute(learned.model, learned.params, rows.x, method, rng) for rows in blocks]
        return self._as_given(X, np.concatenate(done))

    @in_form_of_x(cells_of_rows)
    def explain(self, X: Any) -> Any:
        """The contribution of every cell to the log-density of its row, given the other cells.

        It is log p(x) less the log-density of the row without the cell, so that the smallest
        contributions say which columns make a score unusual. NaN where a cell is missing.
        """
        check_is_fitted(self)
        model = self._twin()
        learned = model._current()
        check_no_noise(learned.model, "explain")
        blocks = model._rows(X, learned)
        found = [contributions(learned.model, learned.params, rows.x) for rows in blocks]
        return self._as_given(X, np.concatenate(found), COMPLETE)

    def marginal(self, columns: Sequence[str | int]) -> Self:
        """The mixture of some of the columns, as a fitted estimator."""
        check_is_fitted(self)
        if isinstance(columns, str):
            raise InvalidInputError(f"columns is {columns!r}: give a list of columns")
        learned, chosen = self._now(), [self._number(column) for column in columns]
        check_no_noise(learned.model, "marginal")
        found = marginal(learned.model, learned.params, chosen)
        return self._of(*found, chosen)

    def conditional(self, given: Mapping[Any, Any]) -> Self:
        """The mixture of the other columns, given the values of some, as a fitted estimator.

        Its means are a mixture of regressions on the given columns.
        """
        check_is_fitted(self)
        if not isinstance(given, Mapping):
            raise InvalidInputError(f"given is {given!r}: give a dict of columns and their values")
        learned = self._now()
        check_no_noise(learned.model, "conditional")
        cells = self._cells_of(learned.model.family, True)
        names, known = getattr(self, "feature_names_in_", None), {}
        for column, value in given.items():
            known[self._number(column)] = number = cells.number(str(column), value)
            if not np.isfinite(number):
                raise InvalidInputError(
                    f"the value of column {column!r} is {value!r}: give a finite number, or leave "
                    "the column out if its value is not known"
                )
        row = np.full((1, learned.n_features), np.nan)
        row[0, list(known)] = list(known.values())
        check_rows(incomplete(learned.model).family, names, Rows(row), None)
        found = conditional(learned.model, learned.params, known)
        rest = [j for j in range(learned.n_features) if j not in known]
        return self._of(*found, rest)

    def _number(self, column: str | int) -> int:
        """The number of a column."""
        names = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        column = known_name(column, names)
        if column in names:
            return names.index(column)
        if isinstance(column, Integral) and 0 <= column < len(names):
            return int(column)
        raise InvalidInputError(
            f"column {column!r} is none of the model's: they are {', '.join(map(repr, names))}"
        )

    def _of(self, model: MixtureModel, params: MixtureParams, chosen: list[int]) -> Self:
        """A fitted estimator of another mixture, of some of the columns."""
        settings = self.get_params(deep=False)
        family = without_limits(model.family).for_complete_rows()
        settings |= {"family": family, "init": "auto", "columns": None, "overrides": None}
        other = type(self)(**settings)
        other._notes = None if self._notes is None else replace(self._notes, reasons=None)
        other.n_features_in_ = model.d
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            other.feature_names_in_ = np.asarray(names, dtype=object)[chosen]
        learned, n_degenerate = self._now(), count_degenerate(model, params)
        found = Learned(
            model,
            EM(),
            Stream(None, None, []),
            params,
            learned.n_seen,
            learned.n_rows,
            learned.n_iter,
            no_history(),
            learned.converged,
            n_degenerate,
            learned.seed,
            False,
        )
        other._remember(found)
        return other

    def _as_given(self, X: Any, x: Floats, cells: Cells | None = None) -> Any:
        """Rows as a table if the data were one, else an array."""
        names = getattr(self, "feature_names_in_", None)
        if names is None or not (is_frame(X) or is_table(X) or is_paths(X)):
            return x
        return decoded(x, list(map(str, names)), self._cells() if cells is None else cells, X)

    def decode(self, x: Floats) -> Any:
        """Rows of numbers as a table with categories and dates; as they are without any."""
        names, cells = getattr(self, "feature_names_in_", None), self._cells()
        if names is None or not (cells.levels or cells.types):
            return x
        return decoded(x, list(map(str, names)), cells)

    def _cells(self) -> Cells:
        return self._cells_of(self._now().model.family, True)

    def sample(self, n_samples: int = 1) -> tuple[Any, np.ndarray]:
        """Rows drawn from the mixture, and their components.

        Rows are a table if the model has categories or dates, else an array.
        """
        x, labels = super().sample(n_samples)
        return self.decode(x), labels
