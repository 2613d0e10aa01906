"""Parameters of Gaussian components."""

from __future__ import annotations

from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class GaussianParams:
    """Means (K, d) and covariance factors; see `families/_covariance.py` for their shapes."""

    means: Array
    factor: Array

    def rescaled(self, offset: Array, scale: Array) -> GaussianParams:
        """Those of `offset + scale * x`, column by column."""
        wide = scale if self.factor.ndim == 2 else scale[:, None]
        return GaussianParams(self.means * scale + offset, self.factor * wide)
