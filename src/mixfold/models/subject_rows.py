"""Conversion of observations of groups to the rows of linear mixed models."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.statistics import lower_triangle


def subject_rows(a: Array, b: Array, r: Array, starts: np.ndarray) -> Array:
    """Subjects (m, d) from the observations of m groups that begin at `starts`."""
    columns = [np.ascontiguousarray(column) for column in (*a.T, *b.T, r)]
    pairs = np.stack(lower_triangle(len(columns)), axis=1)
    subjects = np.empty((len(starts), len(pairs) + 1))
    for target, (i, j) in zip(subjects.T, pairs, strict=False):
        target[:] = np.add.reduceat(columns[i] * columns[j], starts)
    subjects[:, -1] = np.diff(starts, append=len(r))
    return subjects
