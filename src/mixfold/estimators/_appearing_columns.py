"""Estimators to whose rows columns are added."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from mixfold.core.errors import InvalidInputError, LearningWarning
from mixfold.core.family import Family
from mixfold.estimators._labelled_data import Labelling
from mixfold.estimators._labelled_learning import LabelledLearning
from mixfold.estimators._learned import Learned
from mixfold.estimators._mixture_settings import MixtureSettings
from mixfold.estimators._new_columns import (
    AUTO,
    ERROR,
    IGNORE,
    LEARN,
    MOST_IGNORED,
    REMEDY,
    why_not_learned,
    with_new_columns,
)


class AppearingColumns(LabelledLearning):
    """A mixture that learns or ignores columns that the first rows did not have."""

    columns: Any = None
    new_columns: str = ERROR
    _ignored: frozenset[str] = frozenset()  # new columns of which was warned
    _expected: tuple[Any, frozenset[str]] | None = None  # names of columns that are not new

    # defined by subclasses

    def _family(self) -> Family:
        raise AssertionError("every estimator names its family")

    def _settings(self, family: Family | None = None) -> MixtureSettings:
        raise AssertionError("every estimator has settings")

    def _learn_more(
        self, settings: MixtureSettings, X: Any, sample_weight: Any, labelling: Labelling
    ) -> None:
        raise AssertionError("every estimator learns more rows")

    @property
    def _typed(self) -> bool:
        """Whether the family depends on the types of the columns."""
        return False

    def _has_new_columns(self, row: dict[str, Any]) -> bool:
        """Whether a row has columns that are neither learned nor known to be ignored."""
        names, expected = getattr(self, "feature_names_in_", None), self._expected
        if names is None:
            return False
        if expected is None or expected[0] is not names:
            self._expected = expected = names, frozenset(names) | self._ignored
        return not row.keys() <= expected[1]

    def _take_in(self, columns: Iterable[str], needed: str = "") -> None:
        """Learn columns that were not there before, or warn once that they are ignored.

        `needed` is what learning them would need, if the caller does not have it.
        """
        known = getattr(self, "feature_names_in_", None)
        if known is None or self.columns is not None:
            return
        new = [name for name in columns if name not in self._ignored and name not in known]
        if not new:
            return
        why = "" if self.new_columns == IGNORE else needed or self._why_not_learned()
        if why and self.new_columns == LEARN:
            raise InvalidInputError(
                f"there are new columns, {new}, and new_columns='learn' needs {why}: {REMEDY}, or "
                "use new_columns='ignore'"
            )
        if why or self.new_columns == IGNORE:
            if len(self._ignored) < MOST_IGNORED:
                reason = f", as learning them needs {why}: {REMEDY}" if why else ""
                message = f"new columns are ignored: {new}{reason}"
                warnings.warn(message, LearningWarning, stacklevel=3)
                self._ignored, self._expected = self._ignored | set(new), None
            return
        if self.new_columns == AUTO:
            message = f"new columns are learned, with missing cells in all rows before: {new}"
            warnings.warn(message, LearningWarning, stacklevel=3)
        self._widen(list(known), new)

    def _so_far(self) -> Learned:
        """What is learned, with the state of the stream up to date."""
        return self._learned if self._live is None else self._live.learned()

    def _why_not_learned(self) -> str:
        """Why new columns cannot be learned, or an empty text."""
        allowed = self._allows_missing
        return why_not_learned(self._so_far(), self._typed, self._has_labels, allowed)

    def _widen(self, known: list[str], new: list[str]) -> None:
        """Learn all rows again, with missing cells in the new columns."""
        with self._learning() as model:
            rows: Any = with_new_columns(model._so_far(), known, new)
            for name in ("_learned", "_live", "_copies", *model._shows):
                model.__dict__.pop(name, None)
            rows, labelling = model._divided(rows, None, None)
            model._learn_more(model._settings(model._family()), rows, None, labelling)
