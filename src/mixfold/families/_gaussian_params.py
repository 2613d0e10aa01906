"""Parameters of Gaussian components."""

from __future__ import annotations

import numpy as np

from mixfold.core.rows import Array
from mixfold.core.value import value


@value
class GaussianParams:
    """Means (K, d) and covariance factors; see `families/_covariance.py` for their shapes."""

    means: Array
    scale: Array

    def rescaled(self, offset: Array, scale: Array) -> GaussianParams:
        """Those of `offset + scale * x`, column by column."""
        wide = scale if self.scale.ndim == 2 else scale[:, None]
        return GaussianParams(self.means * scale + offset, self.scale * wide)


def scipy_log_density(params: GaussianParams, x: Array) -> Array:
    """log p(x|k), (n, K), by scipy, of components with Cholesky factors (K, d, d)."""
    from scipy.stats import multivariate_normal

    covariances = params.scale @ params.scale.swapaxes(1, 2)
    each = zip(params.means, covariances, strict=True)
    return np.stack([multivariate_normal.logpdf(x, mu, sigma) for mu, sigma in each], axis=1)
