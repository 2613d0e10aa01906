"""The methods of mixtures for single rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixfold.core.rows import Array, Rows
from mixfold.estimators._edge import check_rows
from mixfold.estimators._learned import Learned
from mixfold.estimators._live_row_evaluator import LiveRowEvaluator
from mixfold.estimators._row_evaluator import RowEvaluator
from mixfold.estimators._row_stream import FLOAT64, CompiledRowStream
from mixfold.estimators._streaming import Streaming
from mixfold.models.mixture_model import MixtureModel

FEW_ROWS = 1024  # that are evaluated without the overhead of blocks


class SingleRows(Streaming):
    """A mixture that evaluates one row in some microseconds."""

    _evaluator: tuple[Any, RowEvaluator, Any] | None = None  # for these parameters, and its stream
    _on_stream: LiveRowEvaluator | None = None

    def score_one(self, x: Any) -> float:
        """Log-density of one row, given as an array of d numbers, or a dict or Series of columns.

        Columns that a dict lacks are missing cells, where these are integrated out.
        """
        evaluator, row = self._evaluated_one(x)
        return evaluator.log_density(row)

    def predict_proba_one(self, x: Any) -> Array:
        """Responsibilities (K,) of the components for one row."""
        evaluator, row = self._evaluated_one(x)
        return evaluator.responsibilities(row)

    def predict_one(self, x: Any) -> int:
        """The most probable component of one row; -1 where noise is more probable than all."""
        evaluator, row = self._evaluated_one(x)
        label = int(evaluator.responsibilities(row).argmax())
        return label if label < evaluator.model.k else -1

    def score_samples(self, X: Any) -> Any:
        """Log-density of every row; a tensor if X is one on a device.

        A dict of columns is a single row, as in `score_one`.
        """
        if type(X) is dict and _is_row(X):
            return np.array([self.score_one(X)])
        plain = type(X) is np.ndarray and X.dtype == FLOAT64 and X.ndim == 2
        if not plain or self.engine is not None or "feature_names_in_" in self.__dict__:
            return super().score_samples(X)
        if len(X) == 1:
            return np.array([self.score_one(X[0])])
        few = 1 < len(X) <= FEW_ROWS
        evaluator = self._row_evaluator() if few else None
        if evaluator is None or X.shape[1] != evaluator.model.d:
            return super().score_samples(X)
        inside = evaluator.bounds.contain_all(X)
        return evaluator.log_densities(X) if inside else super().score_samples(X)

    def _evaluated_one(self, x: Any) -> tuple[RowEvaluator | LiveRowEvaluator, Array]:
        """A row as numbers, and what evaluates it under the current parameters."""
        live = self.__dict__.get("_live")
        if isinstance(live, CompiledRowStream) and live.can_evaluate:
            on_stream = self._on_stream
            if on_stream is None or on_stream.stream is not live:
                on_stream = LiveRowEvaluator(self._row_evaluator(), live)
                self._on_stream = on_stream
            known = on_stream.known
            row = x if known.takes(x) else self._numbers_of(x, known)
            if known.bounds.contain(row):
                return on_stream, row
        return self._evaluated_by(self._row_evaluator(), x)

    def _evaluated_by(self, evaluator: RowEvaluator, x: Any) -> tuple[RowEvaluator, Array]:
        """The evaluator of a row, or that for its missing cells, and the numbers it takes."""
        if not evaluator.takes(x):
            x = self._numbers_of(x, evaluator)
        if evaluator.bounds.contain(x):
            return evaluator, x
        there = x == x  # noqa: PLR0124 - false for NaN
        pattern = there.tobytes()
        if self._allows_missing and b"\0" in pattern:
            smaller, observed = evaluator.of_observed(pattern), x[there]
            if smaller is not None and smaller.bounds.contain(observed):
                return smaller, observed
            evaluator = evaluator.for_missing
        names = getattr(self, "feature_names_in_", None)
        check_rows(evaluator.model.family, names, Rows(x[None]), [0])
        return evaluator, x

    def _row_as_numbers(self, evaluator: RowEvaluator, x: Any) -> Array:
        """All numbers of a row, NaN for missing cells."""
        return x if evaluator.takes(x) else self._numbers_of(x, evaluator)

    def _numbers_of(self, x: Any, evaluator: RowEvaluator) -> Array:
        """The numbers of a row in the order of the columns."""
        plain = evaluator.numbers(x) if type(x) is dict else None
        if plain is not None:
            return plain
        x = self._named_cells(x)
        if isinstance(x, dict):
            numbers, get = evaluator.cells.number, x.get
            x = [numbers(name, get(name)) for name in self._names_of(x)]
        row = np.array(x, dtype=np.float64).reshape(-1)
        if not evaluator.takes(row):
            next(self._rows(row[None], self._now()))  # says how many columns are needed
        return row

    def _row_evaluator(self) -> RowEvaluator:
        """What evaluates rows under the current parameters."""
        live, known = self.__dict__.get("_live"), self._evaluator
        if known is not None and isinstance(live, CompiledRowStream) and known[2] is live:
            params = live.params()
            if known[0] is not params:
                self._evaluator = known = params, known[1].with_params(params), live
            return known[1]
        learned = self._with_current_params()
        if known is not None and known[0] is learned.params:
            return known[1]
        found = self._row_evaluator_for(learned.model, self._evaluated(learned))
        self._evaluator = learned.params, found, live
        return found

    def _row_evaluator_for(self, model: MixtureModel, params: Any) -> RowEvaluator:
        """What evaluates rows under given parameters."""
        cells = self._cells_of(model.family, self._allows_missing)
        names = getattr(self, "feature_names_in_", self.columns)
        return RowEvaluator(model, params, None if names is None else list(names), cells)

    def _with_current_params(self) -> Learned:
        """The learned state, which may lack rows that have not changed the parameters."""
        here = self.__dict__  # read once: another thread may replace it
        live = here.get("_live")
        if live is not None:
            return live.unchanged() or self._twin()._now()
        if "_learned" not in here:
            check_is_fitted(self)
        return self._now()

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        for name in ("_evaluator", "_on_stream"):
            state.pop(name, None)
        return state


def _is_row(cells: dict[Any, Any]) -> bool:
    """Whether a dict has a single value in every column."""
    return not any(hasattr(x, "__len__") and not isinstance(x, str) for x in cells.values())
