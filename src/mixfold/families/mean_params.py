"""Parameters of families whose components are told by their means alone."""

from __future__ import annotations

from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class MeanParams:
    """Means (K, d) of products over columns."""

    means: Array
