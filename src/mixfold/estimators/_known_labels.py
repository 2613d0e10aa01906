"""Known labels of some rows: the components that each label stands for, and its codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixfold.core.checks import check_kind
from mixfold.core.errors import InvalidInputError
from mixfold.core.rows import Array
from mixfold.core.value import value
from mixfold.families.labelled_rows import UNKNOWN
from mixfold.sources.table import is_missing, listed

NUMBERS = "biuf"  # kinds of arrays of numbers
UNKNOWN_LABELS = "-1, None or NaN where it is not known"


@value
class KnownLabels:
    """The names of labels, whose codes are their places, and the components of each, (C, K)."""

    names: list[Any]
    allowed: NDArray[np.bool_]

    def check(self, k: int) -> None:
        """Refuse labels of another number of components, and those of none."""
        check_kind("allowed", self.allowed, np.ndarray)
        if self.allowed.shape != (len(self.names), k) or not self.allowed.any(axis=1).all():
            raise InvalidInputError(
                f"{len(self.names)} labels have components of shape {self.allowed.shape}: "
                f"({len(self.names)}, {k}) is needed, with a component for each"
            )

    @property
    def is_complete(self) -> bool:
        """Whether every component has a label of its own."""
        return bool(self.allowed[self.allowed.sum(axis=1) == 1].any(axis=0).all())

    @property
    def has_text(self) -> bool:
        """Whether labels are text."""
        return any(isinstance(name, str) for name in self.names)

    def codes(self, labels: Any, n: int) -> Array:
        """The codes of the labels of n rows; -1 where a label is not known."""
        given = label_array(labels)
        if given.shape != (n,):
            raise InvalidInputError(
                f"labels has shape {given.shape}: one label for each of {n:,} rows is needed, "
                f"{UNKNOWN_LABELS}"
            )
        return self.codes_of_numbers(given) if given.dtype.kind in NUMBERS else self._coded(given)

    def codes_of_numbers(self, given: NDArray[Any]) -> Array:
        """The codes of labels that are numbers."""
        found = np.full(len(given), UNKNOWN)
        there = known_in(given)
        numbers, places = np.unique(given[there], return_inverse=True)
        found[there] = np.array([self._code(one) for one in numbers.tolist()])[places]
        return found

    def codes_in_table(self, column: Array) -> Array:
        """The codes of a column as tables are read, where text has its codes already."""
        if self.has_text:
            return np.nan_to_num(column.astype(np.float64), nan=UNKNOWN)
        return self.codes_of_numbers(column)

    def _coded(self, given: NDArray[Any]) -> Array:
        kinds = {name: self._code(name) for name in set(given[known_in(given)].tolist())}
        return np.array([kinds.get(name, UNKNOWN) for name in given.tolist()])

    def _code(self, name: Any) -> float:
        if name in self.names:
            return float(self.names.index(name))
        raise InvalidInputError(
            f"labels has {name!r}; the labels are {listed(self.names)}, and {UNKNOWN_LABELS}: to "
            "use other names, list them in classes=[...], in the order of the components"
        )


def label_array(labels: Any) -> NDArray[Any]:
    """Labels as an array of numbers, or of any objects."""
    if hasattr(labels, "to_numpy"):
        labels = labels.to_numpy()
    found = np.asarray(labels)
    if found.dtype.kind in NUMBERS:
        return found
    return np.asarray(labels, dtype=object)


def known_in(given: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are known."""
    if given.dtype.kind in NUMBERS:
        return np.asarray((given == given) & (given != UNKNOWN))  # noqa: PLR0124 - not NaN
    return np.array([not (is_missing(one) or one == UNKNOWN) for one in given.tolist()], dtype=bool)


def named_labels(classes: Sequence[Any] | None, found: Sequence[Any], k: int) -> KnownLabels:
    """Labels for K components: the given classes, else those that were found in the data.

    Numbers that were found are those of components, and names are sorted. A class that is given
    several times has several components.
    """
    if classes is None:
        if not any(isinstance(name, str) for name in found):
            return KnownLabels(list(range(k)), np.eye(k, dtype=bool))
        if not all(isinstance(name, str) for name in found):
            raise InvalidInputError(
                f"labels are text and other values, {listed(list(found))}: name all labels alike, "
                "or list them in classes=[...]"
            )
        classes = sorted(found)
    if len(classes) > k:
        raise InvalidInputError(
            f"there are {len(classes)} labels, {listed(list(classes))}, and n_components is {k}: "
            f"set n_components={len(classes)} or more"
        )
    names = list(dict.fromkeys(classes))
    allowed = np.zeros((len(names), k), dtype=bool)
    for component, name in enumerate(classes):
        allowed[names.index(name), component] = True
    return KnownLabels(names, allowed)


def check_classes(classes: Any) -> None:
    """Refuse names of classes that are not a list of text or numbers."""
    if classes is None:
        return
    good = isinstance(classes, list | tuple) and len(classes) > 0
    if not good or not all(isinstance(one, str | int | float) for one in classes):
        raise InvalidInputError(
            f"classes is {classes!r}: a list of names or numbers is needed, one for each of the "
            "first components"
        )
    if any(is_missing(one) or one == UNKNOWN for one in classes):
        raise InvalidInputError(
            f"classes is {classes!r}: -1 and NaN stand for labels that are not known, and name none"
        )


def check_some_known(codes: Array) -> None:
    """Refuse labels none of which is known."""
    if not (codes != UNKNOWN).any():
        raise InvalidInputError(
            "labels has no known label: give one for some rows, or leave labels out"
        )
