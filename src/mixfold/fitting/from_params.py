"""Initial parameters that the user gives."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from mixfold.core.errors import InvalidInputError
from mixfold.core.initializer import Initializer
from mixfold.core.limits import LARGEST
from mixfold.core.rows import Rows
from mixfold.core.value import flatten, value
from mixfold.families.labelled_rows import LabelledRows, without_labels
from mixfold.models.assignment import from_centers, from_labels
from mixfold.models.labelled import without_label_column
from mixfold.models.mixture_model import MixtureModel, MixtureParams


def shapes(components: Any) -> tuple[Any, list[tuple[int, ...]]]:
    """The kinds of parameters, by name, and the shape of each, those of location first."""
    arrays: dict[str, np.ndarray] = {}
    return flatten(components, "", arrays), [array.shape for array in arrays.values()]


@value
class FromParams(Initializer[MixtureModel, MixtureParams]):
    """Given parameters, or given means, which are then the centres of the nearest rows."""

    params: Any
    random = False

    def draw(self, model: MixtureModel, rows: Rows, rng: np.random.Generator) -> MixtureParams:
        if isinstance(model.family, LabelledRows):
            model, rows = without_label_column(model), without_labels(rows)
        if isinstance(self.params, MixtureParams):
            self._check_family(model, from_labels(model, rows.cut(0, 1), np.zeros(1, dtype=int)))
            params = model.initial(self.params)
            model.check_params(params)
            return params
        try:
            means = np.asarray(self.params, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"init is {self.params!r}: means are needed ({error})"
            ) from None
        self._check(model, means)
        return from_centers(model, rows, means)

    def _check_family(self, model: MixtureModel, like: MixtureParams) -> None:
        found, needed = shapes(self.params.components), shapes(like.components)
        if found[1][:1] != needed[1][:1]:
            self._refuse_shape(found[1][0], needed[1][0])
        if found != needed:
            raise InvalidInputError(
                f"init has {type(self.params.components).__name__} of another family or covariance:"
                f" those of {model.family!r} are needed; or give its means_ alone"
            )

    def _refuse_shape(self, found: tuple[int, ...], needed: tuple[int, ...]) -> NoReturn:
        raise InvalidInputError(
            f"init has means of shape {found}: {needed} is needed (n_components, columns)"
        )

    def _check(self, model: MixtureModel, means: np.ndarray) -> None:
        if means.shape != (model.k, model.d):
            self._refuse_shape(means.shape, (model.k, model.d))
        if not (np.abs(means) < LARGEST).all():  # true for NaN
            raise InvalidInputError(
                f"init has means that are not finite, or not below {LARGEST:g} in size"
            )
