"""Parameters of Gaussian components."""

from __future__ import annotations

from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class GaussianParams:
    """Means (K, d) and covariance factors; see `families/_covariance.py` for their shapes."""

    means: Array
    factor: Array
