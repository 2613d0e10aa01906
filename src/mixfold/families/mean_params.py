"""Parameters of families whose only parameters are the means."""

from __future__ import annotations

from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class MeanParams:
    """Means (K, d) of products over columns."""

    means: Array
