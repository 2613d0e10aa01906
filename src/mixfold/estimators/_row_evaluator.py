"""Single rows evaluated under fixed parameters, without the overhead of arrays of rows."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.missing_cells import has_missing
from mixfold.core.rows import Array
from mixfold.core.value import replace
from mixfold.estimators._cells import Cells
from mixfold.estimators._row_stream import FLOAT64, is_in_range
from mixfold.families.incomplete_rows import with_missing
from mixfold.kernels.choice import kernel_for
from mixfold.models.conditioning import marginal
from mixfold.models.mixture_model import MixtureModel

MOST_PATTERNS = 256  # patterns of missing cells whose marginal distributions are kept
_NUMBERS = frozenset((float, int))  # types of cells that are taken as they are


class RowEvaluator:
    """Evaluates rows of a mixture.

    `names` are those of the columns, if they have any, and `cells` says how the cells of a dict
    become numbers.
    """

    def __init__(
        self, model: MixtureModel, params: Any, names: list[str] | None, cells: Cells
    ) -> None:
        self.model, self.params, self.names, self.cells = model, params, names, cells
        self._columns = None if names is None or cells.levels else frozenset(names)
        self._kernel = kernel_for(model)
        self._prepared = self._kernel.prepare(params)
        self._shape = (model.d,)
        self._marginals: dict[bytes, RowEvaluator | None] = {}
        self._has_bounds = model.family.out_of_support(np.empty((0, model.d))) is not None

    @cached_property
    def for_missing(self) -> RowEvaluator:
        """The same parameters for rows with missing cells."""
        if self.model.family.accepts_missing:
            return self
        model = replace(self.model, family=with_missing(self.model.family))
        return RowEvaluator(model, self.params, self.names, self.cells)

    def of_observed(self, there: np.ndarray) -> RowEvaluator | None:
        """The marginal distribution of these columns, if it has a density of the same kind."""
        pattern = there.tobytes()
        if pattern not in self._marginals and len(self._marginals) < MOST_PATTERNS:
            self._marginals[pattern] = self._marginal(np.flatnonzero(there))
        return self._marginals.get(pattern)

    def _marginal(self, columns: np.ndarray) -> RowEvaluator | None:
        if type(self.model) is not MixtureModel or not len(columns):
            return None
        try:
            model, params = marginal(self.model, self.params, columns.tolist())
        except InvalidInputError:  # the family has no marginal distributions
            return None
        model = replace(model, family=model.family.for_complete_rows())
        return RowEvaluator(model, params, None, self.cells)

    def with_params(self, params: Any) -> RowEvaluator:
        """The same model with other parameters."""
        other = copy(self)
        other._marginals = {}
        other.__dict__.pop("for_missing", None)
        other.params, other._prepared = params, self._kernel.prepare(params)
        return other

    def takes(self, x: Any) -> bool:
        """Whether `x` is a plain row of the right length."""
        return type(x) is np.ndarray and x.dtype == FLOAT64 and x.shape == self._shape

    def is_plain(self, cells: dict[str, Any]) -> bool:
        """Whether a dict has numbers for all columns, in any order."""
        return cells.keys() == self._columns and _NUMBERS.issuperset(map(type, cells.values()))

    def in_order(self, cells: dict[str, Any]) -> Array:
        """The numbers of a plain dict in the order of the columns."""
        return np.array([cells[name] for name in self.names or ()], dtype=np.float64)

    def is_usual(self, x: Array) -> bool:
        """Whether all cells are there, and are values of the family's support."""
        if not is_in_range(x):
            return False
        outside = self.model.family.out_of_support(x[None]) if self._has_bounds else None
        return outside is None or not outside.any()

    def log_density(self, x: Array) -> float:
        """log p(x)."""
        return float(self._kernel.posterior(self._prepared, x[None], False)[0][0])

    def log_densities(self, x: Array) -> Array:
        """log p of every row (n,), whose cells may be missing; the same numbers as one by one."""
        missing = np.isnan(x).any(axis=1) if has_missing(x) else None
        if missing is None or self.model.family.accepts_missing:
            return np.asarray(self._kernel.posterior(self._prepared, x, False)[0])
        found = np.empty(len(x))
        for chosen, evaluator in ((missing, self.for_missing), (~missing, self)):
            if chosen.any():
                found[chosen] = evaluator.log_densities(x[chosen])
        return found

    def responsibilities(self, x: Array) -> Array:
        """The probabilities of the components (K,), given the row."""
        found = self._kernel.posterior(self._prepared, x[None], True)[1]
        assert found is not None
        own: Array = found[0]
        return own
